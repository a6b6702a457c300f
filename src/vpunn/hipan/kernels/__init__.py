"""Compiled loops of the classifier, one module a stage; imported on first use. Slow twins live in the tests."""
