"""Old place of what is in `vpunn.io.tree_tables`."""

from vpunn.io.tree_tables import whole_labels as whole_labels
