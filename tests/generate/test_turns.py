"""A conversation that is held costs what arithmetic says: tokens that are read, bytes and FLOPs."""

from typing import Any

import pytest
import torch
from tiny_model import N_VOCAB, tiny_architecture
from torch.utils.flop_counter import FlopCounterMode

from paribus.generate.turns import (
    ConversationReader,
    TurnSpeaker,
    draw_conversation,
    measure_turns,
)
from paribus.model import build, linear
from paribus.spec import resolve
from paribus.spec.conversation import Conversation, Custom, possible_customs
from paribus.spec.turn_price import price_turns

CONVERSATION = Conversation(n_turns=4, n_user=5, n_answer=3)
BY_TURN = {"encoder.mask": "same_document", "encoder.cross": "documents_so_far"}
SPEAKERS: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {}),
    ("gpt2", {"mask": "causal & window(7)"}),
    ("gpt2", {"mask": "by_layer(causal, causal & window(4))"}),
    ("gpt2", {"mask": "by_head(causal, causal & window(4))"}),
    ("gpt2", {"mask": "by_head(causal, causal & window(5))", "attention.n_kv_heads": 1}),
    ("llama", {}),
    ("mixtral", {}),
    ("deepseek-v3", {}),
    ("unilm", {}),
    ("t5", {}),
    ("bart", {}),
    ("encdec-shared", {}),
    ("encdec-causal-encoder", {}),
    ("t5", {"encoder.mask": "window(3)"}),
    ("t5", BY_TURN),
    ("bart", BY_TURN),
    ("t5", {**BY_TURN, "encoder.mask": "causal & same_document"}),
    ("t5", {**BY_TURN, "mask": "causal & window(6)"}),
]


def measured_customs() -> list[tuple[str, dict[str, Any], Custom]]:
    found = []
    for preset, changes in SPEAKERS:
        for custom in possible_customs(resolve(tiny_architecture(preset, changes))):
            found.append((preset, changes, custom))
    return found


@pytest.mark.parametrize(("preset", "changes", "custom"), measured_customs())
def test_a_turn_reads_and_keeps_what_arithmetic_says(
    preset: str, changes: dict[str, Any], custom: Custom
) -> None:
    architecture = tiny_architecture(preset, {"max_length": 40, **changes})
    speaker = TurnSpeaker(build(architecture), custom)
    (measured,) = measure_turns([speaker], CONVERSATION, n_repeats=1)
    prices = price_turns(speaker.model.spec, custom, CONVERSATION, bytes_per_value=4)
    for counts, price in zip(measured.counts, prices, strict=True):
        assert counts.n_read == price.n_read
        assert counts.cache_bytes == price.cache_bytes


@pytest.mark.parametrize(("preset", "changes", "custom"), measured_customs())
def test_dense_flops_before_the_first_token_equal_the_counter(
    preset: str, changes: dict[str, Any], custom: Custom
) -> None:
    architecture = tiny_architecture(preset, {"max_length": 40, **changes})
    model = build(architecture, kernel="dense", compute="gathered")
    reader = _FlopReader(
        TurnSpeaker(model, custom), CONVERSATION, draw_conversation(CONVERSATION, N_VOCAB)
    )
    prices = price_turns(model.spec, custom, CONVERSATION)
    assert reader.first_token_flops() == [price.first_token_flops.dense for price in prices]


class _FlopReader(ConversationReader):
    @torch.no_grad()
    def first_token_flops(self) -> list[int]:
        cache, flops = None, []
        for plan in self._plans:
            with FlopCounterMode(display=False) as counter:
                out = self._read_prompt(plan, cache)
                self._choose(out)
            flops.append(counter.get_total_flops())
            cache = self._read_answer(plan, out.cache, n_timed=0)
        return flops


@pytest.mark.parametrize(
    ("preset", "custom"), [("unilm", "growing prefix"), ("t5", "encode conversation")]
)
def test_an_arm_that_begins_anew_does_not_pay_for_joining_its_weights_again(
    preset: str, custom: Custom, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_joined = 0
    join = linear._joined

    def count(layers):
        nonlocal n_joined
        n_joined += 1
        return join(layers)

    monkeypatch.setattr(linear, "_joined", count)
    model = build(tiny_architecture(preset, {"max_length": 40}))
    tokens = draw_conversation(CONVERSATION, N_VOCAB)
    reader = ConversationReader(TurnSpeaker(model, custom), CONVERSATION, tokens)
    reader.time_turns()
    assert n_joined > 0
    n_joined = 0
    reader.time_turns()
    assert n_joined == 0
