"""Tests use real data; where a checkout has a folder of it beside it, they look there first."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

# Set before any test runs and inherited by every worker and subprocess. A folder the user names has precedence.
if "VPUNN_DATA_DIR" not in os.environ and BESIDE.is_dir():
    os.environ["VPUNN_DATA_DIR"] = str(BESIDE)

# The first example pays for compiling kernels, so wall-clock deadlines per example mean nothing here.
settings.register_profile("vpunn", deadline=None)
settings.load_profile("vpunn")

#: Tables that no package registry carries: the loader's name and the data set's.
UNREGISTERED = {"load_pantheria": "pantheria", "load_wine_quality": "wine-quality"}


def why_missing(key: str) -> str:
    """Why a data set cannot be had here, in the loader's own words; empty if it can."""
    from vpunn.datasets import fetch_dataset
    from vpunn.errors import DataError

    try:
        fetch_dataset(key)
    except DataError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the doctests of tables that cannot be had (offline, and not in VPUNN_DATA_DIR), saying what they need."""
    for item in items:
        key = UNREGISTERED.get(item.name.rpartition(".")[2])
        if key and (reason := why_missing(key)):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def mammals():
    """PanTHERIA as a DataFrame; skips the test, with the reason, where it cannot be had."""
    if reason := why_missing("pantheria"):
        pytest.skip(reason)
    from vpunn.datasets import load_pantheria

    return load_pantheria()


@pytest.fixture(scope="session")
def wine():
    """Wine Quality as a DataFrame; skips the test, with the reason, where it cannot be had."""
    if reason := why_missing("wine-quality"):
        pytest.skip(reason)
    from vpunn.datasets import load_wine_quality

    return load_wine_quality()
