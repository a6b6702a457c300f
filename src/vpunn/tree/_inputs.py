"""Old place of what is in `vpunn._arrays`."""

from vpunn._arrays import label_array as label_array
from vpunn._arrays import object_array as object_array
