"""The tree as buffers of a module: ancestors and valuations of whole batches, on whatever device the module is.

Everything is arithmetic on preorder arrays: the ancestor at depth k is the last node of that depth at or before the node,
and the valuation of two nodes is a range minimum of depths. Buffers follow ``module.to(device)`` and are rebuilt from the
tree, so they are no part of the ``state_dict``; its entry ``fingerprint`` names the tree the weights belong to.
"""

from __future__ import annotations

import os
import zlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from vpunn._types import TensorLike
from vpunn.errors import DataError, VpunnError, check_choice, examples
from vpunn.store import Storable
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.store import Draft, Stored

#: Rows whose loss is not counted, as in torch.nn.functional.cross_entropy.
IGNORE_INDEX = -100
WEIGHTS = "weights.safetensors"


class TreeModule(nn.Module, Storable):
    """A module over one tree that `vpunn.load` opens; subclasses name their settings in ``_options``."""

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

    # ---- as a model folder -------------------------------------------------------------------------------------------

    def save_pretrained(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the model folder: `save` under the name other libraries use."""
        return self.save(path, **options)

    @classmethod
    def from_pretrained(cls, path: Any, **options: Any) -> Self:
        """Read what `save_pretrained` wrote. A model from a hub is a folder too: download it with the hub's own client first."""
        return cls.load(path, **options)

    def _options(self) -> dict[str, Any]:
        raise VpunnError(f"a {type(self).__name__} is not saved by itself; save what it was made from.")

    def _to_store(self, draft: Draft) -> None:
        draft.add("tree", self.tree)
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        kinds = {str(p.dtype).removeprefix("torch.") for p in self.parameters()}
        draft.settings |= {"options": self._options(), "dtype": sorted(kinds)[0] if kinds else "float32"}
        draft.settings["parameters"] = sum(p.numel() for p in self.parameters())
        draft.file(WEIGHTS, _safetensors().save(state))

    @classmethod
    def _arrays_of(cls, stored: Stored, tree: Tree) -> dict[str, Any]:
        """Settings of the constructor that are stored as arrays."""
        return {}

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        tree = stored.get("tree", Tree)
        kind = getattr(torch, stored.setting("dtype", str), None)
        if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
            raise DataError(f"{str(stored.path)!r} holds weights of an unknown type {stored.settings['dtype']!r}.")
        module = cls(tree, **stored.setting("options", dict), **cls._arrays_of(stored, tree)).to(kind)
        try:
            state = _safetensors().load_file(stored.file(WEIGHTS))
            module.load_state_dict(state)
        except VpunnError:
            raise
        except Exception as error:  # safetensors raises its own kinds, torch RuntimeError
            first = str(error).strip().splitlines()[0]
            raise DataError(f"{str(stored.path / WEIGHTS)!r} does not fit this model: {first}") from None
        return module


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
    check_choice("reduction", reduction, ("none", "mean", "sum"))
    if reduction == "none":
        return loss * weight
    total = (loss * weight).sum()
    if reduction == "sum":
        return total
    mass = weight.sum()
    return total / torch.where(mass > 0, mass, torch.ones_like(mass))


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise VpunnError("saving weights needs safetensors; install it with: pip install 'vpunn[torch]'.") from None
    return safetensors.torch
