"""Benchmarks: each module prints a table and writes JSON into benchmarks/results. Run one with ``python -m``."""
