"""`PadicEmbedding`: the vector of a node is the sum of one vector per ball around it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from vpunn._types import Labels, TensorLike
from vpunn.errors import CodeChangeWarning, VpunnError, check_choice, check_whole, examples
from vpunn.torch._module import TreeModule, check_range, check_whole_ids
from vpunn.tree import Tree, sweep_down

if TYPE_CHECKING:
    from vpunn.store import Draft, Stored

Gauge = Literal["mean", "vdp"]


class _Summed(TreeModule):
    """What embeddings share: indices to nodes, nodes to sums along their ancestors."""

    item_node: Tensor

    def __init__(self, tree: Tree, dim: int, items: Any, padding_idx: int | None) -> None:
        super().__init__(tree)
        dim = check_whole("dim", dim)
        nodes = np.arange(tree.n_nodes) if items is None else _item_nodes(tree, items)
        self._constant("item_node", nodes)
        self.num_embeddings, self.embedding_dim = len(nodes), int(dim)
        if padding_idx is not None and not 0 <= padding_idx < len(nodes):
            raise VpunnError(f"padding_idx {padding_idx} is no index from 0 to {len(nodes) - 1}.")
        self.padding_idx = padding_idx

    def _balls(self, index: TensorLike) -> tuple[Tensor, Tensor]:
        """The chain of every index, (count, K + 1), and which of its entries count."""
        ids = torch.as_tensor(index, device=self.item_node.device)
        check_whole_ids(ids, "indices")
        ids = check_range(ids.long(), self.num_embeddings, "indices", "items", None).reshape(-1)
        nodes = self.item_node[ids]
        inside = torch.arange(self.max_depth + 1, device=ids.device) <= self.node_depth[nodes].unsqueeze(1)
        if self.padding_idx is not None:
            inside = inside & (ids != self.padding_idx).unsqueeze(1)
        return self.ancestors(nodes), inside

    @property
    def plain(self) -> bool:
        """Whether indices are node ids."""
        return torch.equal(self.item_node.cpu(), torch.arange(self.n_nodes))

    def extra_repr(self) -> str:
        return f"{self.num_embeddings:,} items, {self.n_nodes:,} balls, dim={self.embedding_dim}"


class PadicEmbedding(_Summed):
    """Drop-in for `torch.nn.Embedding` on the nodes of a tree: e(x) = Σ_{B∋x} E_B, one row E_B per ball.

    Rows of rare items are small corrections of their ancestors', and an item never seen keeps E = 0, so it has its
    parent's vector. Inner balls start normal like `torch.nn.Embedding`, scaled by 1/√(depth + 1); leaves start at 0.

    Parameters
    ----------
    tree : the hierarchy.
    dim : length of the vectors.
    items : the node of each index, labels or node ids, in any order; default: the index is the node id. Whole numbers are
        node ids, also where labels are numbers (there give ``tree.index(labels)``).
    sparse : gradients hold the touched rows only (SGD, Adagrad, SparseAdam).
    padding_idx : this index gives 0 and is not trained.

    A lookup costs K + 1 rows instead of one.

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "fern")], root="life")
    >>> vectors = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 8.0]])
    >>> embedding = PadicEmbedding.from_pretrained(tree, vectors)  # rows for tree.leaves
    >>> embedding(tree.index(["fish", "fern", "animal"])).tolist()  # exact on leaves; an inner node has the mean of its children
    [[3.0, 0.0], [0.0, 8.0], [2.0, 0.0]]
    >>> grown = embedding.insert([tree.index("animal")], ["frog"])
    >>> grown(grown.tree.index(["frog"])).tolist()  # a new leaf inherits
    [[2.0, 0.0]]
    """

    def __init__(
        self,
        tree: Tree,
        dim: int,
        *,
        items: Any = None,
        sparse: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(tree, dim, items, padding_idx)
        self.sparse = bool(sparse)
        self.weight = nn.Parameter(torch.empty(tree.n_nodes, self.embedding_dim))
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Inner balls normal with variance 1/(depth + 1), leaves 0."""
        depth = torch.from_numpy(self.tree.depth.astype(np.float32)).to(self.weight.device)
        inner = torch.from_numpy(~self.tree.is_leaf).to(self.weight.device)
        with torch.no_grad():
            scale = torch.where(inner, (depth + 1).rsqrt(), 0.0).to(self.weight.dtype)
            self.weight.normal_().mul_(scale[:, None])

    def forward(self, index: TensorLike) -> Tensor:
        """Vectors (…, dim) of indices of any shape."""
        shape = tuple(torch.as_tensor(index).shape)
        balls, inside = self._balls(index)
        vectors = nn.functional.embedding_bag(
            balls, self.weight, mode="sum", sparse=self.sparse, per_sample_weights=inside.to(self.weight.dtype)
        )
        return vectors.view(*shape, self.embedding_dim)

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, tree: Any, vectors: TensorLike = None, *, items: Any = None, gauge: Gauge = "mean", **options: Any
    ) -> PadicEmbedding:
        """Exact van der Put transform of given vectors: row i belongs to ``items[i]`` (default: the leaves in preorder).
        With a path instead of a tree: what `save_pretrained` wrote there.

        Every leaf must be given; inner nodes follow by the ``gauge``: the ``"mean"`` of their children, or ``"vdp"``, the
        value at their first leaf. E_root = G(root), E_B = G(B) − G(parent), so the vectors come back to rounding.
        """
        from vpunn.network import gauges
        from vpunn.network.rings import Ring

        if not isinstance(tree, Tree):
            return cls.load(tree)
        check_choice("gauge", gauge, ("mean", "vdp"))
        given = torch.as_tensor(vectors)
        nodes = tree.leaves.astype(np.int64) if items is None else _item_nodes(tree, items)
        if given.ndim != 2 or len(given) != len(nodes) or not given.dtype.is_floating_point:
            raise VpunnError(f"vectors must be a table of numbers with {len(nodes):,} rows, got {tuple(given.shape)}.")
        if not bool(torch.isfinite(given).all()):
            raise VpunnError("vectors must be finite; replace NaN and infinities first.")
        if not np.array_equal(np.sort(nodes), tree.leaves):
            missing = np.setdiff1d(tree.leaves, nodes)
            raise VpunnError(
                f"vectors must belong to the leaves, each once; {len(missing):,} have none: {examples(tree.labels[missing])}."
            )
        place = np.searchsorted(tree.leaves, nodes)
        leaf_values = np.empty(tuple(given.shape), np.float64)
        leaf_values[place] = given.detach().double().cpu().numpy()
        ring = Ring("real")
        coefficients = gauges.differences(tree, gauges.extend_to_nodes(tree, leaf_values, gauge, ring), ring)
        found = cls(tree, given.shape[1], items=items, dtype=given.dtype, **options)
        with torch.no_grad():
            found.weight.copy_(torch.from_numpy(coefficients))
        return found

    def _options(self) -> dict[str, Any]:
        return {"dim": self.embedding_dim, "sparse": self.sparse, "padding_idx": self.padding_idx}

    def _to_store(self, draft: Draft) -> None:
        super()._to_store(draft)
        if not self.plain:
            draft.array("items", self.item_node.cpu().numpy())

    @classmethod
    def _arrays_of(cls, stored: Stored, tree: Tree) -> dict[str, Any]:
        if "items" not in stored:
            return {}
        return {"items": stored.array("items", dtype="iu", shape=(None,), low=0, high=tree.n_nodes)}

    def node_vectors(self) -> Tensor:
        """Vectors of all nodes, (nodes, dim), in one sweep; detached."""
        own = self.weight.detach()
        kind = torch.promote_types(own.dtype, torch.float32)
        return torch.from_numpy(sweep_down(self.tree, own.to("cpu", kind).numpy())).to(own)

    def insert(self, parents: Labels, labels: Labels) -> PadicEmbedding:
        """The embedding on ``tree.insert(parents, labels)``: old rows as they are, new leaves 0, so that they have their
        parent's vector. Indices of old items stay, new items follow them; without ``items`` indices are the new tree's
        node ids."""
        before = self.tree
        with warnings.catch_warnings():  # vectors belong to balls, not to integer codes
            warnings.simplefilter("ignore", CodeChangeWarning)
            tree = before.insert(parents, labels)
        # The same tree labelled by input position says where every old node and every new leaf now stands.
        above = np.atleast_1d(before.check_nodes(parents)).astype(np.int64)
        place = np.empty(tree.n_nodes, np.int64)
        place[Tree.from_parents(np.concatenate([before.parent, above])).labels] = np.arange(tree.n_nodes)
        moved, fresh = place[: before.n_nodes], place[before.n_nodes :]
        items = None if self.plain else np.concatenate([moved[self.item_node.cpu().numpy()], fresh])
        grown = PadicEmbedding(
            tree,
            self.embedding_dim,
            items=items,
            sparse=self.sparse,
            padding_idx=self.padding_idx,
            device=self.weight.device,
            dtype=self.weight.dtype,
        )
        with torch.no_grad():
            grown.weight.zero_()
            grown.weight[torch.from_numpy(moved).to(grown.weight.device)] = self.weight
        return grown

    def compressed(self, bits: int | Sequence[int] = 8) -> CompressedEmbedding:
        """A frozen copy with ``bits`` (0, 4 or 8; one number or one per depth 0…K) per number of a ball's row.

        0 prunes the depth: its balls answer with their parents' vectors. See `CompressedEmbedding`.
        """
        return CompressedEmbedding(self, bits)


class CompressedEmbedding(_Summed):
    """A frozen `PadicEmbedding` whose rows are whole numbers times one step per row; see `PadicEmbedding.compressed`.

    Differences shrink with depth, so deep rows take fewer bits for the same error: |error| ≤ Σ over the path of half a
    step, where a row's step is its largest entry over 2^(bits−1) − 1. Four-bit rows are packed two numbers to a byte.
    """

    row_of: Tensor
    is_short: Tensor
    long_codes: Tensor
    short_codes: Tensor
    step: Tensor

    def __init__(self, source: PadicEmbedding, bits: int | Sequence[int]) -> None:
        items = None if source.plain else source.item_node.cpu().numpy()
        super().__init__(source.tree, source.embedding_dim, items, source.padding_idx)
        depths = np.broadcast_to(np.asarray(bits), (self.max_depth + 1,))
        if not np.isin(depths, (0, 4, 8)).all():
            raise VpunnError(
                f"bits must be 0, 4 or 8, for all depths or one per depth 0…{self.max_depth}; got {bits!r}."
            )
        weight = source.weight.detach().to("cpu", torch.float32)
        width = torch.from_numpy(depths[self.tree.depth].copy())
        top = torch.where(width == 8, 127, 7)
        step = weight.abs().amax(1) / top
        codes = torch.round(weight / torch.where(step > 0, step, 1.0)[:, None]).to(torch.int8)
        place = torch.full((self.n_nodes,), -1)
        for bit in (4, 8):
            chosen = width == bit
            place[chosen] = torch.arange(int(chosen.sum()))
        short = codes[width == 4]
        if short.shape[1] % 2:
            short = nn.functional.pad(short, (0, 1))
        packed = (short[:, ::2] & 15) | (short[:, 1::2] << 4)
        self.register_buffer("row_of", place)
        self.register_buffer("is_short", width == 4)
        self.register_buffer("long_codes", codes[width == 8])
        self.register_buffer("short_codes", packed)
        self.register_buffer("step", torch.where(width > 0, step, 0.0))
        self.to(source.weight.device)

    def forward(self, index: TensorLike) -> Tensor:
        """Vectors (…, dim) in single precision."""
        shape = tuple(torch.as_tensor(index).shape)
        balls, inside = self._balls(index)
        rows, short = self.row_of[balls], self.is_short[balls]
        scale = torch.where(inside & (rows >= 0), self.step[balls], 0.0)
        total = torch.zeros(len(balls), self.embedding_dim, device=balls.device)
        if len(self.long_codes):
            codes = self.long_codes[torch.where(short | (rows < 0), 0, rows)]
            total += torch.einsum("bk,bkd->bd", torch.where(short, 0.0, scale), codes.float())
        if len(self.short_codes):
            packed = self.short_codes[torch.where(short & (rows >= 0), rows, 0)]
            codes = torch.stack([(packed << 4) >> 4, packed >> 4], -1).flatten(-2)[..., : self.embedding_dim]
            total += torch.einsum("bk,bkd->bd", torch.where(short, scale, 0.0), codes.float())
        return total.view(*shape, self.embedding_dim)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored rows and steps."""
        return sum(t.numel() * t.element_size() for t in (self.long_codes, self.short_codes, self.step))


def _item_nodes(tree: Tree, items: Any) -> np.ndarray:
    """Node ids of items given as labels or as ids."""
    given = np.asarray(items)
    if given.dtype.kind in "iu":
        return np.asarray(tree.check_nodes(given), np.int64)
    return np.asarray(tree.index(list(items)), np.int64)
