"""Why: what a ball contains and stands for, why an item was placed where it was, and what separates two nodes.

Free functions over fitted models, trees and codes. The head weights of a `HiPaNClassifier` belong to one ball each, so an
explanation is a list of balls with what each contributed, and it sums to the score exactly.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Features, HasTree, Label
from vpunn.codes import PadicCode
from vpunn.errors import CodeError, VpunnError, examples
from vpunn.padic import code_prime
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.regress import BallSum

_WORD = re.compile(r"[^\W\d_]{3,}")
#: Words that say nothing about a ball; left out of its commonest gloss words.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "and any are but can for from has have into its not one other such than that the their them they this used was "
        "were when which who whose with",
    )
)


@dataclass(frozen=True)
class BallDescription:
    """What `describe_ball` says; ``str()`` is readable.

    ``around`` is the node asked for, ``node`` the ball, ``depths`` the range of its leaves' depths; ``tokens`` are
    the commonest gloss words with counts, ``files`` the lexicographer files with shares, ``n_lemmas`` the
    number of different words; empty or None where the tree has no such column.
    """

    node: int
    label: Label
    path: tuple[Label, ...]
    n_nodes: int
    n_leaves: int
    n_rows: float | None
    entropy: float
    members: list[Label]
    speaks_for: list[tuple[str, float]]
    around: int
    p: int
    depths: tuple[int, int]
    tokens: list[tuple[str, int]]
    files: list[tuple[str, float]]
    n_lemmas: int | None

    def __str__(self) -> str:
        rows = "" if self.n_rows is None else f", {self.n_rows:g} training rows"
        low, high = self.depths
        what = f"ball of radius {self.p}^-{len(self.path) - 1}: " if self.around != self.node else ""
        deep = f"at depth {low}" if low == high else f"at depths {low} to {high}"
        more = ", …" if self.n_leaves > len(self.members) else ""
        lines = [
            " / ".join(map(str, self.path)),
            f"  {what}{self.n_nodes:,} nodes, {self.n_leaves:,} leaves {deep}{rows}, entropy over its children "
            f"{self.entropy:.2f} bits",
            "  members: " + ", ".join(map(str, self.members)) + more,
        ]
        if self.files:
            lemmas = "" if self.n_lemmas is None else f"; {self.n_lemmas:,} lemmas"
            lines.append("  files: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.files) + lemmas)
        if self.tokens:
            lines.append("  glosses: " + ", ".join(f"{word} {count:,}" for word, count in self.tokens))
        if self.speaks_for:
            lines.append(
                "  against its siblings: " + ", ".join(f"{name} {value:+.3g}" for name, value in self.speaks_for)
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class BallContribution:
    """One ball on the activation path: ⟨w_B, x⟩ + b_B, P(B), and ln P(B | the ball above)."""

    node: int
    label: Label
    depth: int
    stops_here: bool
    head: float
    probability: float
    log_conditional: float
    features: list[tuple[str, float]]


@dataclass(frozen=True)
class Explanation:
    """Why a node got its score. ``score`` is the sum of the balls' ``head``, ``log_probability`` of their ``log_conditional``.

    ``evidence`` is what the combiner saw for the node, by name; empty if the node was not among the candidates. ``blocks`` says
    how much each block of features spoke: the log-odds that would be lost if it had brought average evidence.
    """

    node: int
    label: Label
    score: float
    log_probability: float
    balls: list[BallContribution]
    evidence: dict[str, float]
    blocks: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.label}: probability {np.exp(self.log_probability):.3f}, head score {self.score:+.3f}"]
        if len(self.blocks) > 1:
            lines.append("  spoke for it: " + ", ".join(f"{name} {value:+.2f}" for name, value in self.blocks.items()))
        for ball in self.balls:
            name = f"stop at {ball.label}" if ball.stops_here else str(ball.label)
            why = ", ".join(f"{feature} {value:+.2f}" for feature, value in ball.features)
            lines.append(f"  {'  ' * ball.depth}{name}: P {ball.probability:.3f}, head {ball.head:+.3f}  {why}")
        return "\n".join(lines)


def describe_ball(
    source: HasTree, theta: Label, k: int | None = None, *, show: int = 10, feature_names: Any = None
) -> BallDescription:
    """Describe B_k(θ), the ball of radius p^−k around θ: all nodes that share θ's first k digits.

    ``source`` is a tree, a code, a network or a fitted classifier. ``theta`` is a label, a node id, digits (root first, from 1),
    or, where the source is a code, an integer code. ``k`` is the ball's depth, by default that of θ itself; ``show`` the length
    of the lists. Told are members, counts, the range of leaf depths and the entropy (bits) of training rows, else leaves, over
    the children; for a tree with columns ``gloss`` (or ``definition``), ``lexicographer`` and ``lemmas`` (WordNet) also gloss
    words, topic files and the number of lemmas. ``speaks_for`` lists features (of a classifier) or words (of a tree) whose weight
    or share in this ball is highest above its siblings'.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> print(describe_ball(tree, "bird"))
    animal / bird
      3 nodes, 2 leaves at depth 2, entropy over its children 1.00 bits
      members: owl, robin
    >>> describe_ball(tree, [1, 2]).label, describe_ball(tree, "robin", 1).label, describe_ball(tree, "robin", 0).label
    ('robin', 'bird', 'animal')
    """
    tree, model = _parts(source)
    _check_count("show", show)
    around = find_node(source, theta)
    i = _ball(tree, around, k)
    inside = np.arange(*tree.slice(i).indices(tree.n_nodes))
    leaves = inside[tree.is_leaf[inside]]
    counts = tree.leaf_counts.astype(float)
    rows = None
    if model is not None:
        rows = float(model.balls_.counts[tree.n_nodes + i])
        if rows > 0:
            counts = model.balls_.counts[tree.n_nodes :].astype(float)
    share = counts[tree.children(i)]
    share = share[share > 0] / max(share.sum(), 1e-12)
    entropy = float(-(share * np.log2(share)).sum()) + 0.0
    if model is not None:
        speaks = _named(_above_siblings(model, i), _names(model, feature_names), show)
    else:
        speaks = _gloss_words(tree, i, show)
    depth = tree.depth[leaves]
    return BallDescription(
        i,
        tree.labels[i],
        tree.path(i),
        len(inside),
        len(leaves),
        rows,
        entropy,
        tree.labels[leaves[:show]].tolist(),
        speaks,
        around,
        int(getattr(source, "p", 0)) or code_prime(tree.max_branching),
        (int(depth.min()), int(depth.max())),
        _gloss_tokens(tree, inside, show),
        _shares(tree.columns.get("lexicographer"), inside, show),
        _count_lemmas(tree, inside),
    )


def _ball(tree: Tree, node: int, k: int | None) -> int:
    """The ancestor of a node at depth k."""
    if k is None:
        return node
    _check_count("k", k)
    depth = int(tree.depth[node])
    if k > depth:
        raise VpunnError(
            f"k={k} is deeper than {examples([tree.labels[node]])}, whose code has {depth} digits; take k ≤ {depth} "
            "(show= is the length of the lists)."
        )
    return int(tree.ancestor_at(node, k))


def _gloss_column(tree: Tree) -> Any:
    return next((tree.columns[name] for name in ("gloss", "definition") if name in tree.columns), None)


def _gloss_tokens(tree: Tree, nodes: np.ndarray, show: int) -> list[tuple[str, int]]:
    texts = _gloss_column(tree)
    if texts is None:
        return []
    words = Counter(word.lower() for text in texts[nodes] if isinstance(text, str) for word in _WORD.findall(text))
    plain = ((word, count) for word, count in words.items() if word not in _COMMON)
    return sorted(plain, key=lambda item: (-item[1], item[0]))[:show]


def _shares(values: Any, nodes: np.ndarray, show: int) -> list[tuple[str, float]]:
    if values is None:
        return []
    counts = Counter(str(value) for value in values[nodes])
    return [(name, count / len(nodes)) for name, count in sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:show]]


def _count_lemmas(tree: Tree, nodes: np.ndarray) -> int | None:
    if "lemmas" not in tree.columns:
        return None
    return len(
        {word for words in tree.columns["lemmas"][nodes] if isinstance(words, str) for word in words.split("; ")}
    )


def explain(
    model: HasTree, x: Features, node: Label = None, *, k: int = 5, feature_names: Any = None
) -> Explanation | BallSum:
    """Why row ``x`` scores as it does at ``node`` (default: the predicted one): the activation path, ball by ball.

    For a `VPuNNRegressor` it says which balls made the number, for a `VPuNNClassifier` which made the probability of a
    class (``node``; default: the predicted one): their own ``explain``.

    The head score of the node is Σ_B (⟨w_B, x⟩ + b_B) over the balls listed, and ln P(node) is Σ_B ln P(B | ball above), the
    last term being that the path stops there; both sums are exact up to float rounding.
    """
    from vpunn.regress import VPuNNClassifier, VPuNNRegressor

    if hasattr(model, "step_log_prob") or hasattr(model, "head_"):  # a head of `vpunn.torch`, alone or as an estimator
        found: Explanation = model.explain(x, node, k=k, feature_names=feature_names)
        return found
    if isinstance(model, VPuNNClassifier):
        return model.explain(x, node)
    if isinstance(model, VPuNNRegressor):
        if node is not None:
            raise VpunnError(f"a regressor explains its number, not a node ({node!r}); leave node out.")
        return model.explain(x)
    if getattr(model, "multilabel_", False):
        _check_count("k", k)
        several: Explanation = model.explain_set(x, node, k=k, feature_names=feature_names)
        return several
    _check_fitted(model)
    _check_count("k", k)
    posterior = model.posterior(x, evidence=True)
    if len(posterior) != 1:
        raise VpunnError(f"explain takes one row, got {len(posterior):,}; pass X[[i]] to keep it two-dimensional.")
    tree = model.tree_
    i = int(posterior.best()[0]) if node is None else int(model.label_tree_.find(node))
    heard = _Heard(model, _features(model, posterior.rows))
    names = _names(model, feature_names)
    chain, p = posterior.chain(np.array([i]))
    mass = float(posterior.masses(slice(0, 1))[0, i])
    steps, above = [], 1.0
    for j, q in zip(chain[0][chain[0] >= 0].tolist(), p[0].tolist(), strict=False):
        if not tree.is_leaf[j]:
            steps.append(_step(model, heard, names, k, tree.n_nodes + j, j, False, q, above))
            above = q
    steps.append(_step(model, heard, names, k, i, i, not tree.is_leaf[i], mass, above))
    at = np.flatnonzero(posterior.candidates[0] == i)
    evidence = {}
    if len(at):
        evidence = dict(zip(model.experts_.names(), posterior.evidence[0, at[0]].tolist(), strict=True))
    score = sum(step.head for step in steps)
    said = _spoke(model, posterior.evidence[0, at[0]]) if len(at) else {}
    return Explanation(i, tree.labels[i], score, sum(step.log_conditional for step in steps), steps, evidence, said)


def _features(model: HasTree, rows: Features) -> np.ndarray:
    """One row over all columns of X, as the heads read it: words of unit length, dense columns standardised."""
    values, at = np.zeros(model.n_features_in_), 0
    for kind, columns in _column_places(model):
        if kind is None:
            words = rows.words.toarray()[0]
            values[columns] = words[at : at + len(columns)]
            at += len(columns)
        elif kind in model.dense_:
            block = model.dense_[kind]
            values[columns] = (rows.dense[kind][0] - block.space.centre) / block.space.scale
    return values


def _column_places(model: HasTree) -> list[tuple[str | None, np.ndarray]]:
    """Blocks in the order of X with their columns; None for a block of words."""
    layout, at, places = model.layout_, 0, []
    for name, dense, width in zip(layout.names, layout.dense, layout.columns, strict=True):
        places.append(((name or "numbers") if dense else None, np.arange(at, at + width)))
        at += width
    return places


def _spoke(model: HasTree, evidence: np.ndarray) -> dict[str, float]:
    """How much each block spoke for a candidate: its score by the combiner, minus that with the block's evidence at its mean."""
    combiner = model.combiner_
    names = model.experts_.names()
    blocks = list(model.dense_)
    owner = np.array(
        [next((b for b in blocks if n.removeprefix("rank by ").startswith(f"{b}: ")), "words") for n in names]
    )
    cases = [evidence]
    for block in ("words", *blocks):
        cases.append(np.where(owner == block, combiner.centre, evidence))
    score = combiner.scores(np.stack(cases)[:, None].astype(np.float32), np.zeros((len(cases), 0), np.int32))[:, 0]
    listed = ["words"] if model.layout_.words() else []
    said = dict(zip(("words", *blocks), (score[0] - score[1:]).tolist(), strict=True))
    return {name: said[name] for name in (*listed, *blocks)}


class _Heard:
    """One row as the heads hear it: its columns that are not 0 and the weights that any ball has for them."""

    def __init__(self, model: HasTree, row: np.ndarray) -> None:
        self.columns = np.flatnonzero(row)
        self.values = row[self.columns]
        self.model, self.places = model, _column_places(model)
        start, word, feature = model.balls_.feature_start, 0, np.full(len(self.columns), -1, np.int64)
        for kind, columns in self.places:
            if kind is None:
                inside = self._inside(columns)
                feature[inside] = self.columns[inside] - columns[0] + word
                word += len(columns)
        owners = np.flatnonzero(feature >= 0)
        first, stop = start[feature[owners]], start[feature[owners] + 1]
        self.entry = np.concatenate(
            [np.arange(a, b) for a, b in zip(first, stop, strict=True)] or [np.zeros(0, np.int64)]
        )
        self.owner = np.repeat(owners, stop - first)
        self.block = model.balls_.entry_block[self.entry]

    def _inside(self, columns: np.ndarray) -> np.ndarray:
        return (self.columns >= columns[0]) & (self.columns <= columns[-1]) if len(columns) else self.columns < 0

    def parts(self, block: int) -> np.ndarray:
        """What each of the row's columns adds to the head score of a ball."""
        here = self.block == block
        weight = np.asarray(self.model.heads_.weight[self.entry[here]], np.float64)
        found = np.bincount(self.owner[here], weight, len(self.columns)).astype(np.float64)  # of no entries: integers
        for kind, columns in self.places:
            if kind in self.model.dense_:
                inside = self._inside(columns)
                found[inside] = self.model.dense_[kind].ball_head(block)[0][self.columns[inside] - columns[0]]
        return np.asarray(found * self.values)


def _step(
    model: HasTree, heard: _Heard, names: Any, k: int, block: int, node: int, stops: bool, p: float, above: float
) -> BallContribution:
    tree = model.tree_
    parts = heard.parts(block)
    values = {int(f): float(v) for f, v in zip(heard.columns, parts, strict=True) if v}
    largest = sorted(values.items(), key=lambda item: (-abs(item[1]), item[0]))[:k]
    head = float(model.heads_.bias[block]) + sum(values.values())
    head += sum(block_of.ball_head(block)[1] for block_of in model.dense_.values())
    gain = float(np.log(p / above)) if p > 0 and above > 0 else -np.inf
    return BallContribution(
        node,
        tree.labels[node],
        int(tree.depth[node]),
        stops,
        head,
        p,
        gain,
        [(str(names(f)), v) for f, v in largest if v],
    )


def contrast(model: HasTree, a: Label, b: Label, k: int = 10, *, feature_names: Any = None) -> list[tuple[str, float]]:
    """The features that separate two nodes most: Σ of weights along a's chain minus along b's, positive speaks for ``a``."""
    _check_fitted(model)
    _check_count("k", k)
    tree = model.tree_
    i, j = (int(model.label_tree_.find(node)) for node in (a, b))
    difference = np.zeros(model.n_features_in_)
    for sign, node in ((1.0, i), (-1.0, j)):
        for block in _chain_blocks(tree, node):
            difference += sign * _block(model, block)
    return _named(difference, _names(model, feature_names), k, both=True)


def export_tree_for_viz(source: HasTree, x: Features = None, *, max_nodes: int | None = None) -> str:
    """The tree as nested JSON for a viewer: name, id, depth, leaves, ``digit`` and ``code`` (text: it may exceed 2⁵³).

    A network or `HiPaN` adds the ``coefficient`` of every ball, a classifier its training ``rows`` and, for a row ``x``, the
    ``probability``. With ``max_nodes`` only the largest balls (or the most probable ones) are written, and ``hidden`` counts
    what was left out. Codes too long to write down (chains of a million nodes) are left out. The text can stand inside a
    ``<script>`` of a page: ``<``, ``>`` and ``&`` are written as ``\\u003c`` and so on, which JSON reads back as they were.
    """
    tree, model = _parts(source)
    if max_nodes is not None:
        _check_count("max_nodes", max_nodes)
    p = None
    if x is not None:
        if model is None:
            raise VpunnError("only a fitted classifier has probabilities; leave x out for a tree or a code.")
        p = model.predict_node_proba(x)
        if len(p) != 1:
            raise VpunnError(f"export_tree_for_viz shows one row, got {len(p):,}.")
    kept = np.arange(tree.n_nodes)
    if max_nodes is not None and max_nodes < tree.n_nodes:
        rank = -tree.size.astype(float) if p is None else -p[0]
        # A ball never ranks below its parts; among equals the shallower comes first, so the choice is closed upwards.
        kept = np.sort(np.lexsort((tree.depth, rank))[: max(max_nodes, 1)])
    codes, coefficients = _codes(source, tree, kept), _coefficients(source)
    built: dict[int, dict[str, Any]] = {}
    for at, i in enumerate(kept.tolist()):
        entry: dict[str, Any] = {"name": str(tree.labels[i]), "id": i, "depth": int(tree.depth[i])}
        entry |= {"leaves": int(tree.leaf_counts[i]), "digit": int(tree.digit[i])}
        if codes is not None:
            entry["code"] = str(codes[at])
        if coefficients is not None:
            entry["coefficient"] = _number(coefficients[i])
        if model is not None:
            entry["rows"] = float(model.balls_.counts[tree.n_nodes + i])
        if p is not None:
            entry["probability"] = float(p[0, i])
        hidden = int(tree.size[i]) - int(np.searchsorted(kept, i + tree.size[i]) - np.searchsorted(kept, i))
        if hidden:
            entry["hidden"] = hidden
        built[i] = entry
        if i:
            built[int(tree.parent[i])].setdefault("children", []).append(entry)
    return _script_safe(json.dumps(built[0], ensure_ascii=False))


def _script_safe(text: str) -> str:
    """JSON without the characters by which a label could end the script it stands in, or a line of it."""
    return text.translate({ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def _codes(source: HasTree, tree: Tree, nodes: np.ndarray) -> Any:
    """Codes of nodes with the source's own prime, or None where they are too long."""
    try:
        return PadicCode(tree, getattr(source, "p", None)).encode(nodes)
    except CodeError:
        return None


def _coefficients(source: HasTree) -> Any:
    return None if isinstance(source, Tree) else getattr(source, "coefficients_", None)


def _number(value: Any) -> Any:
    """A coefficient as JSON has it: numbers, lists of them, text for exact fractions, null where there is none."""
    if np.ndim(value):
        return [_number(v) for v in value]
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return str(value)


def _parts(source: HasTree) -> tuple[Tree, Any]:
    """The tree and, if there is one, the fitted classifier."""
    if isinstance(source, Tree):
        return source, None
    if hasattr(source, "balls_"):
        return source.tree_, source
    tree = getattr(source, "tree", None)
    if isinstance(tree, Tree):
        return tree, None
    raise VpunnError(f"expected a fitted classifier, a code or a Tree, got {type(source).__name__}.")


def tree_of(source: HasTree) -> Tree:
    """The tree of a classifier, code, network or model, or the tree itself."""
    return _parts(source)[0]


def find_node(source: HasTree, theta: Label) -> int:
    """The node of a label, a node id, digits (root first, 1 … children), or an integer code if ``source`` is a code."""
    tree = tree_of(source)
    code = source if isinstance(source, PadicCode) else None
    if code is not None and isinstance(theta, int | np.integer) and not isinstance(theta, bool):
        return int(code.decode(int(theta)))
    if isinstance(theta, list | np.ndarray) and np.ndim(theta) == 1 and all(_whole(d) for d in theta):
        code = code or PadicCode(tree)
        if any(not 0 <= d < code.p for d in theta):
            raise VpunnError(f"digits must lie in 0..{code.p - 1}, got {examples(theta)}.")
        return int(code.parse(str([int(d) for d in theta])))
    if isinstance(theta, list | np.ndarray) and np.ndim(theta) > 0:
        raise VpunnError(f"name one node, by label, id or digits; got {examples(theta)}.")
    return int(tree.find(theta))


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _check_fitted(model: HasTree) -> None:
    if not hasattr(model, "balls_"):
        raise VpunnError(f"expected a fitted classifier, got {type(model).__name__}; HiPaNClassifier.fit makes one.")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or value < 0:
        raise VpunnError(f"{name} must be a whole number of at least 0, got {value!r}.")


def _chain_blocks(tree: Tree, i: int) -> list[int]:
    chain = tree.ancestors(i).tolist()
    return [i] + [tree.n_nodes + u for u in chain if u and not tree.is_leaf[u]]


def _block(model: HasTree, *blocks: int) -> np.ndarray:
    """The weights of one ball, or the mean of several, over all columns of X."""
    balls = model.balls_
    at = np.flatnonzero(np.isin(balls.entry_block, blocks))
    words = np.zeros(len(balls.feature_start) - 1)
    np.add.at(words, np.searchsorted(balls.feature_start, at, side="right") - 1, model.heads_.weight[at])
    weights, start = np.zeros(model.n_features_in_), 0
    for kind, columns in _column_places(model):
        if kind is None:
            weights[columns] = words[start : start + len(columns)] / len(blocks)
            start += len(columns)
        elif kind in model.dense_:
            weights[columns] = np.mean([model.dense_[kind].ball_head(b)[0] for b in blocks], 0)
    return weights


def _above_siblings(model: HasTree, i: int) -> np.ndarray:
    tree = model.tree_
    if i == 0:
        return np.zeros(model.n_features_in_)
    blocks = [tree.n_nodes + j if not tree.is_leaf[j] else j for j in tree.children(int(tree.parent[i])).tolist()]
    mine = tree.n_nodes + i if not tree.is_leaf[i] else i
    siblings = [b for b in blocks if b != mine]
    own = _block(model, mine)
    if not siblings:
        return own
    return np.asarray(own - _block(model, *siblings))


def _names(model: HasTree, feature_names: Any) -> Any:
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        return lambda f: f"x{f}"
    if len(feature_names) != model.n_features_in_:
        shown = examples(feature_names[:3])
        raise VpunnError(f"feature_names needs {model.n_features_in_:,} names, got {len(feature_names):,}: {shown}.")
    return lambda f: feature_names[f]


def _named(values: np.ndarray, names: Any, k: int, *, both: bool = False) -> list[tuple[str, float]]:
    order = np.argsort(-(np.abs(values) if both else values), kind="stable")[:k]
    return [(str(names(int(f))), float(values[f])) for f in order if (values[f] != 0 if both else values[f] > 0)]


def _gloss_words(tree: Tree, i: int, k: int) -> list[tuple[str, float]]:
    """Words whose share in the texts of the ball exceeds that in its siblings' texts most."""
    texts = _gloss_column(tree)
    if texts is None or i == 0:
        return []

    def shares(nodes: np.ndarray) -> tuple[Counter[str], int]:
        words = Counter(
            word.lower() for text in texts[nodes] if isinstance(text, str) for word in set(_WORD.findall(text))
        )
        return words, max(len(nodes), 1)

    family = np.arange(*tree.slice(int(tree.parent[i])).indices(tree.n_nodes))[1:]
    here = (family >= i) & (family < i + tree.size[i])
    mine, n = shares(family[here])
    others, m = shares(family[~here])
    gain = {word: count / n - others[word] / m for word, count in mine.items()}
    return sorted(((w, g) for w, g in gain.items() if g > 0), key=lambda item: (-item[1], item[0]))[:k]
