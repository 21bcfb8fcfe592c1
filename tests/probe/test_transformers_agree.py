"""What is seen inside of an imported model is what transformers gives out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kin_models import KIN, Inputs, Kin, inputs, named, reference

from paribus.interop import import_
from paribus.probe.look import look_at

pytest.importorskip("transformers")
STATES = ("embedding", "block_output", "output")
WEIGHTS = ("attention_weights", "cross_weights")
HAVE_CROSS = [kin for kin in KIN if kin.encodes]


def apart(ours: Any, theirs: torch.Tensor, real_BT: torch.Tensor) -> float:
    """The largest difference at real queries, in standard deviations."""
    ours = torch.from_numpy(np.asarray(ours))
    if ours.dim() == 4:
        real_BT, ours, theirs = real_BT, ours.transpose(1, 2), theirs.transpose(1, 2)
    ours, theirs = ours[real_BT], theirs[real_BT]
    return float((ours - theirs).abs().max() / theirs.std())


class Met:
    """A reference that tells what lies inside, and what is seen inside of ours."""

    def __init__(self, kin: Kin, folder: Path, left: bool, places: tuple[str, ...]):
        model = reference(kin)
        model.save_pretrained(folder)
        self.given: Inputs = inputs(kin, left)
        settings = {"output_attentions": True, "output_hidden_states": True}
        if kin.name == "mixtral":
            settings["output_router_logits"] = True
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


def test_router_scores_and_choices_agree(tmp_path: Path) -> None:
    (kin,) = [kin for kin in KIN if kin.name == "mixtral"]
    met = Met(kin, tmp_path, False, ("router_scores", "expert_choice"))
    assert len(met.theirs.router_logits) == 2
    for layer, logits_MN in enumerate(met.theirs.router_logits):
        scores = torch.from_numpy(met.ours[f"stack.router_scores.{layer}"]).flatten(0, 1)
        chosen = torch.from_numpy(met.ours[f"stack.expert_choice.{layer}"]).flatten(0, 1)
        torch.testing.assert_close(scores, logits_MN.softmax(-1), atol=1e-5, rtol=1e-4)
        expected = logits_MN.topk(2).indices.sort(-1).values
        assert torch.equal(chosen.sort(-1).values, expected)
