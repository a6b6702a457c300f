"""The classifier that places items on a tree."""
