"""Models that the tables of odd inputs share: fitted once, by the commands themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from inputs import run_here

TEXTS = {
    "owl": "night bird hoots mice",
    "robin": "small bird red breast",
    "carp": "pond fish scales",
    "eel": "slippery fish snake",
}
GROUPS = {"owl": "bird", "robin": "bird", "carp": "fish", "eel": "fish"}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """flat: text → kind. levels: text → group,kind. code: text → 01…04. num: size,weight → kind. mass: order,genus → mass.

    both: text and size,weight → kind. sets: text → tags, several in a cell. loose: kind → mass on a tree that writes other letters.
    """
    here = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    kinds = list(TEXTS) * 10
    more = rng.choice(
        ["old", "young", "grey", "white", "large", "quick"], len(kinds)
    )  # rows of a kind are not all alike
    frame = pd.DataFrame(
        {"text": [f"{TEXTS[kind]} {word}" for kind, word in zip(kinds, more, strict=True)], "kind": kinds}
    )
    frame["group"] = frame["kind"].map(GROUPS)
    frame["code"] = frame["kind"].map({kind: f"0{i}" for i, kind in enumerate(TEXTS, 1)})
    frame["size"] = rng.normal(size=40) + 4 * (frame["group"] == "bird")
    frame["weight"] = rng.normal(size=40) + 4 * frame["kind"].isin(["owl", "eel"])
    frame["mass"] = rng.normal(size=40) + 5.0 * (frame["group"] == "bird")
    frame["tags"] = frame["kind"].map({"owl": "wings|night", "robin": "wings", "carp": "fins", "eel": ""})
    frame.to_csv(here / "train.csv", index=False)
    (here / "loose.nwk").write_text("((OWL:1,ROBIN:2)BIRD:1,(CARP:1,EEL:1)FISH:1)ANIMAL;")
    (here / "zoo.csv").write_text("parent,child\nanimal,bird\nanimal,fish\nbird,owl\nbird,robin\nfish,carp\nfish,eel\n")
    for name, options in {
        "flat": ["--target", "kind", "--text", "text"],
        "levels": ["--levels", "group,kind", "--text", "text"],
        "code": ["--target", "code", "--text", "text"],
        "num": ["--target", "kind", "--columns", "size,weight"],
        "both": ["--target", "kind", "--text", "text", "--columns", "size,weight"],
        "mass": ["--regress", "mass", "--levels", "group,kind"],
        "class": ["--classify", "code", "--levels", "group,kind"],
        "tree": ["--target", "kind", "--text", "text", "--tree", str(here / "zoo.csv")],
        "sets": ["--target", "tags", "--text", "text", "--label-sep", "|"],
        "loose": ["--regress", "mass", "--levels", "kind", "--tree", str(here / "loose.nwk"), "--match", "loose"],
    }.items():
        done = run_here(["fit", str(here / "train.csv"), "--out", str(here / name), *options])
        assert done.code == 0, done.err
    return {name.name: name for name in here.iterdir() if name.is_dir()} | {"here": here}
