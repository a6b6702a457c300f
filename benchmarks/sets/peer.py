"""One method in a process of its own: ``python peer.py METHOD FOLDER SEED``; writes scores, CPU seconds and peak memory.

The folder holds X, Y (training sets with all ancestors) and test as SciPy files, and for methods that read the hierarchy the sets
as annotated and the tree. Runs in any environment that has NumPy, SciPy and the method.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse


def fit_napkinxc(X, Y, seed, folder):
    """A probabilistic label tree."""
    from napkinxc.models import PLT

    model = PLT(str(folder / "plt"), threads=1, seed=seed)
    model.fit(X, [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)])
    return model


def score_napkinxc(model, test, width):
    """Marginal probabilities of the hundred likeliest labels."""
    found = model.predict_proba(test, top_k=100)
    rows = [i for i, row in enumerate(found) for _ in row]
    pairs = [pair for row in found for pair in row]
    values = ([p for _, p in pairs], (rows, [label for label, _ in pairs]))
    return sparse.csr_matrix(values, shape=(test.shape[0], width))


def fit_pecos(X, Y, seed, folder):
    """XR-Linear on a label tree of positive instance features."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    chain = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"), seed=seed, threads=1)
    return XLinearModel.train(X, Y, C=chain, threads=1)


def score_pecos(model, test, width):
    """Scores of the hundred best labels, with a wide beam."""
    return sparse.csr_matrix(model.predict(test, only_topk=100, beam_size=50, threads=1))


METHODS = {
    "napkinxc-plt": (fit_napkinxc, score_napkinxc),
    "pecos": (fit_pecos, score_pecos),
}


def peak() -> float:
    """Most memory this process ever had, in MB; unlike ru_maxrss it does not start with what the parent had."""
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


def run(fit, score, folder: Path, seed: int) -> None:
    """Fit, score, and write both with what they cost."""
    X, Y, test = (sparse.load_npz(folder / f"{part}.npz").tocsr().astype(np.float32) for part in ("X", "Y", "test"))
    marks = [time.process_time()]
    model = fit(X, Y, seed, folder)
    marks.append(time.process_time())
    scores = score(model, test, Y.shape[1])
    marks.append(time.process_time())
    sparse.save_npz(folder / "scores.npz", scores)
    fitted, scored = np.diff(marks).tolist()
    cost = {"fit CPU s": fitted, "rows/s": test.shape[0] / max(scored, 1e-9), "peak MB": peak()}
    (folder / "cost.json").write_text(json.dumps(cost))


if __name__ == "__main__":
    run(*METHODS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]))
