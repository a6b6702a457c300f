"""Learning on hierarchies with exact p-adic codes: one coefficient per ball, numbers that decompose into balls.

This is the table of contents. Names are imported when first asked for, so that ``import vpunn`` is fast and a command pays for
what it uses.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vpunn.errors import CodeChangeWarning, CodeError, DataError, TreeError, VpunnError

if TYPE_CHECKING:
    from vpunn import (
        codes,
        datasets,
        hipaq,
        io,
        metrics,
        network,
        padic,
        paper,
        plot,
        report,
        scale,
        structure,
        tabular,
        torch,
        tree,
        vapo,
    )
    from vpunn.codes import MixedRadixCode, PadicCode
    from vpunn.datasets import tasks
    from vpunn.explanations import explain
    from vpunn.hipan import HiPaNClassifier
    from vpunn.io import read_tree, write_tree
    from vpunn.metrics import calibration
    from vpunn.network import VanDerPutLayer, VPuNN
    from vpunn.paper.hipan import HiPaN
    from vpunn.regress import PadicEncoder, PadicTargetEncoder, TreeEffects, VPuNNClassifier, VPuNNRegressor
    from vpunn.store import load, save
    from vpunn.tables.frames import fit
    from vpunn.tables.models import TableClassifier
    from vpunn.tables.regressor import TableRegressor
    from vpunn.tabular.tabhipan import TabHiPaN
    from vpunn.text import text_features
    from vpunn.tree import Tree, check_tree
    from vpunn.vapo import heads

__version__ = "0.3.0"

#: name → module it is imported from on first use (a module imports itself)
_LATER = {
    "MixedRadixCode": "vpunn.codes",
    "PadicCode": "vpunn.codes",
    "Tree": "vpunn.tree",
    "VPuNN": "vpunn.network",
    "VanDerPutLayer": "vpunn.network",
    "check_tree": "vpunn.tree",
    "codes": "vpunn.codes",
    "io": "vpunn.io",
    "load": "vpunn.store",
    "save": "vpunn.store",
    "network": "vpunn.network",
    "padic": "vpunn.padic",
    "read_tree": "vpunn.io",
    "tree": "vpunn.tree",
    "write_tree": "vpunn.io",
    "HiPaN": "vpunn.paper.hipan",
    "HiPaNClassifier": "vpunn.hipan",
    "PadicEncoder": "vpunn.regress",
    "PadicTargetEncoder": "vpunn.regress",
    "TabHiPaN": "vpunn.tabular.tabhipan",
    "TableClassifier": "vpunn.tables.models",
    "TableRegressor": "vpunn.tables.regressor",
    "TreeEffects": "vpunn.regress",
    "VPuNNClassifier": "vpunn.regress",
    "VPuNNRegressor": "vpunn.regress",
    "calibration": "vpunn.metrics.calibration",
    "datasets": "vpunn.datasets",
    "fit": "vpunn.tables.frames",
    "explain": "vpunn.explanations",
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
    "TableClassifier",
    "TableRegressor",
    "Tree",
    "TreeEffects",
    "TreeError",
    "VPuNN",
    "VPuNNClassifier",
    "VPuNNRegressor",
    "VanDerPutLayer",
    "VpunnError",
    "calibration",
    "check_tree",
    "codes",
    "datasets",
    "explain",
    "fit",
    "heads",
    "hipaq",
    "io",
    "load",
    "metrics",
    "network",
    "padic",
    "paper",
    "plot",
    "read_tree",
    "report",
    "save",
    "scale",
    "structure",
    "tabular",
    "tasks",
    "text_features",
    "torch",
    "tree",
    "vapo",
    "write_tree",
]


if not os.access(__path__[0], os.W_OK):
    from vpunn._compiled import find_a_place

    find_a_place()


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vpunn' has no attribute {name!r}")
    module = import_module(_LATER[name])
    value = module if _LATER[name].endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
