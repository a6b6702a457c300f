"""Hierarchies in deep models: heads, losses, embeddings and attention biases on preorder arrays. Needs ``vpunn[torch]``."""

try:
    import torch as _torch  # noqa: F401
except ImportError:
    from vpunn.errors import VpunnError

    raise VpunnError("vpunn.torch needs PyTorch; install it with: pip install 'vpunn[torch]'.") from None

from vpunn.torch.embedding import CompressedEmbedding, PadicEmbedding
from vpunn.torch.estimator import HeadClassifier
from vpunn.torch.fisher import FisherBlocks
from vpunn.torch.head import HierarchicalHead
from vpunn.torch.losses import ExpectedDepthLoss, HierarchicalCrossEntropy, SoftLabelLoss, UltrametricLoss
from vpunn.torch.path import PathHead
from vpunn.torch.posterior import DensePosterior, HeadPosterior
from vpunn.torch.sets import SetHead, TruePathLoss
from vpunn.torch.valuation import Valuation, ValuationBias

__all__ = [
    "CompressedEmbedding",
    "DensePosterior",
    "ExpectedDepthLoss",
    "FisherBlocks",
    "HeadClassifier",
    "HeadPosterior",
    "HierarchicalCrossEntropy",
    "HierarchicalHead",
    "PadicEmbedding",
    "PathHead",
    "SetHead",
    "SoftLabelLoss",
    "TruePathLoss",
    "UltrametricLoss",
    "Valuation",
    "ValuationBias",
]
