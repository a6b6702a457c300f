"""A cluster for the tests of this room."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def no_dashboard():
    """Of a cluster: no dashboard, and any port for what is left of it, or tests that run side by side quarrel about one."""
    return {"dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}


@pytest.fixture(scope="module")
def client(no_dashboard):
    """Two workers in threads of this process: the protocol of a cluster without starting processes."""
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed (extra scale)")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, protocol="inproc", **no_dashboard
        ) as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one
