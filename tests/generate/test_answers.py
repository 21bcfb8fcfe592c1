"""Generation asks as scoring does: each token that is said is the likeliest under the layout that
scores it.
"""

import pytest
import torch
from byte_models import BYTE_TOKENIZER, VOCABULARY, byte_model

from paribus.evaluate import Item, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.generate import Sampling, generate_answers
from paribus.generate.sampling import next_logits
from paribus.model import Transformer
from paribus.objectives.answering import answering_component
from paribus.objectives.framing import (
    ItemLayout,
    generation_layout,
    item_layout,
    item_problems,
    lay_context,
    lay_item,
)
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    LastToken,
    MaskedLM,
    Mixture,
    MixtureComponent,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)

CONTEXTS = [list(b"the other day"), list(b"a"), list(b"where were we")]
MODES = Mixture(
    components=(
        MixtureComponent(objective=SpanCorruption(mean_span=3), mode="R"),
        MixtureComponent(objective=SpanCorruption(mean_span=9), mode="X"),
    )
)
CASES: list[tuple[str, Objective]] = [
    ("gpt2", CausalLM()),
    ("unilm", PrefixLM()),
    ("unilm", CausalLM()),
    ("gpt2", LastToken()),
    ("unilm", Seq2Seq()),
    ("t5", Seq2Seq()),
    ("t5", PrefixLM()),
    ("bart", SpanCorruption()),
    ("t5", SpanCorruption()),
    ("unilm", SpanCorruption()),
    ("t5", UL2()),
    ("unilm", UL2()),
    ("t5", MODES),
    ("unilm", MODES),
]


def layout_of(model: Transformer, objective: Objective, window: int = 83) -> ItemLayout:
    return generation_layout(objective, model.spec, VOCABULARY, window)


@torch.no_grad()
def scoring_logits(model: Transformer, layout: ItemLayout, context: list[int], said: list[int]):
    """Logits at the place after what was said, as scoring lays it out with any token there."""
    *_, problem = item_problems(layout, lay_item(layout, "it", context, [*said, 0]))
    place = int(problem.scored_positions_BM[0, -1])
    return model(problem.inputs).logits_BTV[0, place]


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_each_token_is_the_likeliest_under_the_layout_that_scores_it(
    preset: str, objective: Objective
) -> None:
    model = byte_model(preset)
    layout = layout_of(model, objective)
    assert layout == item_layout(
        answering_component(objective, "likelihood"), model.spec, VOCABULARY, 83
    )
    answers = generate_answers(model, layout, CONTEXTS, Sampling(5))
    for context, answer in zip(CONTEXTS, answers, strict=True):
        said = list(answer.tokens)
        if answer.is_ended:
            said.append(-1)
        for place, token in enumerate(said):
            logits = scoring_logits(model, layout, context, said[:place])
            sayable = torch.full_like(logits, float("-inf"))
            for number in (*range(VOCABULARY.n_text), *layout.end_tokens):
                sayable[number] = logits[number]
            if token == -1:
                assert int(sayable.argmax()) in layout.end_tokens
            else:
                assert int(sayable.argmax()) == token


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_nats_of_what_is_said_step_by_step_are_those_that_scoring_gives(
    preset: str, objective: Objective
) -> None:
    model = byte_model(preset)
    layout = layout_of(model, objective)
    context = "the other day"
    inputs_BT = torch.tensor([lay_context(layout, list(context.encode()), 4).inputs])
    answer_BT = torch.tensor([layout.sentinel], dtype=torch.int64).view(1, -1)
    nats, said = 0.0, bytearray()
    for _ in range(4):
        with torch.no_grad():
            logits = next_logits(model, layout, inputs_BT, None, answer_BT)[0]
        said.append(97 + int(logits[97:123].argmax()))
        nats -= logits.double().log_softmax(-1)[said[-1]].item()
        answer_BT = torch.cat([answer_BT, torch.tensor([[said[-1]]])], 1)
    asked_model = AskedModel(model, objective, BYTE_TOKENIZER)
    (answer,) = likelihoods(asked_model, [Item("it", "", context, said.decode())])
    assert nats == pytest.approx(answer.nats, abs=1e-5)


@pytest.mark.parametrize("preset", ["t5", "unilm"])
def test_a_span_is_opened_by_its_sentinel_and_ended_by_the_next(preset: str) -> None:
    """The embedding of the next sentinel, which is never read, is turned to the state that
    predicts: then it is said, ends the answer and is not shown.
    """
    model = byte_model(preset)
    assert model.spec.head.tied
    layout, context = layout_of(model, SpanCorruption()), CONTEXTS[0]
    following = int(VOCABULARY.sentinel(1))
    assert layout.sentinel == (VOCABULARY.sentinel(0),)
    assert layout.end_tokens == (VOCABULARY.eos, following)
    (before,) = generate_answers(model, layout, [context], Sampling(5))
    assert len(before.tokens) == 5
    (problem,) = item_problems(layout, lay_item(layout, "it", context, [0]))
    with torch.no_grad():
        states = model.hidden_states(problem.inputs).states_BTD[0]
        state = states[int(problem.scored_positions_BM[0, -1])]
        model.embedding.weight[following] = 100 * state
    (after,) = generate_answers(model, layout, [context], Sampling(5))
    assert (after.tokens, after.is_ended) == ((), True)


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_answers_together_are_those_of_each_alone(preset: str, objective: Objective) -> None:
    model = byte_model(preset)
    layout = layout_of(model, objective, window=11)
    together = generate_answers(model, layout, CONTEXTS, Sampling(20))
    for context, answer in zip(CONTEXTS, together, strict=True):
        assert generate_answers(model, layout, [context], Sampling(20)) == (answer,)
    assert together[0].n_truncated > 0


def test_a_row_that_is_done_ends_there_and_no_other_does() -> None:
    model = byte_model("gpt2")
    layout = layout_of(model, CausalLM())
    whole = generate_answers(model, layout, CONTEXTS, Sampling(6))
    stop = whole[0].tokens[:2]
    halted = generate_answers(
        model, layout, CONTEXTS, Sampling(6), is_done=lambda tokens: tokens == stop
    )
    assert halted[0].tokens == stop
    assert not halted[0].is_ended
    for answer, expected in zip(halted[1:], whole[1:], strict=True):
        assert answer.tokens[: len(expected.tokens)] == expected.tokens or answer.tokens == stop


def test_a_model_that_never_learnt_to_go_on_is_given_the_context_as_it_is() -> None:
    model = byte_model("gpt2")
    for objective in (MaskedLM(), None):
        layout = generation_layout(objective, model.spec, VOCABULARY, 83)
        assert (layout.mode_token, layout.document_prefix, layout.sentinel) == ((), (), ())
        assert layout.framing == "together"
