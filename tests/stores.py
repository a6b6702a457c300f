"""How tests damage a saved folder."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from vpunn.store._head import seal


def edit_array(folder, name, change, part=None):
    """Replace an array by ``change`` of it and make model.json agree, so that only what the array holds is wrong.

    Its name may be that of its file: ``tree.parent`` is the array ``parent`` of the part ``tree``.
    """
    head = json.loads((folder / "model.json").read_text())
    if part is None and name.partition(".")[0] in head.get("parts", {}):
        part, _, name = name.partition(".")
    file = folder / f"{name if part is None else f'{part}.{name}'}.npy"
    values = change(np.load(file))
    np.save(file, values)
    arrays = (head if part is None else head["parts"][part])["arrays"]
    sum = hashlib.sha256(file.read_bytes()).hexdigest()
    arrays[name] |= {"dtype": values.dtype.str, "shape": list(values.shape), "sha256": sum}
    write_head(folder, head)


def write_head(folder, head):
    """Write an edited model.json with the checksum that fits it."""
    head["sha256"] = seal(head)
    (folder / "model.json").write_text(json.dumps(head))
