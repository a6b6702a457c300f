"""Generative retrieval with ids that name items: a small T5 learns to spell the id of what a text describes.

    python -m benchmarks.torch.generate [steps]

Items are the 4,000 cellular components of GO; ids are `semantic_ids` of the vectors of their definitions. A two-layer T5 with
random weights reads the words of a name and writes the id, once under ``prefix_allowed_tokens_fn`` of `PrefixTrie` and once
freely. Test rows are synonyms it never read. The control deals the ids to other items at random. Needs transformers.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from typing import Any

import numpy as np
import torch
from benchmarks.common import write_results
from benchmarks.torch.trainer import words_of
from transformers import T5Config, T5ForConditionalGeneration

from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.tabular import PrefixTrie, semantic_ids

LENGTH, START, EOS = 16, 0, 1


def item_ids(task: PlacementTask, seed: int) -> Any:
    """Unique ids of three digits of every term, from the vectors of its definition."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [f"{name} {definition}" for name, definition in zip(*task.descriptions, strict=True)]
    words = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    return semantic_ids(TruncatedSVD(32, random_state=0).fit_transform(words), p=17, K=3, random_state=seed)


def run(task: PlacementTask, steps: int, seed: int, dealt: bool, judged: int = 300) -> dict[str, float]:
    """Train and answer: share of valid ids, of right items and of right first digits, with and without the trie."""
    ids = item_ids(task, seed)
    item_of = np.arange(task.tree.n_nodes)
    if dealt:
        item_of = np.random.default_rng(seed).permutation(item_of)
    texts = [*task.texts["train"], *task.descriptions[0]]
    nodes = np.concatenate([task.nodes["train"], np.arange(task.tree.n_nodes)])
    vocabulary: dict[str, int] = {}
    for text in texts:
        for word in words_of(str(text)):
            vocabulary.setdefault(word, len(vocabulary) + 2)
    trie = PrefixTrie(ids, offset=len(vocabulary) + 2, eos=EOS)

    def read(rows: Any) -> torch.Tensor:
        known = [[*[vocabulary[w] for w in words_of(str(t)) if w in vocabulary][: LENGTH - 1], EOS] for t in rows]
        return torch.tensor([row + [START] * (LENGTH - len(row)) for row in known])

    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=trie.offset + trie.n_tokens,
        d_model=96,
        d_kv=24,
        d_ff=192,
        num_layers=2,
        num_heads=4,
        pad_token_id=START,
        eos_token_id=EOS,
        decoder_start_token_id=START,
    )
    model = T5ForConditionalGeneration(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    longest = trie.depth + 1
    spelled = [trie.tokens(int(item_of[node])) for node in range(task.tree.n_nodes)]
    labels = torch.tensor([row + [-100] * (longest - len(row)) for row in spelled])
    words, target = read(texts), torch.from_numpy(np.asarray(nodes, np.int64))
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(words), (128,))
        loss = model(
            input_ids=words[rows], attention_mask=(words[rows] != START).long(), labels=labels[target[rows]]
        ).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    rows = np.random.default_rng(seed).choice(len(task.texts["test"]), judged, replace=False)
    asked, truth = read(np.asarray(task.texts["test"], object)[rows]), item_of[task.nodes["test"][rows]]
    found: dict[str, float] = {}
    for name, rule in (("trie", trie.prefix_allowed_tokens_fn(skip=1)), ("free", None)):
        out = model.generate(
            input_ids=asked,
            attention_mask=(asked != START).long(),
            max_new_tokens=longest,
            do_sample=False,
            prefix_allowed_tokens_fn=rule,
        )
        answers = [_item(trie, row[1:]) for row in out.tolist()]
        valid = np.array([answer is not None for answer in answers])
        item = np.array([-1 if answer is None else answer for answer in answers])
        found[f"valid, {name}"] = float(valid.mean())
        found[f"right, {name}"] = float((item == truth).mean())
        digit = np.where(valid, ids.digits[np.maximum(item, 0), 0], -1)
        found[f"first digit, {name}"] = float((digit == ids.digits[truth, 0]).mean())
    return found


def _item(trie: PrefixTrie, tokens: list[int]) -> int | None:
    from vpunn.errors import VpunnError

    try:
        return trie.item([token for token in tokens if token != START])
    except VpunnError:
        return None


def main(steps: int = 250, seeds: int = 3) -> list[dict[str, Any]]:
    """Run, print and write the table."""
    torch.set_num_threads(1)
    rows = []
    for dealt in (False, True):
        runs = [run(load_task("go-component", seed), steps, seed, dealt) for seed in range(1, seeds + 1)]
        row: dict[str, Any] = {"ids": "dealt at random" if dealt else "semantic_ids", "steps": steps}
        for key in runs[0]:
            values = np.array([one[key] for one in runs])
            row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1)) if seeds > 1 else 0.0}
        rows.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-generate", rows)
    return rows


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
