"""Placement on trees, every method on every task: `python -m benchmarks.predict`."""
