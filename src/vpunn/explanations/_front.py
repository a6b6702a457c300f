"""One door to every model's own explanation, through pipelines too."""

from __future__ import annotations

from inspect import signature
from typing import Any

from vpunn._types import FeatureNames, Features, FittedModel, Label
from vpunn.errors import VpunnError, check_whole


def explain(model: FittedModel, x: Features, node: Label = None, **options: Any) -> Any:
    """Why ``model`` answers row ``x`` as it does: ``model.explain(x, …)``, with the options of the model's own method.

    A `HiPaNClassifier` says what spoke for a node and against it (``node``: a label; default: the answer), a `VPuNNRegressor` or
    `PadicTargetEncoder` which branches made the number, a `VPuNNClassifier` which made the probability of a class. Of a `Pipeline`
    of scikit-learn the last step is explained: the steps before it read the row, and features bear the names that those give
    them. A search such as `GridSearchCV` stands for its best model.

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from vpunn import HiPaNClassifier, explain, text_features
    >>> texts = ["small red bird", "red bird sings", "pond fish", "fish in a pond"] * 4
    >>> model = make_pipeline(text_features(), HiPaNClassifier()).fit(texts, ["robin", "robin", "carp", "carp"] * 4)
    >>> explain(model, ["a red bird"]).label
    'robin'
    """
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "named_steps"):
        front, model = model[:-1], model[-1]
        x = front.transform(x) if len(front) else x
        named = {"feature_names": _names(front)} if "feature_names" in _taken(model) else {}
        return explain(model, x, node, **{**named, **options})
    taken = _taken(model)
    if node is not None and not {"node", "label"} & set(taken):
        raise VpunnError(f"a {type(model).__name__} explains its number, not a node ({node!r}); leave node out.")
    for name in options:
        if name not in taken:
            raise VpunnError(f"a {type(model).__name__} is explained without {name}=; it takes {', '.join(taken)}.")
    check_whole("k", options.get("k", 0), 0)
    return model.explain(x, *([] if node is None else [node]), **options)


def _taken(model: FittedModel) -> list[str]:
    """What the model's own method takes."""
    if not hasattr(model, "explain"):
        raise VpunnError(f"a {type(model).__name__} has no explanations; models of vpunn that predict have.")
    return list(signature(model.explain).parameters)


def _names(front: Any) -> FeatureNames:
    """What the columns are called after the steps before a model; None if a step does not say."""
    try:
        return front.get_feature_names_out() if len(front) else None
    except (AttributeError, ValueError):
        return None
