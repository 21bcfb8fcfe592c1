"""What is seen inside of an imported model is what transformers gives out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kin_models import KIN, Inputs, Kin, inputs, named, reference

from paribus.interop import import_
from paribus.interop.family import ModelFamily
from paribus.interop.registry import FAMILIES
from paribus.probe.look import look_at

transformers = pytest.importorskip("transformers")
STATES = ("embedding", "block_output", "output")
WEIGHTS = ("attention_weights", "cross_weights")
ROUTER_PLACES = ("router_scores", "expert_choice", "expert_gates")
ROUTED = [kin for kin in KIN if "num_experts_per_tok" in kin.sizes]


def apart(ours: Any, theirs: torch.Tensor, real_BT: torch.Tensor) -> float:
    """The largest difference at real queries, in standard deviations."""
    ours = torch.from_numpy(np.asarray(ours))
    if ours.dim() == 4:
        real_BT, ours, theirs = real_BT, ours.transpose(1, 2), theirs.transpose(1, 2)
    ours, theirs = ours[real_BT], theirs[real_BT]
    return float((ours - theirs).abs().max() / theirs.std())


class Met:
    """A reference that tells what lies inside, and what is seen inside of ours."""

    def __init__(
        self,
        kin: Kin,
        folder: Path,
        left: bool,
        places: tuple[str, ...],
        watch: Callable[[torch.nn.Module], None] | None = None,
    ):
        model = reference(kin)
        model.save_pretrained(folder)
        self.given: Inputs = inputs(kin, left)
        settings = {"output_attentions": True, "output_hidden_states": True}
        if kin in ROUTED:
            settings["output_router_logits"] = True
        if watch is not None:
            watch(model)
        with torch.no_grad():
            self.theirs = model(**self.given.theirs, **settings)
        self.ours = look_at(import_(folder).model, self.given.batch, places)

    def real(self, stack: str) -> torch.Tensor:
        real_BT = self.given.source_real if stack == "encoder" else self.given.real
        assert real_BT is not None
        return real_BT


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kin", KIN, ids=named)
def test_attention_agrees(kin: Kin, left: bool, tmp_path: Path) -> None:
    met = Met(kin, tmp_path, left, WEIGHTS[: 1 + kin.encodes])
    kinds = {"stack.attention_weights": "attentions"}
    if kin.encodes:
        kinds = {
            "encoder.attention_weights": "encoder_attentions",
            "stack.attention_weights": "decoder_attentions",
            "stack.cross_weights": "cross_attentions",
        }
    n_seen = 0
    for name, kind in kinds.items():
        for layer, weights in enumerate(met.theirs[kind]):
            assert apart(met.ours[f"{name}.{layer}"], weights, met.real(name.split(".")[0])) < 1e-4
            n_seen += 1
    assert n_seen == len(met.ours)


@pytest.mark.parametrize("kin", KIN, ids=named)
def test_hidden_states_agree(kin: Kin, tmp_path: Path) -> None:
    met = Met(kin, tmp_path, False, STATES)
    kinds = {"stack": "hidden_states"}
    if kin.encodes:
        kinds = {"encoder": "encoder_hidden_states", "stack": "decoder_hidden_states"}
    for stack, kind in kinds.items():
        theirs = met.theirs[kind]
        last = len(theirs) - 1
        names = [f"{stack}.embedding.0"]
        names += [f"{stack}.block_output.{layer}" for layer in range(last - 1)]
        names.append(f"{stack}.output.{last - 1}")
        for name, states in zip(names, theirs, strict=True):
            assert apart(met.ours[name], states, met.real(stack)) < 1e-4


@dataclass
class RouterRecord:
    """What the routers of a reference give: logits, gates and experts, by layer."""

    by_layer: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = field(
        default_factory=dict
    )

    def watch(self, model: torch.nn.Module) -> None:
        for name, module in model.named_modules():
            found = re.search(r"layers\.(\d+)\.mlp\.gate$", name)
            if found:
                module.register_forward_hook(partial(self._keep, int(found[1])))

    def _keep(self, layer: int, _module: object, _inputs: object, outputs: Any) -> None:
        self.by_layer[layer] = outputs


@pytest.mark.parametrize("kin", ROUTED, ids=named)
def test_router_scores_choices_and_gates_agree(kin: Kin, tmp_path: Path) -> None:
    record = RouterRecord()
    met = Met(kin, tmp_path, False, ROUTER_PLACES, record.watch)
    real_M = met.given.real.flatten()
    layers = sorted(record.by_layer)
    assert layers == list(range(kin.sizes.get("first_k_dense_replace", 0), layers[-1] + 1))
    assert len(met.theirs.router_logits) == len(layers)  # which transformers gives out, too
    assert set(met.ours) == {
        f"stack.{place}.{layer}" for place in ROUTER_PLACES for layer in layers
    }
    for given_out, layer in zip(met.theirs.router_logits, layers, strict=True):
        logits_MN, gates_MK, experts_MK = (one[real_M] for one in record.by_layer[layer])
        assert torch.equal(given_out[real_M], logits_MN)
        scores, chosen, gates = (
            torch.from_numpy(met.ours[f"stack.{place}.{layer}"]).flatten(0, 1)[real_M]
            for place in ROUTER_PLACES
        )
        expected = logits_MN.softmax(-1)
        if kin.name == "deepseek-v3":
            expected = logits_MN.sigmoid() / logits_MN.sigmoid().sum(-1, keepdim=True)
        torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)
        chosen, order = chosen.sort(-1)
        expected_experts, expected_order = experts_MK.sort(-1)
        assert torch.equal(chosen, expected_experts)
        expected_gates = gates_MK.gather(1, expected_order)
        torch.testing.assert_close(gates.gather(1, order), expected_gates, atol=1e-5, rtol=1e-4)


def test_every_imported_family_is_compared() -> None:
    assert {getattr(transformers, kin.config).model_type for kin in KIN} == set(FAMILIES)


def test_every_imported_family_with_experts_is_compared() -> None:
    with_experts = {name for name, family in FAMILIES.items() if _reads_experts(family)}
    assert with_experts == {kin.name.replace("-", "_") for kin in ROUTED}


def _reads_experts(family: ModelFamily) -> bool:
    return any("experts" in key for key in family.config_keys.modelled)
