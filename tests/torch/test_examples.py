"""Heads and ids inside the libraries people use: `transformers.Trainer`, ``generate`` and sentence-transformers, all real."""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from vpunn import Tree, load
from vpunn.tabular import PrefixTrie, semantic_ids
from vpunn.torch import HierarchicalHead

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers accelerate")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

PATHS = [("animal", "bird", "owl"), ("animal", "bird", "robin"), ("animal", "fish"), ("plant", "fern")]
TREE = Tree.from_paths(PATHS, root="life")
WORDS = ["owl", "robin", "fish", "fern", "green", "wings"]


class Placed(nn.Module):
    """A tiny encoder with random weights, and a head whose loss Trainer takes."""

    def __init__(self):
        super().__init__()
        config = transformers.BertConfig(
            vocab_size=len(WORDS) + 1,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=4,
        )
        self.encoder = transformers.BertModel(config, add_pooling_layer=False)
        self.head = HierarchicalHead(TREE, 16)

    def forward(self, input_ids, labels=None):
        x = self.encoder(input_ids=input_ids).last_hidden_state.mean(1)
        return {"vectors": x} if labels is None else {"loss": self.head.loss(x, labels), "vectors": x}


def rows(count, seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, count)
    noise = rng.integers(5, len(WORDS) + 1, count)
    nodes = TREE.index(WORDS[:4])
    return [
        {"input_ids": torch.tensor([k + 1, n]), "labels": torch.tensor(int(nodes[k]))}
        for k, n in zip(kind, noise, strict=True)
    ]


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="Trainer needs accelerate: pip install it")
def test_trainer_learns_saves_and_predicts(tmp_path, monkeypatch):
    # tests/datasets is on the path of this suite and looks to transformers like the package of that name
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    torch.manual_seed(0)
    model = Placed()
    plan = transformers.TrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=60,
        per_device_train_batch_size=16,
        learning_rate=0.02,
        seed=0,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = transformers.Trainer(model=model, args=plan, train_dataset=rows(200, 0), eval_dataset=rows(40, 1))
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.2 * before
    test = rows(40, 2)
    x = torch.from_numpy(np.asarray(trainer.predict(test).predictions))
    truth = TREE.labels[[int(row["labels"]) for row in test]]
    assert (model.head.predict(x) == truth).mean() > 0.95
    model.head.save_pretrained(tmp_path / "head")
    assert (load(tmp_path / "head").predict(x) == model.head.predict(x)).all()


def tiny_t5(n_tokens):
    config = transformers.T5Config(
        vocab_size=n_tokens,
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config).eval()


@pytest.mark.parametrize("how", [{"do_sample": True}, {"num_beams": 4, "num_return_sequences": 4}])
def test_generate_spells_existing_items_only(how):
    """A model that knows nothing writes nonsense freely and items under the trie; beams are different items."""
    rng = np.random.default_rng(0)
    ids = semantic_ids(rng.normal(size=(60, 4)), p=5, K=3, random_state=0)
    grown = ids.add(rng.normal(size=(10, 4)))
    assert np.array_equal(grown.digits[:60, : ids.digits.shape[1]], ids.digits)
    trie = PrefixTrie(grown, offset=20, eos=1)
    torch.manual_seed(0)
    model = tiny_t5(trie.offset + trie.n_tokens)
    asked = torch.randint(2, 20, (6, 5))
    longest = trie.depth + 1
    out = model.generate(
        asked, max_new_tokens=longest, prefix_allowed_tokens_fn=trie.prefix_allowed_tokens_fn(skip=1), **how
    )
    items = [trie.item([t for t in row[1:] if t != 0]) for row in out.tolist()]
    assert all(0 <= item < 70 for item in items)
    if "num_beams" in how:
        assert all(len(set(items[k : k + 4])) == 4 for k in range(0, len(items), 4))
    free = model.generate(asked, max_new_tokens=longest, do_sample=True)
    legal = [set(trie.allowed([])) >= {row[1]} for row in free.tolist()]
    assert not all(legal)


def test_a_sentence_encoder_learns_through_the_head(tmp_path):
    """The loss reaches the encoder of sentence-transformers: a tiny one, saved and opened as any model is."""
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers: pip install 'vpunn[sentence]'")
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"[PAD]": 0, "[UNK]": 1, **{word: i + 2 for i, word in enumerate(WORDS)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8
    ).save_pretrained(tmp_path)
    encoder = SentenceTransformer(str(tmp_path), device="cpu")
    head = HierarchicalHead(TREE, 16)
    optimiser = torch.optim.Adam([*head.parameters(), *encoder.parameters()], lr=0.02)
    texts, target = [f"{a} {b}" for a in WORDS[:4] for b in WORDS[4:]], TREE.index(np.repeat(WORDS[:4], 2))
    start = next(encoder.parameters()).detach().clone()
    for _ in range(40):
        x = encoder(encoder.tokenize(texts))["sentence_embedding"]
        optimiser.zero_grad()
        head.loss(x, target).backward()
        optimiser.step()
    assert not torch.equal(start, next(encoder.parameters()))
    x = torch.from_numpy(encoder.encode(texts))
    assert head.predict(x).tolist() == TREE.labels[target].tolist()
