"""What requests share: blocks that were read before, wherever the mask allows it."""

import pytest
from byte_models import VOCABULARY, byte_model
from engine_requests import (
    BUDGET,
    TEXTS,
    answer_alone,
    context_request,
    drain,
    last_handle,
    model_and_layout,
    request_of,
    tokens_of,
)

from paribus.generate import Engine, Sampling
from paribus.masks import SequenceLayout, plan_growth
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, generation_layout
from paribus.spec.objectives import CausalLM, Objective, PrefixLM, Seq2Seq, SpanCorruption


def n_reread(model: Transformer, layout: ItemLayout, old: int, new: int) -> int:
    """How many of the first `old` tokens the plan reads again when a context grows."""
    is_prefix = layout.framing == "together"
    before = SequenceLayout(old, old if is_prefix else 0)
    after = SequenceLayout(new, new if is_prefix else 0)
    plan = plan_growth(model.spec.stack.masks, before, after)
    return plan.n_read - (new - old)


@pytest.mark.parametrize(
    ("preset", "objective", "mask"),
    [
        ("gpt2", CausalLM(), "causal"),
        ("unilm", PrefixLM(), "prefix"),
        ("gpt2", PrefixLM(), "causal"),
        ("mixtral", CausalLM(), "window(5)"),
        ("deepseek-v3", CausalLM(), "alternate(causal, window(3))"),
    ],
)
def test_the_next_turn_reads_what_the_plan_says(
    preset: str, objective: Objective, mask: str
) -> None:
    model = byte_model(preset, changes={"mask": mask}).double()
    layout = generation_layout(objective, model.spec, VOCABULARY, 83)
    engine = Engine(model, BUDGET, chunk=7)
    inputs = tuple(range(97, 97 + 33))
    first = last_handle(engine, context_request(layout, inputs))
    turn = (*inputs, *tokens_of(first), *b"and then?")
    second = last_handle(engine, context_request(layout, turn))
    assert tokens_of(second) == answer_alone(model, second.request)
    assert (first.n_cached_tokens, first.n_read_tokens) == (0, 33)
    n_known = 32 if n_reread(model, layout, 33, len(turn)) == 0 else 0
    assert (second.n_cached_tokens, second.n_read_tokens) == (n_known, len(turn) - n_known)


def test_a_source_is_read_again_only_if_it_changed() -> None:
    model, layout = model_and_layout("t5", Seq2Seq())
    engine = Engine(model, BUDGET)
    request = request_of(layout, TEXTS[2], Sampling(n_tokens=20))
    first, second = last_handle(engine, request), last_handle(engine, request)
    third = last_handle(engine, context_request(layout, (*request.inputs, 97)))
    n_source = len(request.inputs)
    assert (first.n_cached_tokens, first.n_read_tokens) == (0, n_source)
    assert (second.n_cached_tokens, second.n_read_tokens) == (n_source, 0)
    assert (third.n_cached_tokens, third.n_read_tokens) == (0, n_source + 1)
    for handle in (first, second, third):
        assert tokens_of(handle) == answer_alone(model, handle.request)


@pytest.mark.parametrize("salts", [(b"", b"a"), (b"a", b"b")])
@pytest.mark.parametrize(("preset", "objective"), [("gpt2", CausalLM()), ("t5", Seq2Seq())])
def test_another_salt_shares_nothing(
    preset: str, objective: Objective, salts: tuple[bytes, bytes]
) -> None:
    model, layout = model_and_layout(preset, objective)
    engine = Engine(model, BUDGET)
    request = context_request(layout, tuple(range(97, 97 + 40)), salt=salts[0])
    last_handle(engine, request)
    assert last_handle(engine, request).n_cached_tokens > 0
    other = last_handle(engine, context_request(layout, request.inputs, salt=salts[1]))
    assert other.n_cached_tokens == 0


@pytest.mark.parametrize("n_blocks", [0, 1, 3])
def test_under_a_tiny_budget_answers_are_unchanged(n_blocks: int) -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    whole = Engine(model, BUDGET)
    last_handle(whole, context_request(layout, tuple(range(97, 97 + 16)), 1))
    n_bytes = whole.state.n_bytes
    engine = Engine(model, n_blocks * n_bytes + n_bytes // 2, max_rows=2, chunk=9)
    handles = []
    for number in range(6):
        inputs = (*range(97, 97 + 20), *range(60 + number % 3, 60 + number % 3 + 20))
        handles.append(engine.submit(context_request(layout, inputs, 12)))
        for _ in range(number):
            engine.step()
        assert engine.state.n_blocks <= n_blocks
    drain(engine)
    assert engine.state.n_blocks == n_blocks
    for handle in handles:
        assert tokens_of(handle) == answer_alone(model, handle.request)


@pytest.mark.parametrize(
    ("mask", "objective"),
    [
        ("causal", CausalLM()),
        ("prefix", PrefixLM()),
        ("causal & same_side", PrefixLM()),
        ("alternate(prefix, window(3))", PrefixLM()),
    ],
)
def test_samples_of_one_context_read_it_once(mask: str, objective: Objective) -> None:
    model = byte_model("llama", changes={"mask": mask}).double()
    layout = generation_layout(objective, model.spec, VOCABULARY, 83)
    engine = Engine(model, BUDGET, chunk=30)
    inputs = tuple(range(97, 97 + 35))
    handles = []
    for _ in range(4):
        handles.append(engine.submit(context_request(layout, inputs)))
    drain(engine)
    assert [handle.n_read_tokens for handle in handles] == [35, 3, 3, 3]
    assert {tokens_of(handle) for handle in handles} == {answer_alone(model, handles[0].request)}


def test_a_prefix_that_nobody_sees_any_more_is_not_read_again() -> None:
    model = byte_model("llama", changes={"mask": "causal & same_side"}).double()
    layout = generation_layout(SpanCorruption(), model.spec, VOCABULARY, 83)
    engine = Engine(model, BUDGET)
    for n_cached in (0, 32):
        handle = last_handle(engine, context_request(layout, tuple(range(97, 97 + 32))))
        assert handle.n_cached_tokens == n_cached
        assert tokens_of(handle) == answer_alone(model, handle.request)
