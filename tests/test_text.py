"""Text features: what they are made of, and that a saved set makes the same ones."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion

import vpunn
from stores import write_head
from vpunn.errors import DataError, VpunnError
from vpunn.text import TextFeatures, by_word, sentence_features, text_features
from vpunn.text.ngrams import MIXED, RUN, WORD, beginnings
from vpunn.text.tfidf import TextReader

TEXTS = ["a kind of small bird", "a kind of large fish", "", "Vögel, G2/M"]
NEW = ["a small fish", "zzz", "", "vögel g2"]


@pytest.mark.parametrize(
    "options",
    [{}, {"characters": None}, {"words": (1, 1), "characters": (2, 3)}, {"mixed": "starts"}, {"mixed": "cut"}],
)
def test_saved_features_are_the_same(tmp_path, options):
    features = text_features(min_rows=1, **options)
    X = features.fit_transform(TEXTS)
    assert X[2].nnz == 0
    again = vpunn.load(features.save(tmp_path / "f"), verify=True)
    assert isinstance(again, TextFeatures)
    assert (again.transform(NEW) != features.transform(NEW)).nnz == 0
    assert np.array_equal(again.get_feature_names_out(), features.get_feature_names_out())
    assert again.save(tmp_path / "g").joinpath("model.json").read_bytes() == (tmp_path / "f/model.json").read_bytes()


ODD = [
    *NEW,
    "ΣΊΣΥΦΟΣ İstanbul ſtraße ǅ ﬁn",  # letters that change their number when they are made small
    "e\u0301te\u0301 \u200bzero\u00a0width\u2003blank\x1cgap\tand\n\nlines",
    "雪 が 降る🦜🦜 \ud800 lone",
    "a" * 300,
    "_ __ a_b 007 x1y2z3 SLC25A4 slc25a6 İ2",
    "   ",
    "bird bird BIRD bird, fish!",
    "\0",
]


class Beginnings(TfidfVectorizer):
    """The twin of ``mixed="starts"``."""

    def build_analyzer(self):
        words, tokens = super().build_analyzer(), self.build_tokenizer()
        return lambda text: [*words(text), *(start for word in tokens(text.lower()) for start in beginnings(word))]


@pytest.mark.parametrize("min_rows", [1, 2])
@pytest.mark.parametrize(
    ("options", "twins"),
    [
        ({}, {"words": {"ngram_range": (1, 2)}, "characters": {"analyzer": "char_wb", "ngram_range": (3, 5)}}),
        ({"words": (2, 3), "characters": None}, {"words": {"ngram_range": (2, 3)}}),
        ({"words": (1, 1), "characters": None, "mixed": "starts"}, {"words": {"ngram_range": (1, 1)}}),
        ({"characters": None, "mixed": "cut"}, {"words": {"ngram_range": (1, 2), "token_pattern": RUN}}),
        (
            {"words": (1, 1), "characters": (1, 9)},
            {"words": {"ngram_range": (1, 1)}, "characters": {"analyzer": "char_wb", "ngram_range": (1, 9)}},
        ),
    ],
)
def test_features_are_the_bits_of_scikit_learn(tmp_path, options, twins, min_rows):
    kind = Beginnings if options.get("mixed") == "starts" else TfidfVectorizer
    made = []
    for name, more in twins.items():
        pattern = {"token_pattern": WORD if "analyzer" not in more else None}
        made.append((name, kind(sublinear_tf=True, min_df=min_rows, **pattern | more)))
    union, features = FeatureUnion(made), text_features(min_rows=min_rows, **options)
    training = [*TEXTS, *ODD]
    same_bits(union.fit(training).transform(training), features.fit_transform(training))
    readers = [features, *(one.load(features.save(tmp_path / "f")) for one in (TextFeatures, TextReader))]
    for reader in readers:
        for texts in (ODD, TEXTS, ODD[:1], [""]):
            same_bits(union.transform(texts), reader.transform(texts))
        assert reader.get_feature_names_out().tolist() == union.get_feature_names_out().tolist()


def same_bits(given, found):
    assert given.shape == found.shape and found.has_canonical_format
    for one in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(given, one), getattr(found, one))
        assert getattr(given, one).dtype == getattr(found, one).dtype


def test_mixed_words_count_by_their_beginnings():
    features = text_features(characters=None, min_rows=1, mixed="starts").fit(
        ["SLC25A4 carrier", "slc25a6", "G2/M 1914"]
    )
    names = {"slc25a4", "carrier", "slc25a4 carrier", "slc…", "slc25…", "slc25a…", "slc25a6", "g2", "g…", "m", "1914"}
    found = {name.removeprefix("words__") for name in features.get_feature_names_out()}
    assert found == names | {"g2 m", "m 1914"}
    assert features.transform(["Slc25b9"]).nnz == 2
    told = by_word("SLC25A4 carrier", [("words__slc25…", 0.5), ("words__carrier", 0.25), ("words__slc25a4", 0.5)])
    assert told == [("slc25a4", 1.0), ("carrier", 0.25)]


def test_mixed_words_are_cut_where_letters_meet_digits(tmp_path):
    features = text_features(characters=None, min_rows=1, mixed="cut").fit(["SLC25A4 carrier", "G2/M"])
    pairs = {"slc 25", "25 a", "a 4", "4 carrier", "g 2", "2 m"}
    found = {name.removeprefix("words__") for name in features.get_feature_names_out()}
    assert found == pairs | {"slc", "25", "a", "4", "carrier", "g", "2", "m"}
    assert features.transform(["Slc25b9"]).nnz == 3  # slc, 25 and both
    told = by_word("SLC25A4 carrier", [("words__25 a", 0.5), ("words__4 carrier", 0.25), ("words__slc", 0.5)])
    assert told == [("slc25a4", 1.125), ("carrier", 0.125)]
    plain = [text_features(mixed=mixed).fit(TEXTS[:3]).get_feature_names_out().tolist() for mixed in MIXED]
    assert plain[0] == plain[1] == plain[2]  # texts without such words have the same features
    for kind in (TextFeatures, TextReader):
        again = kind.load(features.save(tmp_path / "f"))
        assert (again.transform(["SLC25A6"]) != features.transform(["SLC25A6"])).nnz == 0
    head = json.loads((tmp_path / "f/model.json").read_text())
    assert head["settings"]["parts"]["words"]["cut"] is True
    head["settings"]["parts"]["words"]["starts"] = True
    write_head(tmp_path / "f", head)
    with pytest.raises(DataError, match="cut or have beginnings, not both"):
        TextReader.load(tmp_path / "f")


def test_what_cannot_be_read_is_refused(tmp_path):
    features = text_features(min_rows=1)
    with pytest.raises(Exception, match="not fitted"):
        clone(features).save(tmp_path / "unfitted")
    features.fit(TEXTS)
    path = features.save(tmp_path / "f")
    np.save(path / "words.idf.npy", np.zeros(3))
    with pytest.raises(DataError, match="cut short, or not what model.json says"):
        TextFeatures.load(path)
    with pytest.raises(DataError, match="not what model.json says"):
        TextFeatures.load(path, verify=False)
    features.save(path)
    head = json.loads((path / "model.json").read_text())
    head["settings"]["parts"]["words"]["ngram_range"] = "long"
    write_head(path, head)
    for kind in (TextFeatures, TextReader):
        with pytest.raises(DataError, match="the option 'ngram_range' of text features is 'long'"):
            kind.load(path)


def test_lengths_are_checked():
    with pytest.raises(VpunnError, match="n-gram lengths"):
        text_features(words=(2, 1))
    with pytest.raises(VpunnError, match="mixed=.split. is unknown"):
        text_features(mixed="split")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "there are no texts"),
        (None, "as a list or one column of them, such as .*; got None"),
        ("one text", "as a list or one column of them, such as .*; got 'one text'"),
        ({"red": 1}, "got dict"),
        ({"red"}, "got set"),
        (pd.DataFrame({"a": ["red"], "b": ["blue"]}), "got DataFrame"),
        (np.array("red"), "got ndarray"),
        (["red", None, None], r"row 1 of the texts is None \(2 rows are no text\); fill in ''"),
        (["red", float("nan")], r"row 1 of the texts is nan \(1 row is no text\)"),
        (np.array([["a", "b"]]), "got ndarray"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts, message):
    known = text_features(min_rows=1).fit(TEXTS)
    sentences = sentence_features(lambda texts: np.ones((len(texts), 2)))
    for read in (text_features().fit, text_features().fit_transform, known.transform, sentences.fit_transform):
        with pytest.raises(VpunnError, match=message):
            read(texts)


def test_a_column_of_arrow_is_a_list_of_texts():
    column = pa.chunked_array([pa.array(TEXTS)])
    whole = text_features(min_rows=1)
    assert (whole.fit_transform(column) != whole.fit_transform(TEXTS)).nnz == 0


def test_texts_without_words_to_learn_are_refused():
    with pytest.raises(VpunnError, match="hold no word .letters or digits.: '', '-'"):
        text_features(characters=None).fit(["", "-"])
    for texts in (["red"], ["red", "blue"]):
        with pytest.raises(
            VpunnError, match=r"as many as 2 of the . texts?; give more, or text_features\(min_rows=1\)"
        ):
            text_features(characters=None).fit(texts)
