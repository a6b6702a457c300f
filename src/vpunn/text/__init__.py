"""Texts read: words and letters counted (`text_features`), meanings (`sentence_features`), spellings of names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpunn.text.features import TextFeatures, text_features
    from vpunn.text.ngrams import by_word
    from vpunn.text.sentences import SentenceFeatures, sentence_features

__all__ = ["SentenceFeatures", "TextFeatures", "by_word", "sentence_features", "text_features"]

#: name → module, imported when first asked for: who reads saved features needs no scikit-learn
_LATER = {
    "SentenceFeatures": "sentences",
    "TextFeatures": "features",
    "by_word": "ngrams",
    "sentence_features": "sentences",
    "text_features": "features",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vpunn.text' has no attribute {name!r}")
    return getattr(import_module(f"vpunn.text.{_LATER[name]}"), name)
