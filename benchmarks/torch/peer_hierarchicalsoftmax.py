"""The peer's side of `speed`: one training step of hierarchicalsoftmax on the same tree and targets; prints JSON.

python peer_hierarchicalsoftmax.py task.npz SGD
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from hierarchicalsoftmax import HierarchicalSoftmaxLinear, HierarchicalSoftmaxLoss, SoftmaxNode

FEATURES, WARM, STEPS = 384, 1, 5
#: Its backward pass copies all logits once a ball; after this many CPU seconds the steps so far must do, warm or not.
BUDGET = 60


def main(path: str, optimiser: str) -> None:
    torch.set_num_threads(1)
    task = np.load(path)
    nodes: list[SoftmaxNode] = []
    for i, parent in enumerate(task["parent"].tolist()):
        nodes.append(SoftmaxNode(str(i), parent=None if parent < 0 else nodes[parent]))
    root = nodes[0]
    root.set_indexes()
    place = {id(node): at for at, node in enumerate(root.node_list)}
    target = [torch.tensor([place[id(nodes[i])] for i in batch]) for batch in task["node"][: WARM + STEPS].tolist()]
    layer, criterion = HierarchicalSoftmaxLinear(in_features=FEATURES, root=root), HierarchicalSoftmaxLoss(root=root)
    step_by = getattr(torch.optim, optimiser)(layer.parameters(), lr=0.01)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(len(target[0]), FEATURES)).astype(np.float32))
    seconds = []
    for batch in target:
        start = time.process_time()
        step_by.zero_grad()
        criterion(layer(x), batch).backward()
        step_by.step()
        seconds.append(time.process_time() - start)
        if sum(seconds) > BUDGET:
            break
    tensors = [*layer.parameters(), *(t for s in step_by.state.values() for t in s.values() if torch.is_tensor(t))]
    size = sum(t.numel() * t.element_size() for t in tensors) / 2**20
    step = 1000 * float(np.median(seconds[WARM:] or seconds))
    print(json.dumps({"ms a step": step, "weights + state MB": size, "steps": len(seconds)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
