"""A cluster for the tests of this room."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def client():
    """Two workers in threads of this process: the protocol of a cluster without starting processes."""
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed (extra scale)")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc"
        ) as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one
