"""Answers over a cache are those of a model that reads everything again for each token."""

import pytest
import torch
from byte_models import VOCABULARY, byte_model
from torch.nn.utils.rnn import pad_sequence

from paribus.generate.answer_stream import AnswerStream, can_cache
from paribus.generate.sampling import next_logits
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, generation_layout, lay_context
from paribus.spec.objectives import CausalLM, MaskedLM, Objective, PrefixLM, Seq2Seq, SpanCorruption

CONTEXTS = [list(b"the other day"), list(b"a"), list(b"where were we")]
N_TOKENS = 6
CASES: list[tuple[str, Objective]] = [
    ("gpt2", CausalLM()),
    ("unilm", PrefixLM()),
    ("unilm", Seq2Seq()),
    ("unilm", SpanCorruption()),
    ("t5", Seq2Seq()),
    ("bart", SpanCorruption()),
    ("mixtral", CausalLM()),
    ("deepseek-v3", CausalLM()),
]


def laid_contexts(layout: ItemLayout, n_rows: int) -> tuple[torch.Tensor, list[int]]:
    rows = []
    for context in CONTEXTS[:n_rows]:
        rows.append(torch.tensor(lay_context(layout, context, N_TOKENS).inputs))
    return pad_sequence(rows, batch_first=True, padding_value=VOCABULARY.pad), list(map(len, rows))


def model_and_layout(
    preset: str, objective: Objective, window: int
) -> tuple[Transformer, ItemLayout]:
    model = byte_model(preset).double()
    return model, generation_layout(objective, model.spec, VOCABULARY, window)


def read_again(
    model: Transformer,
    layout: ItemLayout,
    contexts: tuple[torch.Tensor, list[int]],
    said_BT: torch.Tensor,
) -> torch.Tensor:
    inputs_BT, lengths = contexts
    opening = torch.tensor([layout.opening], dtype=torch.int64).view(1, -1)
    answer_BT = torch.cat([opening.expand(len(inputs_BT), -1), said_BT], 1)
    return next_logits(model, layout, inputs_BT, torch.tensor(lengths), answer_BT)


@torch.no_grad()
@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_logits_are_those_of_reading_again(preset: str, objective: Objective, n_rows: int) -> None:
    model, layout = model_and_layout(preset, objective, 83)
    contexts = laid_contexts(layout, n_rows)
    stream = AnswerStream(model, layout, contexts[0], torch.tensor(contexts[1]), N_TOKENS)
    said = torch.zeros(n_rows, 0, dtype=torch.int64)
    for place in range(N_TOKENS):
        expected = read_again(model, layout, contexts, said)
        torch.testing.assert_close(stream.logits(said), expected, atol=1e-5, rtol=1e-5)
        said = torch.cat([said, 97 + torch.arange(n_rows)[:, None] + place], 1)


@torch.no_grad()
def test_rows_leave_when_their_window_is_full() -> None:
    model, layout = model_and_layout("gpt2", CausalLM(), 18)
    contexts = laid_contexts(layout, 3)
    stream = AnswerStream(model, layout, contexts[0], torch.tensor(contexts[1]), N_TOKENS)
    said = torch.full((3, 0), 97, dtype=torch.int64)
    for n_said in range(N_TOKENS + 3):
        logits_BV = stream.logits(said)
        for row, length in enumerate(contexts[1]):
            if length + n_said > layout.window:
                assert not logits_BV[row].any()
            else:
                alone = (contexts[0][row : row + 1, :length], [length])
                expected = read_again(model, layout, alone, said[row : row + 1])[0]
                torch.testing.assert_close(logits_BV[row], expected, atol=1e-5, rtol=1e-5)
        said = torch.cat([said, torch.full((3, 1), 98)], 1)


@torch.no_grad()
@pytest.mark.parametrize("preset", ["gpt2", "t5"])
def test_rows_go_on_from_their_parents(preset: str) -> None:
    model, layout = model_and_layout(preset, Seq2Seq() if preset == "t5" else CausalLM(), 83)
    inputs_1T, lengths = laid_contexts(layout, 1)
    stream = AnswerStream(model, layout, inputs_1T, None, N_TOKENS)
    said = torch.zeros(1, 0, dtype=torch.int64)
    stream.logits(said)
    for parents, tokens in (([0, 0, 0], [97, 98, 99]), ([2, 0, 2], [100, 101, 102]), ([1], [103])):
        said = torch.cat([said[parents], torch.tensor(tokens)[:, None]], 1)
        contexts = (inputs_1T.expand(len(parents), -1), lengths * len(parents))
        expected = read_again(model, layout, contexts, said)
        found = stream.logits(said, torch.tensor(parents))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_what_is_filled_in_place_is_read_again() -> None:
    model, layout = model_and_layout("bert", MaskedLM(), 83)
    assert not can_cache(model, layout)
