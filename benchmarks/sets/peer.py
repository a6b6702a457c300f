"""One peer in its own environment: ``python peer.py napkinxc-plt|pecos FOLDER SEED``; writes scores and CPU seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse


def napkinxc(X, Y, test, seed, folder):
    """A probabilistic label tree; marginal probabilities of the hundred likeliest labels."""
    from napkinxc.models import PLT

    model = PLT(str(folder / "plt"), threads=1, seed=seed)
    model.fit(X, [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)])
    found = model.predict_proba(test, top_k=100)
    rows = [i for i, row in enumerate(found) for _ in row]
    pairs = [pair for row in found for pair in row]
    values = ([p for _, p in pairs], (rows, [label for label, _ in pairs]))
    return sparse.csr_matrix(values, shape=(test.shape[0], Y.shape[1]))


def pecos(X, Y, test, seed, folder):
    """XR-Linear on a label tree of positive instance features."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    chain = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"), seed=seed, threads=1)
    model = XLinearModel.train(X, Y, C=chain, threads=1)
    return sparse.csr_matrix(model.predict(test, only_topk=100, beam_size=50, threads=1))


def main() -> None:
    name, folder, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    X, Y, test = (sparse.load_npz(folder / f"{part}.npz").tocsr().astype(np.float32) for part in ("X", "Y", "test"))
    start = time.process_time()
    scores = (pecos if name == "pecos" else napkinxc)(X, Y, test, seed, folder)
    (folder / "cpu.txt").write_text(str(time.process_time() - start))
    sparse.save_npz(folder / "scores.npz", scores)


if __name__ == "__main__":
    main()
