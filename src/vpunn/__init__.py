"""Learning on hierarchies with exact p-adic codes: one coefficient per ball, every number explained.

This is the table of contents. Light names are imported at once; names that need scikit-learn or heavier libraries are
imported when first asked for, so that ``import vpunn`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vpunn import padic
from vpunn.codes import MixedRadixCode, PadicCode
from vpunn.errors import CodeChangeWarning, CodeError, DataError, TreeError, VpunnError
from vpunn.io import read_tree, write_tree
from vpunn.io.store import load
from vpunn.network import VanDerPutLayer, VPuNN
from vpunn.tree import Tree, check_tree

if TYPE_CHECKING:
    from vpunn import datasets, explain, hipaq, metrics, paper, plot, report, scale, structure, tabular, torch, vapo
    from vpunn.datasets import tasks
    from vpunn.hipan import HiPaNClassifier
    from vpunn.metrics import calibration
    from vpunn.paper.hipan import HiPaN
    from vpunn.regress import PadicEncoder, PadicTargetEncoder, VPuNNClassifier, VPuNNRegressor
    from vpunn.tabular.tabhipan import TabHiPaN
    from vpunn.text import text_features
    from vpunn.vapo import heads

__version__ = "0.2.0"

#: name → module it is imported from on first use (a module imports itself)
_LATER = {
    "HiPaN": "vpunn.paper.hipan",
    "HiPaNClassifier": "vpunn.hipan",
    "PadicEncoder": "vpunn.regress",
    "PadicTargetEncoder": "vpunn.regress",
    "TabHiPaN": "vpunn.tabular.tabhipan",
    "VPuNNClassifier": "vpunn.regress",
    "VPuNNRegressor": "vpunn.regress",
    "calibration": "vpunn.metrics.calibration",
    "datasets": "vpunn.datasets",
    "explain": "vpunn.explain",
    "hipaq": "vpunn.hipaq",
    "metrics": "vpunn.metrics",
    "paper": "vpunn.paper",
    "plot": "vpunn.plot",
    "report": "vpunn.report",
    "scale": "vpunn.scale",
    "structure": "vpunn.structure",
    "tabular": "vpunn.tabular",
    "text_features": "vpunn.text",
    "vapo": "vpunn.vapo",
    "heads": "vpunn.vapo.heads",
    "tasks": "vpunn.datasets.tasks",
    "torch": "vpunn.torch",
}

__all__ = [
    "CodeChangeWarning",
    "CodeError",
    "DataError",
    "HiPaN",
    "HiPaNClassifier",
    "MixedRadixCode",
    "PadicCode",
    "PadicEncoder",
    "PadicTargetEncoder",
    "TabHiPaN",
    "Tree",
    "TreeError",
    "VPuNN",
    "VPuNNClassifier",
    "VPuNNRegressor",
    "VanDerPutLayer",
    "VpunnError",
    "calibration",
    "check_tree",
    "datasets",
    "explain",
    "heads",
    "hipaq",
    "load",
    "metrics",
    "padic",
    "paper",
    "plot",
    "read_tree",
    "report",
    "scale",
    "structure",
    "tabular",
    "tasks",
    "text_features",
    "torch",
    "vapo",
    "write_tree",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vpunn' has no attribute {name!r}")
    module = import_module(_LATER[name])
    value = module if _LATER[name].endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
