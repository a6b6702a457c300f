"""Modules as model folders: the tree and the settings as in every model, the weights as safetensors beside them. No pickle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from vpunn.errors import DataError, VpunnError
from vpunn.io.store import Storable
from vpunn.torch._layout import TreeModule
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.io.store import Draft, Stored

WEIGHTS = "weights.safetensors"


class StoredModule(TreeModule, Storable):
    """A module over a tree that `vpunn.load` opens; subclasses name their settings in ``_options``."""

    def save_pretrained(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the model folder: `save` under the name other libraries use."""
        return self.save(path, **options)

    @classmethod
    def from_pretrained(cls, path: Any, **options: Any) -> Self:
        """Read what `save_pretrained` wrote. A model from a hub is a folder too: download it with the hub's own client first."""
        return cls.load(path, **options)

    def _options(self) -> dict[str, Any]:
        raise VpunnError(f"a {type(self).__name__} is not saved by itself; save what it was made from.")

    def _to_store(self, draft: Draft) -> None:
        draft.tree(self.tree)
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        kinds = {str(p.dtype).removeprefix("torch.") for p in self.parameters()}
        draft.settings |= {"options": self._options(), "dtype": sorted(kinds)[0] if kinds else "float32"}
        draft.settings["parameters"] = sum(p.numel() for p in self.parameters())
        draft.file(WEIGHTS, _safetensors().save(state))

    @classmethod
    def _arrays_of(cls, stored: Stored, tree: Tree) -> dict[str, Any]:
        """Settings of the constructor that are stored as arrays."""
        return {}

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        tree = stored.tree()
        kind = getattr(torch, stored.setting("dtype", str), None)
        if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
            raise DataError(f"{str(stored.path)!r} holds weights of an unknown type {stored.settings['dtype']!r}.")
        module = cls(tree, **stored.setting("options", dict), **cls._arrays_of(stored, tree)).to(kind)
        try:
            state = _safetensors().load_file(stored.file(WEIGHTS))
            module.load_state_dict(state)
        except VpunnError:
            raise
        except Exception as error:  # safetensors raises its own kinds, torch RuntimeError
            first = str(error).strip().splitlines()[0]
            raise DataError(f"{str(stored.path / WEIGHTS)!r} does not fit this model: {first}") from None
        return module


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise VpunnError("saving weights needs safetensors; install it with: pip install 'vpunn[torch]'.") from None
    return safetensors.torch
