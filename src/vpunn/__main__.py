"""``python -m vpunn`` is the command ``vpunn``."""

from vpunn.cli import main

if __name__ == "__main__":
    main()
