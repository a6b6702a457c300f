"""Past one table in memory: exact sums that add up across machines, rows from files and record batches, and dask.distributed.

Four verbs, `predict`, `evaluate`, `encode` and `sum_rows`, take every source (a file, a folder, a pattern, a list, an Arrow data
set, a dask frame), here or on an engine, with the same bytes; three functions fit on an engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpunn.scale.class_sums import ClassSums
    from vpunn.scale.encoding import encode
    from vpunn.scale.fitting import fit_classifier
    from vpunn.scale.heads import minimize_heads
    from vpunn.scale.latent import fit_latent_tree
    from vpunn.scale.predicting import predict
    from vpunn.scale.predictor import Predictor
    from vpunn.scale.scoring import evaluate
    from vpunn.scale.summing import sum_rows
    from vpunn.scale.sums import BallSums, shrunk_centroids
    from vpunn.scale.writing import Written

__all__ = [
    "BallSums",
    "ClassSums",
    "Predictor",
    "Written",
    "encode",
    "evaluate",
    "fit_classifier",
    "fit_latent_tree",
    "minimize_heads",
    "predict",
    "shrunk_centroids",
    "sum_rows",
]

#: name → module, imported when first asked for: encoding labels needs no classifier
_LATER = {
    "BallSums": "sums",
    "ClassSums": "class_sums",
    "Predictor": "predictor",
    "Written": "writing",
    "encode": "encoding",
    "evaluate": "scoring",
    "fit_classifier": "fitting",
    "fit_latent_tree": "latent",
    "minimize_heads": "heads",
    "predict": "predicting",
    "shrunk_centroids": "sums",
    "sum_rows": "summing",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vpunn.scale' has no attribute {name!r}")
    return getattr(import_module(f"vpunn.scale.{_LATER[name]}"), name)
