"""How tests damage a saved folder."""

from __future__ import annotations

import json

import numpy as np


def edit_array(folder, name, change, part=None):
    """Replace an array by ``change`` of it and make model.json agree, so that only what the array holds is wrong."""
    file = folder / f"{name if part is None else f'{part}.{name}'}.npy"
    values = change(np.load(file))
    np.save(file, values)
    head = json.loads((folder / "model.json").read_text())
    arrays = (head if part is None else head["parts"][part])["arrays"]
    arrays[name] |= {"dtype": values.dtype.str, "shape": list(values.shape)}
    (folder / "model.json").write_text(json.dumps(head))
