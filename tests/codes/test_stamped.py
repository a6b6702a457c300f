"""Codes kept from one release of a tree and read on another: refused, or mapped by path, never silently another node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import vpunn
from strategies import trees
from vpunn import PadicCode
from vpunn.codes import StampedCodes
from vpunn.datasets import load_wordnet
from vpunn.errors import CodeError


@given(trees(30))
def test_stamped_codes_come_back_on_their_own_tree(tree):
    code = PadicCode(tree)
    nodes = np.arange(tree.n_nodes)
    assert code.read(code.stamp(nodes)).tolist() == nodes.tolist()
    other = PadicCode(tree, vpunn.padic.next_prime(code.p + 1))
    with pytest.raises(CodeError, match="another tree or prime"):
        other.read(code.stamp(nodes))


def test_codes_of_wordnet_3_0_are_not_read_as_other_synsets_of_3_1(tmp_path):
    old, new = load_wordnet("3.0").tree, load_wordnet("3.1").tree
    known = set(new.labels.tolist())
    shared = np.array([leaf for leaf in old.leaves.tolist() if old.labels[leaf] in known])
    picked = np.random.default_rng(0).choice(shared, 2000, replace=False)
    before, after = PadicCode(old), PadicCode(new, PadicCode(new).p)
    kept = before.stamp(picked, release="wordnet-3.0")
    # Without the stamp many integers are codes of 3.1 too, of other synsets: that is the danger.
    same_prime = PadicCode(old, after.p)
    silent = after.decode(same_prime.encode(picked), strict=False)
    assert (new.labels[silent] != old.labels[picked]).sum() > 20
    with pytest.raises(CodeError, match="release 'wordnet-3.0'"):
        after.read(kept)
    again = vpunn.load(kept.save(tmp_path / "codes"))
    assert isinstance(again, StampedCodes)
    assert (again.codes == kept.codes).all()
    assert (again.paths, again.p, again.fingerprint, again.release) == (
        kept.paths,
        kept.p,
        kept.fingerprint,
        kept.release,
    )
    assert (before.read(again) == picked).all()
    stays = np.array([_is_path(new, path) for path in kept.paths[:200]])
    found = after.read(before.stamp(picked[:200][stays]), by="path")
    assert (new.labels[found] == old.labels[picked[:200][stays]]).all()
    assert stays.sum() > 150


def _is_path(tree, path) -> bool:
    """Whether labels follow each other down from the root, climbed up one by one."""
    return tree.path(int(tree.index(path[-1])))[1:] == path
