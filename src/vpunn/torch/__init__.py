"""Hierarchies in deep models: heads, losses, embeddings and attention biases on preorder arrays. Needs ``vpunn[torch]``."""

try:
    import torch as _torch  # noqa: F401
except ImportError:
    from vpunn.errors import VpunnError

    raise VpunnError("vpunn.torch needs PyTorch; install it with: pip install 'vpunn[torch]'.") from None

from vpunn.torch.head import HierarchicalHead

__all__ = ["HierarchicalHead"]
