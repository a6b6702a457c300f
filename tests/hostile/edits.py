"""Edited model folders: random recipes, what applying one does, and how a loaded model is tried.

A recipe is plain JSON, so that one that once did harm is kept as a line of ``tests/data/hostile/edits.jsonl``. Checksums are
made to fit afterwards: this is a file made to do harm, not one that was damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import vpunn
from stores import write_head
from vpunn import Tree
from vpunn.errors import VpunnError

RNG = np.random.default_rng(7)
PATHS = [
    ("animal", "bird", "owl"),
    ("animal", "bird", "wren"),
    ("animal", "fish"),
    ("plant", "tree"),
    ("plant", "fern"),
]
TREE = Tree.from_paths(PATHS, root="life")
WORDS = sparse.csr_matrix(RNG.poisson(0.6, (60, 14)).astype(float))
NUMBERS = RNG.normal(size=(60, 4))
BLOCKS = {"words": WORDS, "numbers": NUMBERS}
LEVELS = np.array([path[:2] for path in PATHS] * 12, dtype=object)


# ---- small models of every kind --------------------------------------------------------------------------------------


def _classifier(flat: bool) -> Any:
    from vpunn.hipan import HiPaNClassifier

    if flat:
        return HiPaNClassifier().fit(NUMBERS, np.arange(60) % 5)
    about = sparse.csr_matrix(RNG.poisson(0.5, (TREE.n_nodes, 14)).astype(float))
    labels = [path[-1] for path in PATHS] * 12
    return HiPaNClassifier(TREE).fit(WORDS, labels, X_nodes=about)


def _network(values: str) -> Any:
    from vpunn.network import VPuNN

    return VPuNN(TREE, values=values).interpolate([3, 1, 4, 1, 5])


def _regressor() -> Any:
    from vpunn.regress import VPuNNRegressor

    X = np.column_stack([LEVELS, NUMBERS[:, :1]])
    return VPuNNRegressor(covariates=[2]).fit(X, NUMBERS[:, 1])


def _regress_classifier() -> Any:
    from vpunn.regress import VPuNNClassifier

    return VPuNNClassifier().fit(LEVELS, np.array(["a", "b", "c"] * 20))


def _target_encoder() -> Any:
    from vpunn.regress import PadicTargetEncoder

    return PadicTargetEncoder().fit(LEVELS, NUMBERS[:, 0])


def _text() -> Any:
    from vpunn.text import text_features

    return text_features(min_rows=1).fit(["a small bird", "a large fish", "", "owl"])


def _code() -> Any:
    from vpunn.codes import PadicCode

    return PadicCode(TREE)


def _ids() -> Any:
    from vpunn.tabular import semantic_ids

    return semantic_ids(NUMBERS, p=5, K=2)


def _encoder() -> Any:
    from vpunn.tabular import LatentTreeEncoder

    return LatentTreeEncoder(random_state=0).fit(NUMBERS)


def _tabhipan() -> Any:
    from vpunn.tabular import TabHiPaN, boosting

    engine, boosting.best_engine = boosting.best_engine, lambda: "sklearn"  # LightGBM's own text is read by LightGBM
    try:
        return TabHiPaN(rounds=5, random_state=0).fit(NUMBERS, NUMBERS[:, 0] > 0)
    finally:
        boosting.best_engine = engine


def _paper() -> Any:
    return vpunn.HiPaN(TREE, "gist", sweeps=2, seed=0).fit()


def _blocks() -> Any:
    from vpunn.hipan import HiPaNClassifier

    return HiPaNClassifier(TREE).fit(BLOCKS, [path[-1] for path in PATHS] * 12)


def _path_encoder() -> Any:
    from vpunn.regress import PadicEncoder

    return PadicEncoder().fit(LEVELS)


def _mixed() -> Any:
    from vpunn.codes import MixedRadixCode

    return MixedRadixCode(TREE)


def _stamped() -> Any:
    return _code().stamp(np.arange(TREE.n_nodes))


def _result() -> Any:
    from vpunn.vapo import minimize

    return minimize(lambda digits: float(np.sum(digits)), p=3, n=4, seed=0)


MODELS: dict[str, Any] = {
    "tree": lambda: TREE.replace(columns={"mass": np.arange(TREE.n_nodes) * 1.5}),
    "code": _code,
    "network": lambda: _network("real"),
    "exact network": lambda: _network("rational"),
    "regressor": _regressor,
    "regress classifier": _regress_classifier,
    "target encoder": _target_encoder,
    "text": _text,
    "result": _result,
    "words": lambda: _classifier(flat=False),
    "numbers": lambda: _classifier(flat=True),
    "ids": _ids,
    "table": _encoder,
    "blocks": _blocks,
    "boosted": _tabhipan,
    "paper": _paper,
    "path encoder": _path_encoder,
    "mixed": _mixed,
    "stamped": _stamped,
}


# ---- trying what was loaded ------------------------------------------------------------------------------------------


def wrong_with(name: str, model: Any) -> str:
    """Use a loaded model; what is wrong with its answers, empty if nothing. Refusals are raised."""
    asked = {"words": WORDS, "numbers": NUMBERS, "blocks": BLOCKS}
    if name in asked:
        return _wrong_distribution(model, asked[name])
    if name == "tree":
        model.check_tree() if hasattr(model, "check_tree") else None
        return "" if (model.subtree_sum(np.ones(model.n_nodes)) == model.size).all() else "sizes"
    if name in ("code", "mixed"):
        nodes = np.arange(model.tree.n_nodes)
        return "" if (model.decode(model.encode(nodes)) == nodes).all() else "codes"
    if name in ("network", "exact network"):
        return "" if len(model.predict(np.arange(model.tree.n_nodes))) == model.tree.n_nodes else "length"
    if name == "regressor":
        return _not_finite(model.predict(np.column_stack([LEVELS, NUMBERS[:, :1]])))
    if name == "regress classifier":
        p = model.predict_proba(LEVELS)
        return _not_finite(p) or ("" if np.allclose(p.sum(1), 1, atol=1e-6) else "sums")
    if name == "boosted":
        p = model.predict_proba(NUMBERS)
        return _not_finite(p) or ("" if np.allclose(p.sum(1), 1, atol=1e-6) else "sums")
    if name == "paper":
        digits = model.predict_digits(rule="honest")
        return "" if len(digits) == model.tree.n_leaves else "length"
    if name == "stamped":
        _code().read(model, by="path")
        return ""
    if name == "path encoder":
        return _not_finite(model.transform(LEVELS))
    if name == "target encoder":
        return _not_finite(model.transform(LEVELS))
    if name == "text":
        return _not_finite(model.transform(["a small owl", ""]).data)
    if name == "ids":
        return "" if len(model.assign(NUMBERS)) == 60 else "length"
    if name == "table":
        return "" if len(model.transform(NUMBERS)) == 60 else "length"
    return "" if str(model) else "nothing to show"


def _not_finite(values: Any) -> str:
    return "" if np.isfinite(np.asarray(values, float)).all() else "not finite"


def _wrong_distribution(model: Any, X: Any) -> str:
    p, balls = model.predict_proba(X), model.predict_node_proba(X)
    if not np.isfinite(p).all() or not np.isfinite(balls).all():
        return "probabilities are not finite"
    if p.min() < 0 or not np.allclose(p.sum(1), 1, atol=1e-6) or not np.allclose(balls[:, 0], 1, atol=1e-6):
        return f"probabilities from {p.min():g}, sums {p.sum(1).min():g} to {p.sum(1).max():g}"
    if not np.isin(model.predict(X), model.classes_).all():
        return "an answer that is no class"
    model.top_k(X, 3)
    model.predict(X, stop="risk")
    return ""


# ---- recipes ---------------------------------------------------------------------------------------------------------

WHOLE = [-1, 0, 1, 7, 2**31 - 1, -(2**31), 2**62, -(2**63)]
REAL = ["nan", "inf", "-inf", -1.0, 0.0, 1e-45, 1e4, 1e30, 1.7e308, -1e308]
SHAPES = ["shorter", "longer", "empty", "column", "scalar"]
SETTINGS = [None, True, False, -1, 0, 1, 3, 10**9, 10**30, 1e308, "x", "", [], {}, [[]], [1, "a"], {"a": 1}]
BYTES = ["cut", "flip", "gone", "noise", "huge", "device", "pipe", "folder"]
#: What a head may promise that no file holds.
PROMISES = [
    ("shape", [10**30]),
    ("shape", [10**9]),
    ("shape", [-1]),
    ("shape", [0, 10**30]),
    ("dtype", "<f99"),
    ("dtype", "<f2"),
]
WIDTHS = ["<U999999", "<U1", "<U0", "U", "<U" + "9" * 99]


def draw(folder: Path, rng: np.random.Generator) -> dict[str, Any]:
    """A random recipe for one of the arrays or settings of a folder."""
    head = json.loads((folder / "model.json").read_text())
    kind = str(
        rng.choice(
            [
                "values",
                "values",
                "values",
                "shape",
                "dtype",
                "order",
                "swap",
                "bytes",
                "setting",
                "head",
                "promise",
                "width",
            ]
        )
    )
    if kind in ("setting", "head"):
        where = _random_path(head["settings"] if kind == "setting" else head, rng)
        value = SETTINGS[rng.integers(len(SETTINGS))] if rng.random() < 0.8 else "(remove)"
        return {"kind": kind, "where": where, "value": value}
    if kind == "promise":
        what, value = PROMISES[rng.integers(len(PROMISES))]
        names = sorted(path.stem for path in folder.glob("*.npy"))
        return {"kind": kind, "name": str(rng.choice(names)), "what": what, "value": value}
    if kind == "width":
        names = [name.removesuffix(".offsets") for name in head["arrays"] if name.endswith(".offsets")]
        return {"kind": kind, "names": names, "value": WIDTHS[rng.integers(len(WIDTHS))]}
    names = sorted(path.name for path in folder.glob("*.npy"))
    recipe: dict[str, Any] = {"kind": kind, "file": str(rng.choice(names)), "seed": int(rng.integers(1 << 30))}
    if kind == "values":
        recipe |= {"whole": int(WHOLE[rng.integers(len(WHOLE))]), "real": REAL[rng.integers(len(REAL))]}
        recipe["share"] = float(rng.choice([0.0, 0.2, 1.0]))
    elif kind in ("shape", "bytes"):
        options = SHAPES if kind == "shape" else BYTES
        recipe["how"] = options[rng.integers(len(options))]
    elif kind == "dtype":
        recipe["to"] = str(rng.choice(["<f8", "<f4", "<f2", "<i8", "<i4", "<u1", "|b1", "<M8[s]"]))
    elif kind == "order":
        recipe["how"] = str(rng.choice(["reverse", "shuffle", "sort"]))
    elif kind == "swap":
        recipe["with"] = str(rng.choice(names))
    return recipe


def _random_path(value: Any, rng: np.random.Generator) -> list[Any]:
    path: list[Any] = []
    while isinstance(value, dict | list) and len(value) and (not path or rng.random() < 0.8):
        keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
        path.append(keys[rng.integers(len(keys))])
        value = value[path[-1]]
    return path


def applied(source: Path, target: Path, recipe: dict[str, Any]) -> Path:
    """A copy of a model folder, edited, its checksums and what model.json says about arrays made to fit."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    head = json.loads((target / "model.json").read_text())
    if recipe["kind"] in ("setting", "head"):
        _set(head["settings"] if recipe["kind"] == "setting" else head, recipe["where"], recipe["value"])
    elif recipe["kind"] == "bytes":
        damage(target / recipe["file"], recipe)
    elif recipe["kind"] == "width":
        head["settings"]["text_types"] = dict.fromkeys(recipe["names"], recipe["value"])
    elif recipe["kind"] != "promise" and (target / recipe["file"]).exists():
        np.save(target / recipe["file"], _edited(target, recipe))
    _seal(target, head, "")
    if recipe["kind"] == "promise":
        _about(head, recipe["name"])[recipe["what"]] = recipe["value"]
    write_head(target, head)
    return target


def _about(head: dict[str, Any], name: str) -> dict[str, Any]:
    """What a head says of an array, which may be one of a part: ``tree.parent``."""
    while (part := name.partition("."))[0] in head.get("parts", {}):
        head, name = head["parts"][part[0]], part[2]
    about: dict[str, Any] = head["arrays"][name]
    return about


def _set(value: Any, path: list[Any], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    if path and new == "(remove)":
        del value[path[-1]]
    elif path:
        value[path[-1]] = new


def _edited(folder: Path, recipe: dict[str, Any]) -> np.ndarray:
    array, rng = np.load(folder / recipe["file"]), np.random.default_rng(recipe["seed"])
    kind = recipe["kind"]
    if kind == "swap":
        other = folder / recipe["with"]
        return np.load(other) if other.exists() else array
    if kind == "dtype":
        with np.errstate(all="ignore"):
            return array.astype(recipe["to"]) if array.dtype.kind not in "mM" else array
    if kind == "shape":
        how = recipe["how"]
        if how == "scalar" or not array.ndim:
            return array.ravel()[:1].reshape(()) if array.size else np.zeros((), array.dtype)
        if how == "column":
            return array[..., None]
        return {"shorter": array[:-1], "longer": np.concatenate([array, array[-1:]]), "empty": array[:0]}[how]
    if kind == "order":
        flat = array.ravel()
        return {"reverse": flat[::-1], "shuffle": rng.permutation(flat), "sort": np.sort(flat)}[recipe["how"]].reshape(
            array.shape
        )
    value = float(recipe["real"]) if array.dtype.kind == "f" else recipe["whole"]
    flat = array.copy().reshape(-1)
    if flat.size and array.dtype.kind in "iufb":
        chosen = rng.random(flat.size) < recipe["share"]
        chosen[rng.integers(flat.size)] = True
        if array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            value = min(max(int(value), int(limits.min)), int(limits.max))
        with np.errstate(all="ignore"):
            flat[chosen] = np.asarray(value).astype(array.dtype)
    return flat.reshape(array.shape)


def damage(file: Path, recipe: dict[str, Any]) -> None:
    if not file.exists():
        return
    data, rng = bytearray(file.read_bytes()), np.random.default_rng(recipe["seed"])
    how = recipe["how"]
    if how in ("gone", "device", "pipe", "folder"):
        file.unlink()
        if how != "gone":
            {"device": lambda: file.symlink_to("/dev/zero"), "pipe": lambda: os.mkfifo(file), "folder": file.mkdir}[
                how
            ]()
        return
    if how == "cut":
        data = data[: int(rng.integers(len(data)))]
    elif how == "flip":
        for at in rng.integers(len(data), size=3).tolist():
            data[at] ^= 1 << int(rng.integers(8))
    elif how == "noise":
        data = bytearray(rng.bytes(200))
    else:  # a header that promises terabytes
        head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
        data = bytearray(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    file.write_bytes(data)


def _seal(folder: Path, head: Any, prefix: str) -> None:
    """Make what a head says about its arrays agree with the files, where both can be read."""
    arrays = head.get("arrays") if isinstance(head, dict) else None
    for name, about in arrays.items() if isinstance(arrays, dict) else ():
        file = folder / f"{prefix}{name}.npy"
        if isinstance(about, dict) and file.is_file():
            about["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
            try:
                array = np.load(file, mmap_mode="r", allow_pickle=False)
            except Exception:
                continue
            about |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    parts = head.get("parts") if isinstance(head, dict) else None
    for name, part in parts.items() if isinstance(parts, dict) else ():
        _seal(folder, part, f"{prefix}{name}.")


def outcome(name: str, folder: Path) -> str:
    """``refused: …``, ``right``, or ``WRONG: …``: anything else than a sentence or good answers."""
    try:
        problem = wrong_with(name, vpunn.load(folder))
    except VpunnError as error:
        return f"refused: {error}"
    except Exception as error:
        if "features as input" in str(error):  # scikit-learn's own sentence
            return f"refused: {error}"
        return f"WRONG: {type(error).__name__}: {error}"
    return f"WRONG: {problem}" if problem else "right"
