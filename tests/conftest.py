"""Settings shared by all tests."""

from hypothesis import settings

# The first example pays for compiling kernels, so wall-clock deadlines per example mean nothing here.
settings.register_profile("vpunn", deadline=None)
settings.load_profile("vpunn")
