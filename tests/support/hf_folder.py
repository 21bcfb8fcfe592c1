"""Tiny Hugging Face folders, written by export and then damaged or dated by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from paribus.interop import export
from paribus.model import Transformer, build
from paribus.runtime import torch_generator
from paribus.spec import Architecture, load

Tensors = dict[str, Tensor]

ENCODER = {"encoder.n_layers": 1}
DEEPSEEK = {
    "attention.d_latent": 5,
    "attention.d_query_latent": 7,
    "attention.d_content": 3,
    "attention.d_rotary": 4,
    "attention.d_value": 5,
    "feed_forward.n_experts": 4,
    "feed_forward.n_active": 2,
    "feed_forward.d_expert": 3,
    "feed_forward.n_dense_layers": 1,
    "feed_forward.router.n_groups": 2,
    "feed_forward.router.n_active_groups": 1,
    "feed_forward.balance": "none",
    "init.std": 0.02,  # a config does not say these
}
CHANGES: dict[str, dict[str, Any]] = {
    "gpt1": {},
    "gpt2": {},
    "llama": {"attention.n_kv_heads": 1, "attention.d_head": 4, "feed_forward.d_ff": 7},
    "bert": {},
    "t5": ENCODER,
    "t5-v1.1": ENCODER,
    "bart": ENCODER,
    "mixtral": {
        "attention.n_kv_heads": 1,
        "attention.d_head": 4,
        "feed_forward.n_experts": 3,
        "feed_forward.d_expert": 7,
    },
    "deepseek-v3": DEEPSEEK,
}


def tiny_hf_architecture(preset: str, changes: dict[str, Any] | None = None) -> Architecture:
    """A preset at odd sizes, two layers deep."""
    wanted = CHANGES[preset] | {"attention.n_heads": 3} | (changes or {})
    return load(preset, n_layers=2, d_model=15, n_vocab=19, max_length=13, changes=wanted)


def random_model(preset: str, changes: dict[str, Any] | None = None) -> Transformer:
    """A tiny model with every tensor drawn anew, selection biases and norms too."""
    model = build(tiny_hf_architecture(preset, changes))
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(torch.randn(tensor.shape, generator=torch_generator(1, name)))
    return model


def export_random_model(
    preset: str, folder: Path, changes: dict[str, Any] | None = None
) -> Transformer:
    """A tiny model, exported into a folder."""
    model = random_model(preset, changes)
    export(model, folder)
    return model


def read_config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def change_config(folder: Path, changes: dict[str, Any]) -> None:
    """Keys of the config, changed or added."""
    (folder / "config.json").write_text(json.dumps(read_config(folder) | changes))


def drop_key(folder: Path, key: str) -> None:
    config = read_config(folder)
    del config[key]
    (folder / "config.json").write_text(json.dumps(config))


def read_tensors(folder: Path) -> Tensors:
    return load_file(folder / "model.safetensors")


def change_tensors(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    """The folder's tensors, changed."""
    changed = {
        name: tensor.contiguous().clone() for name, tensor in change(read_tensors(folder)).items()
    }
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})


def same_model(left: Transformer, right: Transformer) -> bool:
    """The same spec and, bit for bit, the same weights."""
    mine, other = left.state_dict(), right.state_dict()
    return (
        left.spec == right.spec
        and mine.keys() == other.keys()
        and all(torch.equal(mine[name], other[name]) for name in mine)
    )
