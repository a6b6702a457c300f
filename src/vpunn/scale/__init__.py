"""Past one table in memory: exact sums that add up across machines, streams of record batches, and dask.distributed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpunn.scale.class_sums import ClassSums
    from vpunn.scale.cluster import encode_frame, evaluate_dataset, predict_dataset, predict_frame, sum_rows
    from vpunn.scale.fitting import fit_classifier
    from vpunn.scale.heads import minimize_heads
    from vpunn.scale.latent import fit_latent_tree
    from vpunn.scale.predictor import Predictor
    from vpunn.scale.scores import evaluate_stream
    from vpunn.scale.streams import Written, encode_stream, predict_stream
    from vpunn.scale.sums import BallSums, shrunk_centroids

__all__ = [
    "BallSums",
    "ClassSums",
    "Predictor",
    "Written",
    "encode_frame",
    "encode_stream",
    "evaluate_dataset",
    "evaluate_stream",
    "fit_classifier",
    "fit_latent_tree",
    "minimize_heads",
    "predict_dataset",
    "predict_frame",
    "predict_stream",
    "shrunk_centroids",
    "sum_rows",
]

#: name → module, imported when first asked for: encoding labels needs no classifier
_LATER = {
    "BallSums": "sums",
    "ClassSums": "class_sums",
    "Predictor": "predictor",
    "Written": "streams",
    "encode_frame": "cluster",
    "encode_stream": "streams",
    "evaluate_dataset": "cluster",
    "evaluate_stream": "scores",
    "fit_classifier": "fitting",
    "fit_latent_tree": "latent",
    "minimize_heads": "heads",
    "predict_dataset": "cluster",
    "predict_frame": "cluster",
    "predict_stream": "streams",
    "shrunk_centroids": "sums",
    "sum_rows": "cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vpunn.scale' has no attribute {name!r}")
    return getattr(import_module(f"vpunn.scale.{_LATER[name]}"), name)
