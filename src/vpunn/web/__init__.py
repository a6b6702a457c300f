"""The explorer: walk a tree of millions of nodes in a browser, with a model's beliefs lit up, and a prediction service.

`explore` opens it from Python, ``vpunn explore`` and ``vpunn serve`` from the shell. One `Api` answers the page, other programs
and notebooks; the page is plain ES modules in ``assets``, drawn on a canvas from the preorder arrays.
"""

from vpunn.web.opening import as_subject
from vpunn.web.subject import Subject

__all__ = ["Subject", "as_subject"]
