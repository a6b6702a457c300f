"""What torch users expect of any module: data parallel training, copies, state dicts without pickles."""

import copy

import numpy as np
import pytest
import torch

from strategies import random_tree
from vpunn.torch import HierarchicalHead, PadicEmbedding


@pytest.fixture
def one_process():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_distributed_data_parallel(one_process):
    tree = random_tree(60, seed=5, reach=9)
    head = HierarchicalHead(tree, 4)
    alone = copy.deepcopy(head)
    x, target = torch.randn(6, 4), torch.from_numpy(np.random.default_rng(0).integers(0, 60, 6))
    parallel = torch.nn.parallel.DistributedDataParallel(head)
    parallel(x, target).backward()
    alone.loss(x, target).backward()
    assert torch.allclose(head.weight.grad, alone.weight.grad) and head.weight.grad.any()


def test_state_dicts_hold_tensors_only(tmp_path):
    tree = random_tree(30, seed=1)
    for module in (HierarchicalHead(tree, 3, rank=2), PadicEmbedding(tree, 3)):
        torch.save(module.state_dict(), tmp_path / "state.pt")
        state = torch.load(tmp_path / "state.pt", weights_only=True)
        assert set(state) <= {"fingerprint", "weight", "bias", "project.weight"}
        twin = copy.deepcopy(module)
        torch.nn.init.zeros_(twin.weight)
        twin.load_state_dict(state)
        assert torch.equal(twin.weight, module.weight)
