"""Readers and writers of tree files."""
