"""Past one table in memory: exact sums that add up across machines, streams of record batches, and dask.distributed."""

from vpunn.scale.sums import BallSums, ClassSums, shrunk_centroids

__all__ = ["BallSums", "ClassSums", "shrunk_centroids"]
