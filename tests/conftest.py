"""Tests use real data; where a checkout has a folder of it beside it, they look there first."""

import os
from pathlib import Path

from hypothesis import settings

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

# Set before any test runs and inherited by every worker and subprocess. A folder the user names has precedence.
if "VPUNN_DATA_DIR" not in os.environ and BESIDE.is_dir():
    os.environ["VPUNN_DATA_DIR"] = str(BESIDE)

# The first example pays for compiling kernels, so wall-clock deadlines per example mean nothing here.
settings.register_profile("vpunn", deadline=None)
settings.load_profile("vpunn")
