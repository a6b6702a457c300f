"""vpunn."""
__version__ = "0.1.0"
