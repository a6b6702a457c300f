"""How tests damage a saved folder."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from vpunn.store._head import seal


def edit_array(folder, name, change):
    """Replace an array by ``change`` of it and make model.json agree, so that only what the array holds is wrong.

    Its name is that of its file: ``tree.parent`` is the array ``parent`` of the part ``tree``.
    """
    head = json.loads((folder / "model.json").read_text())
    file, inside = folder / f"{name}.npy", head
    while (part := name.partition("."))[0] in inside.get("parts", {}):
        inside, name = inside["parts"][part[0]], part[2]
    values = change(np.load(file))
    np.save(file, values)
    sum = hashlib.sha256(file.read_bytes()).hexdigest()
    inside["arrays"][name] |= {"dtype": values.dtype.str, "shape": list(values.shape), "sha256": sum}
    write_head(folder, head)


def write_head(folder, head):
    """Write an edited model.json with the checksum that fits it."""
    head["sha256"] = seal(head)
    (folder / "model.json").write_text(json.dumps(head))
