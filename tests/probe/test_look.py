"""Inner values by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from byte_models import byte_model
from probed_models import checkpoint_folder

import paribus as pb
from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.probe.look import look_at, wanted_places

TEXT = "a text to look at"


def test_a_look_gives_arrays_by_name(tmp_path: Path) -> None:
    folder = checkpoint_folder(byte_model("gpt2"), tmp_path / "model")
    seen = pb.look(folder, TEXT, ["attention_weights", "stack.block_output.-1", "embedding"])
    n_layers = len(byte_model("gpt2").spec.stack.layers)
    names = ["stack.embedding.0", f"stack.block_output.{n_layers - 1}"]
    names += [f"stack.attention_weights.{layer}" for layer in range(n_layers)]
    assert sorted(seen) == sorted(names)
    weights = seen["stack.attention_weights.0"]
    n_tokens = len(TEXT) + 1  # what ends the document before it stands first
    assert weights.shape[2:] == (n_tokens, n_tokens)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(weights, 1).any()


def test_an_encoder_decoder_reads_one_half_and_writes_the_other(tmp_path: Path) -> None:
    folder = checkpoint_folder(byte_model("bart"), tmp_path / "model")
    seen = pb.look(folder, TEXT, ["cross_weights.0", "encoder.output"])
    n_source = seen["encoder.output.3"].shape[1]
    assert seen["stack.cross_weights.0"].shape[-1] == n_source
    assert abs(seen["stack.cross_weights.0"].shape[-2] - n_source) <= 1


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "mixtral", "deepseek-v3", "t5", "palm"])
def test_looking_changes_no_bit(preset: str) -> None:
    model = byte_model(preset)
    tokens_BT = torch.randint(256, (2, 10), generator=torch.Generator().manual_seed(1))
    source = Batch.of(tokens_BT, prefix=10) if model.encoder is not None else None
    batch = Batch.of(tokens_BT, prefix=0 if source else 4, source=source)
    with torch.no_grad():
        before = model(batch).logits_BTV
        seen = look_at(model, batch, ["attention_weights", "attention_scores", "block_output"])
        after = model(batch).logits_BTV
        last = len(model.spec.stack.layers) - 1
        states = model.hidden_states(batch).states_BTD
    assert torch.equal(before, after)
    out = torch.from_numpy(seen[f"stack.block_output.{last}"])
    normed = out if model.stack.final_norm is None else model.stack.final_norm(out)
    assert torch.equal(normed, states)


@pytest.mark.parametrize(
    ("place", "fault", "words"),
    [
        ("attention_weight", SpecError, "did you mean 'attention_weights'"),
        ("stack.block_output.7", UnsupportedError, "has no 'stack.block_output.7'"),
        ("encoder.block_output", UnsupportedError, "has no 'encoder.block_output'"),
        ("expert_choice", UnsupportedError, "has no 'expert_choice'"),
        ("stack.block_output.x", SpecError, "is no place"),
        ("", SpecError, "is no place"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    place: str, fault: type[Exception], words: str
) -> None:
    with pytest.raises(fault, match=words):
        wanted_places(byte_model("gpt2").spec, [place])


def test_a_text_without_two_tokens_and_one_that_is_too_long_are_refused(tmp_path: Path) -> None:
    folder = checkpoint_folder(byte_model("gpt2", max_length=8), tmp_path / "model")
    number: Any = 3
    with pytest.raises(SpecError, match="text is of the type int; give a str"):
        pb.look(folder, number, "embedding")
    with pytest.raises(SpecError, match="no two tokens"):
        pb.look(folder, "", ["embedding"])
    with pytest.raises(SpecError, match=r"has 18 tokens, but .* reads at most 8; give a s"):
        pb.look(folder, TEXT, ["embedding"])


def test_one_place_needs_no_list_and_none_is_refused(tmp_path: Path) -> None:
    folder = checkpoint_folder(byte_model("gpt2"), tmp_path / "model")
    assert pb.look(folder, TEXT, "embedding").keys() == {"stack.embedding.0"}
    with pytest.raises(SpecError, match="no place is named; use one or more of embedding, att"):
        pb.look(folder, TEXT, [])
