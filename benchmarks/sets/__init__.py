"""Label sets on graphs, every method on the same rows: `python -m benchmarks.sets`."""
