"""Models as folders: plain ``.npy`` arrays and one ``model.json`` that says what they are. No pickle.

`Draft` collects what a model consists of and writes it in one swap: a new folder is made beside the old one and takes
its place at the end, so a failed or killed write leaves the old model or the new one. `Stored` opens a folder: big arrays
are memory-mapped, and whatever is read is checked first (kind, dtype, shape, range, order, finiteness), so that even a file
made to do harm is refused or is just another model. `load` also compares the SHA-256 of every file, ``model.json`` included,
about a second per gigabyte; ``verify=False`` leaves that out. A class that derives from `Storable` has ``save`` and
``load``; `load` opens any kind. Arrays that a reader does not ask for are ignored, so a later version may add some.

Any `Storable` may stand inside another: ``draft.add("tree", tree)`` writes it and ``stored.get("tree", Tree)`` reads it. A tree is
one of them, so this room knows none.
"""

from vpunn.store._read import KINDS, OF_TABLES, Storable, Stored, load, save
from vpunn.store._swap import check_replaceable, steady
from vpunn.store._write import PLAIN, Draft

__all__ = ["KINDS", "OF_TABLES", "PLAIN", "Draft", "Storable", "Stored", "check_replaceable", "load", "save", "steady"]
