"""The head's answer for a batch of rows: the same questions as the classifier's posterior, answered by best-first search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vpunn._types import FeatureNames, Label, TensorLike
from vpunn.errors import VpunnError, check_whole, examples
from vpunn.explanations import BallContribution, Explanation
from vpunn.hipan.distribution import NodeDistribution, Rule

if TYPE_CHECKING:
    from vpunn.torch._head import Head
    from vpunn.torch.head import HierarchicalHead
    from vpunn.torch.path import PathHead


@dataclass(eq=False)
class HeadPosterior(NodeDistribution):
    """Rows of ``features`` (what the balls see) under a head. It reads the head's weights when asked: ask before training on.

    `top_k`, `best`, `deepest` and `at_depth` open only balls that can matter; `chain` reads one path; `masses` and `chunks`
    are dense, O(nodes · features) a row.
    """

    head: HierarchicalHead
    features: Tensor

    @property
    def tree(self) -> Any:  # type: ignore[override]
        return self.head.tree

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        """Features, weight and bias as contiguous arrays of one kind, and the layout the compiled search reads."""
        head, kind = self.head, self.features.dtype
        bias = head.weight.new_empty(0) if head.bias is None else head.bias
        numbers = [t.detach().to("cpu", kind).contiguous().numpy() for t in (self.features, head.weight, bias)]
        c, (child_start, child) = head.slots, self.tree.child_index
        layout = (c.start, c.slot, c.stop_slot, c.choice_of, child_start, child, self.tree.depth, self.tree.size)
        return (*numbers, tuple(np.array(a) for a in layout))

    def _search(self, k: int, stops_at: int = -1) -> tuple[np.ndarray, np.ndarray]:
        from vpunn.torch import _kernels

        nodes = np.full((len(self), k), -1, np.int64)
        log_p = np.full((len(self), k), -np.inf)
        _finite(_kernels.best_first(*self._arrays, stops_at, nodes, log_p))
        return nodes, np.exp(log_p)

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable answers and their probabilities, exact; fewer columns if there are fewer answers.

        Best first: a ball is at least as probable as anything in it, so few balls are opened. Of equals the first node wins.
        """
        return self._search(min(check_whole("k", k), len(self.head.answers)))

    def at_depth(self, depth: int) -> np.ndarray:
        """The best answer cut at ``depth``: the most probable ball of that depth, or an answer above it."""
        return self._search(1, depth)[0][:, 0]

    def deepest(self, threshold: float) -> np.ndarray:
        """The deepest ball with probability ≥ threshold (the more probable of equally deep ones; the root if none)."""
        from vpunn.torch import _kernels

        answer = np.zeros(len(self), np.int64)
        # The sum of a path's logarithms is rounded: a ball of probability 1 must pass a threshold of 1.
        floor = np.log(threshold) - 1e-6 if threshold > 0 else -np.inf
        _finite(_kernels.deepest_ball(*self._arrays, floor, answer))
        return answer

    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (−1 padded), and their probabilities."""
        head, device = self.head, self.features.device
        ids = head.node_ids(np.asarray(nodes))
        with torch.no_grad():
            step = head.steps_of_features(self.features, ids)[:, : self.tree.max_depth].double().cpu().numpy()
            balls = head.ancestors(ids.to(device)).cpu().numpy()
        inside = np.arange(self.tree.max_depth + 1) <= self.tree.depth[nodes][:, None]
        # The column after a node's own depth may hold "stop here", which is no ball.
        log_p = np.concatenate([np.zeros((len(self), 1)), np.cumsum(np.where(inside[:, 1:], step, 0.0), 1)], 1)
        return np.where(inside, balls, -1), np.where(inside, np.exp(log_p), 0.0)

    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes)."""
        dense = np.zeros((len(self.features[part]), self.tree.n_nodes))
        with torch.no_grad():
            p = self.head.answers_of_features(self.features[part]).double().exp().cpu().numpy()
        dense[:, self.head.answers.cpu().numpy()] = p
        return dense


@dataclass(eq=False)
class DensePosterior(NodeDistribution):
    """Rows of ``features`` under a `PathHead`: one soft-max over all answers, for as many rows at a time as memory allows."""

    head: PathHead
    features: Tensor

    @property
    def tree(self) -> Any:  # type: ignore[override]
        return self.head.tree

    def __len__(self) -> int:
        return len(self.features)

    def _log_answers(self, part: slice) -> Tensor:
        with torch.no_grad():
            found = torch.log_softmax(self.head.logits(self.features[part]).double(), 1)
        bad = torch.nonzero(torch.isnan(found).any(1)).flatten()
        _finite(part.start + int(bad[0]) if len(bad) else -1)
        return found

    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes)."""
        part = slice(*part.indices(len(self)))
        dense = np.zeros((len(self.features[part]), self.tree.n_nodes))
        dense[:, self.head.answers.cpu().numpy()] = self._log_answers(part).exp().cpu().numpy()
        return dense

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable answers and their probabilities, exact; fewer columns if there are fewer answers.

        Of equals the first node wins."""
        answers = self.head.answers.cpu().numpy()
        k = min(check_whole("k", k), len(answers))
        nodes, p = np.empty((len(self), k), np.int64), np.empty((len(self), k))
        for part in self.parts():
            value, at = self._log_answers(part).sort(dim=1, descending=True, stable=True)
            nodes[part], p[part] = answers[at[:, :k].cpu().numpy()], value[:, :k].exp().cpu().numpy()
        return nodes, p

    def best(self, rule: Rule = "node") -> np.ndarray:
        """One answer per row; by default the most probable one, the first of `top_k`."""
        if rule != "node":
            return super().best(rule)
        found = [self._log_answers(part).argmax(1).cpu().numpy() for part in self.parts()]
        return np.asarray(self.head.answers.cpu().numpy()[np.concatenate(found)] if found else np.empty(0, np.int64))

    def log_chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (−1 padded), and the logarithms of their probabilities."""
        ids = self.head.node_ids(np.asarray(nodes))
        balls = self.head.ancestors(ids)
        found = [
            self.head.balls_of_answers(self._log_answers(part)).gather(1, balls[part]).cpu().numpy()
            for part in self.parts()
        ]
        inside = np.arange(self.tree.max_depth + 1) <= self.tree.depth[ids.cpu().numpy()][:, None]
        log_p = np.concatenate(found) if found else np.empty(inside.shape)
        return np.where(inside, balls.cpu().numpy(), -1), np.where(inside, log_p, -np.inf)

    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (−1 padded), and their probabilities."""
        balls, log_p = self.log_chain(nodes)
        return balls, np.exp(log_p)


def _finite(row: int) -> None:
    if row >= 0:
        raise VpunnError(
            f"the head's scores are NaN in row {row}; its weights are not finite (lower the learning rate)."
        )


def explain_head(
    head: HierarchicalHead, x: TensorLike, node: Label, k: int, feature_names: FeatureNames
) -> Explanation:
    """Ball by ball: the score ⟨w_c − mean of its siblings', x⟩ + b, its largest terms, and ln P(ball | the one above).

    Scores are measured against the mean option of the same soft-max, because only differences count in it.
    """
    posterior = head.posterior(x)
    i, names, row = _asked(head, posterior, x, node, feature_names)
    tree, slots = head.tree, head.slots
    with torch.no_grad():
        step = head.steps_of_features(posterior.features, head.node_ids([i]))[0].double().cpu().numpy()
    weights, bias = head.input_weights(), None if head.bias is None else head.bias.detach().double().cpu().numpy()
    chain = tree.ancestors(i).tolist()
    found = [(ball, int(slots.slot[ball]), False, float(step[d])) for d, ball in enumerate(chain[1:])]
    if slots.stop_slot[i] >= 0:
        found.append((i, int(slots.stop_slot[i]), True, float(step[tree.depth[i]])))
    balls, log_p = [BallContribution(0, tree.labels[0], 0, False, 0.0, 1.0, 0.0, [])], 0.0
    for ball, slot, stops, gain in found:
        log_p += gain
        terms = np.zeros(head.in_features)
        score = 0.0
        if slot >= 0:
            first, last = slots.start[slots.choice[slot]], slots.start[slots.choice[slot] + 1]
            terms = (weights[slot] - weights[first:last].mean(0)) * row
            score = float(terms.sum()) + (0.0 if bias is None else float(bias[slot] - bias[first:last].mean()))
        features = _largest(names, terms, k)
        depth = int(tree.depth[ball])
        balls.append(
            BallContribution(ball, tree.labels[ball], depth, stops, score, float(np.exp(log_p)), gain, features)
        )
    return Explanation(i, tree.labels[i], sum(b.head for b in balls), log_p, balls, {})


def explain_path(head: PathHead, x: TensorLike, node: Label, k: int, feature_names: FeatureNames) -> Explanation:
    """Ball by ball: the score ⟨w_B, x⟩ + b_B it adds to the logit, its largest terms, and ln P(ball | the one above).

    Scores are measured against the mean of all answers' logits, because only differences count in a soft-max.
    """
    posterior = head.posterior(x)
    i, names, row = _asked(head, posterior, x, node, feature_names)
    tree, chain = head.tree, head.tree.ancestors(i)
    log_p = posterior.log_chain(np.array([i]))[1][0, : len(chain)]
    with torch.no_grad():
        mean = [part.double().mean(0, keepdim=True).cpu().numpy() for part in head.answer_weights()]
        exact = torch.log_softmax(head.logits(posterior.features).double(), 1)[0].cpu().numpy()
    own, shared = (
        (ids.cpu().numpy(), weight.detach().double().cpu().numpy(), bias.detach().double().cpu().numpy())
        for ids, weight, bias in (
            (head.answers, head.own, head.own_bias),
            (head.ball, head.shared, head.shared_bias),
        )
    )
    # Each step: the ball it leads to, whose weights it adds, and ln P after it. An inner answer stops at its own ball.
    steps = [(int(at), own if tree.is_leaf[at] else shared, log) for at, log in zip(chain, log_p, strict=True)][1:]
    if not tree.is_leaf[i] and head.inner_answers[i]:
        steps.append((i, own, exact[np.searchsorted(own[0], i)]))
    root = -float(mean[0][0] @ row + mean[1][0])
    balls, before = [BallContribution(0, tree.labels[0], 0, False, root, 1.0, 0.0, [])], 0.0
    for n, (at, (ids, weight, bias), log) in enumerate(steps, 1):
        place = np.searchsorted(ids, at)
        terms = weight[place] * row
        score, features = float(terms.sum() + bias[place]), _largest(names, terms, k)
        depth, stops, p = int(tree.depth[at]), n == len(chain), float(np.exp(log))
        balls.append(BallContribution(at, tree.labels[at], depth, stops, score, p, float(log - before), features))
        before = float(log)
    return Explanation(i, tree.labels[i], sum(b.head for b in balls), before, balls, {})


def _asked(
    head: Head, posterior: HeadPosterior | DensePosterior, x: TensorLike, node: Label, feature_names: FeatureNames
) -> tuple[int, list[str], np.ndarray]:
    """The node an explanation is about, the names of the features, and the row."""
    if len(posterior) != 1:
        raise VpunnError(f"explain takes one row, got {len(posterior):,}; pass x[[i]] to keep it two-dimensional.")
    i = int(posterior.best()[0]) if node is None else int(head.tree.find(node))
    names = [f"x{f}" for f in range(head.in_features)] if feature_names is None else list(feature_names)
    if len(names) != head.in_features:
        raise VpunnError(f"feature_names needs {head.in_features:,} names, got {len(names):,}: {examples(names[:3])}.")
    return i, names, np.asarray(torch.as_tensor(x).detach().to("cpu", torch.float64))[0]


def _largest(names: list[str], terms: np.ndarray, k: int) -> list[tuple[str, float]]:
    largest = np.argsort(-np.abs(terms), kind="stable")[:k]
    return [(str(names[f]), float(terms[f])) for f in largest if terms[f]]
