"""The tree as buffers of a module: ancestors and valuations of whole batches, on whatever device the module is.

Everything is arithmetic on preorder arrays: the ancestor at depth k is the last node of that depth at or before the node,
and the valuation of two nodes is a range minimum of depths. Buffers follow ``module.to(device)`` and are rebuilt from the
tree, so they are no part of the ``state_dict``; its entry ``fingerprint`` names the tree the weights belong to.
"""

from __future__ import annotations

import zlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vpunn._types import TensorLike
from vpunn.errors import VpunnError, examples
from vpunn.tree import Tree

#: Rows whose loss is not counted, as in torch.nn.functional.cross_entropy.
IGNORE_INDEX = -100


class TreeModule(nn.Module):
    """A module over one tree."""

    tree: Tree
    fingerprint: Tensor
    level_keys: Tensor
    level_nodes: Tensor
    node_depth: Tensor

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        if not isinstance(tree, Tree):
            raise VpunnError(f"tree must be a vpunn Tree, got {type(tree).__name__}; Tree.from_edges builds one.")
        self.tree = tree
        self.max_depth = tree.max_depth
        self.n_nodes = tree.n_nodes
        self.register_buffer("fingerprint", torch.tensor([tree.n_nodes, zlib.crc32(tree.parent.tobytes())]))
        self._constant("level_keys", tree._level_keys)
        self._constant("level_nodes", tree.levels[1])
        self._constant("node_depth", tree.depth)

    def _constant(self, name: str, array: np.ndarray) -> None:
        """A whole-number buffer that is rebuilt from the tree."""
        self.register_buffer(name, torch.from_numpy(array.astype(np.int64)), persistent=False)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        found = state_dict.get(f"{prefix}fingerprint")
        if found is not None and not torch.equal(found.cpu(), self.fingerprint.cpu()):
            raise VpunnError(
                f"these weights belong to another tree: one of {int(found[0]):,} nodes (mark {int(found[1]):08x}), and this "
                f"module has {int(self.fingerprint[0]):,} (mark {int(self.fingerprint[1]):08x}); build it on the tree they were "
                "trained with, which save_pretrained stores beside them."
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def ancestors(self, nodes: Tensor) -> Tensor:
        """The chain of every node, root first, (…, K + 1); below the node it repeats the node. O(K log n) a node."""
        depth = torch.arange(self.max_depth + 1, device=nodes.device)
        wanted = torch.minimum(depth, self.node_depth[nodes].unsqueeze(-1))
        at = torch.searchsorted(self.level_keys, wanted * self.n_nodes + nodes.unsqueeze(-1), right=True) - 1
        return self.level_nodes[at]

    def node_ids(self, nodes: TensorLike) -> Tensor:
        """Node ids as a checked int64 tensor on the module's device."""
        ids = torch.as_tensor(nodes, device=self.level_keys.device)
        check_whole_ids(ids, "node ids")
        return check_range(ids.long(), self.n_nodes, "node ids", "nodes", None)


def autocasting(device: torch.device) -> bool:
    """Whether operations on this kind of device are being run in reduced precision."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """A block that keeps the precision of its inputs, whatever the caller's autocast says."""
    return torch.autocast(device.type, enabled=False) if autocasting(device) else nullcontext()


def check_whole_ids(ids: Tensor, what: str) -> None:
    """Refuse ids that are no integers."""
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        raise VpunnError(f"{what} must be whole numbers, got a tensor of {str(ids.dtype).removeprefix('torch.')}.")


def check_range(ids: Tensor, count: int, what: str, of: str, ignored: int | None) -> Tensor:
    """The ids, after refusing any outside 0…count − 1 that is not ``ignored``.

    Inside a compiled graph the check is an assertion on the device instead of a sentence.
    """
    bad = (ids < 0) | (ids >= count)
    if ignored is not None:
        bad = bad & (ids != ignored)
    if torch.compiler.is_compiling():
        torch._assert_async(~bad.any(), f"{what} outside this tree")
        return ids
    if bool(bad.any()):
        also = "" if ignored is None else f", or {ignored} to leave a row out"
        raise VpunnError(
            f"{what} {examples(ids[bad].tolist())} are outside this tree of {count:,} {of} (0 to {count - 1}{also})."
        )
    return ids


def check_targets(target: TensorLike, rows: int, count: int, what: str, of: str, ignored: int, device: Any) -> Tensor:
    """One checked int64 target per row."""
    ids = torch.as_tensor(target, device=device)
    if ids.ndim != 1 or len(ids) != rows:
        raise VpunnError(f"there must be one target per row: got shape {tuple(ids.shape)} for {rows:,} rows.")
    if rows:
        check_whole_ids(ids, what)
    return check_range(ids.long(), count, what, of, ignored)


def reduced(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Per-row losses put together as torch's losses do; the mean of no rows is 0, so that a batch without any trains nothing."""
    if reduction == "none":
        return loss * weight
    total = (loss * weight).sum()
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise VpunnError(f"reduction={reduction!r} is unknown; choose one of none, mean, sum.")
    mass = weight.sum()
    return total / torch.where(mass > 0, mass, torch.ones_like(mass))
