"""Every objective × every preset: may be asked, or is refused with the way the answer is seen."""

import pytest
import torch
from tiny_model import PRESETS, tiny_architecture

from paribus.batch import N_SPECIAL_TOKENS, Vocabulary
from paribus.errors import SpecError
from paribus.masks import SequenceLayout, reachability
from paribus.model import Forward, build
from paribus.objectives import Score, require_permitted, score
from paribus.objectives.permission import example_problem
from paribus.spec import load, resolve
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    Continuation,
    LastToken,
    MaskedLM,
    Objective,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SpanCorruption,
    components_of,
)

OBJECTIVES = [
    CausalLM(),
    ReverseLM(),
    PrefixLM(),
    MaskedLM(),
    LastToken(),
    SpanCorruption(),
    Continuation(),
    Seq2Seq(),
    UL2(),
]
BOTH_WAYS = {"bert", "fixed-head", "hybrid", "mixed-heads", "mixed-layers"}
IN_PLACE = {"masked", "last_token"}
LENGTH = 24


def expected(objective: Objective, preset: str) -> bool:
    if tiny_architecture(preset).encoder is not None:
        return objective.kind not in {"causal", "reverse", "masked", "last_token"}
    if preset in BOTH_WAYS:
        return objective.kind in IN_PLACE
    return objective.kind != "reverse"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.kind)
def test_permission_is_what_the_gradient_says(objective: Objective, preset: str) -> None:
    """The derived answer is the expected one, and where it is given no answer moves the output
    that must predict it.
    """
    spec = resolve(tiny_architecture(preset))
    if not expected(objective, preset):
        with pytest.raises(SpecError, match="objective"):
            require_permitted(objective, spec, LENGTH)
        return
    require_permitted(objective, spec, LENGTH)
    model = build(tiny_architecture(preset)).double()
    for part in components_of(objective)[:2]:
        problem = example_problem(part, spec, LENGTH)
        embedded = torch.randn(
            1, problem.inputs.layout.length, 23, dtype=torch.float64, requires_grad=True
        )
        source = None
        if problem.inputs.source is not None:
            source = (
                torch.randn(1, problem.inputs.source.layout.length, 23).double(),
                problem.inputs.source.layout,
            )
        states = model.stack(
            embedded, problem.inputs.layout, model.stack.layers, source, Forward()
        ).states_BTD
        for at, answer in zip(
            problem.scored_positions_BM[0].tolist(),
            problem.target_positions_BM[0].tolist(),
            strict=True,
        ):
            if answer >= 0:
                (grad,) = torch.autograd.grad(states[0, at].sum(), embedded, retain_graph=True)
                assert (grad[0, answer] == 0).all()


@pytest.mark.parametrize(
    "mask", ["reverse", "reverse & strided(2)", "by_layer(reverse, strided(3) & reverse)"]
)
def test_reverse_text_may_be_asked_of_a_model_that_looks_ahead(mask: str) -> None:
    require_permitted(ReverseLM(), resolve(tiny_architecture("gpt2", {"mask": mask})), LENGTH)


@pytest.mark.parametrize(
    "objective", [PrefixLM(), Continuation(), Seq2Seq(), UL2()], ids=lambda one: one.kind
)
def test_answers_may_be_asked_of_a_model_that_hides_the_question_from_them(
    objective: Objective,
) -> None:
    require_permitted(
        objective, resolve(tiny_architecture("gpt2", {"mask": "causal & same_side"})), LENGTH
    )


def test_of_a_hidden_question_only_the_first_answer_knows() -> None:
    spec = resolve(tiny_architecture("gpt2", {"mask": "causal & same_side"}))
    problem = example_problem(components_of(PrefixLM())[0], spec, LENGTH)
    prefix, asked = problem.inputs.layout.prefix, problem.scored_positions_BM[0]
    assert isinstance(prefix, int)
    reached = reachability(spec.stack.masks, SequenceLayout(LENGTH, prefix))[asked]
    assert asked.tolist() == list(range(prefix - 1, LENGTH - 1))
    assert reached[0, :prefix].all()
    assert not reached[1:, :prefix].any()
    assert [row.sum() for row in reached[1:]] == list(range(1, LENGTH - prefix))


def test_parts_seen_both_ways_are_refused_where_one_looks_ahead() -> None:
    with pytest.raises(
        SpecError, match=r"can see it: layer 0 \(same_side\) shows position (\d+) to \d+"
    ):
        require_permitted(
            PrefixLM(), resolve(tiny_architecture("gpt2", {"mask": "same_side"})), LENGTH
        )


def test_a_leak_is_told_with_the_way_the_answer_is_seen() -> None:
    spec = resolve(load("gpt2", n_layers=2, mask="by_layer(strided(3), window(3))"))
    with pytest.raises(SpecError) as caught:
        require_permitted(CausalLM(), spec, LENGTH)
    assert (
        str(caught.value)
        == "objective.kind is 'causal', under which position 2 must predict the token at 3, but it"
        " can see it: layer 0 (strided(3)) shows position 3 to 0, then layer 1 (window(3)) shows"
        " position 0 to 2; use another mask, or an objective such as 'masked'"
    )


@pytest.mark.parametrize(("length", "leaks"), [(9, False), (10, True), (1500, True)])
def test_a_detour_is_found_as_soon_as_there_is_room_for_it(length: int, leaks: bool) -> None:
    spec = resolve(
        tiny_architecture("gpt2", {"mask": "by_layer(causal, strided(9))", "max_length": 2000})
    )
    if not leaks:
        require_permitted(CausalLM(), spec, length)
        return
    with pytest.raises(
        SpecError,
        match=r"position 0 must predict the token at 1, .* \(strided\(9\)\) shows position 9",
    ):
        require_permitted(CausalLM(), spec, length)


def test_a_detour_longer_than_a_thousand_positions_is_found() -> None:
    spec = resolve(
        tiny_architecture("gpt2", {"mask": "by_layer(causal, strided(1400))", "max_length": 2000})
    )
    require_permitted(CausalLM(), spec, 1400)
    with pytest.raises(SpecError, match=r"layer 2 \(strided\(1400\)\) shows position 1400 to 0"):
        require_permitted(CausalLM(), spec, 1401)


@pytest.mark.parametrize("objective", [PrefixLM(), Seq2Seq()], ids=lambda one: one.kind)
@pytest.mark.parametrize("mask", ["by_layer(causal, strided(17))", "by_layer(prefix, strided(17))"])
def test_a_leak_at_any_split_is_found(objective: Objective, mask: str) -> None:
    """With 17 of 24 positions ahead, only what is asked before position 7 is seen: at the first
    splits alone.
    """
    spec = resolve(tiny_architecture("gpt2", {"mask": mask}))
    with pytest.raises(
        SpecError, match=r"must predict the token at \d, but it can see it: .*\(strided\(17\)\)"
    ):
        require_permitted(objective, spec, LENGTH)
    require_permitted(PrefixLM(least=0.5), spec, LENGTH)


def test_a_leak_may_be_allowed_by_name() -> None:
    require_permitted(CausalLM(), resolve(tiny_architecture("bert")), LENGTH, allow_leaks=True)


def test_a_mask_at_the_end_that_looks_ahead_alone_is_refused() -> None:
    said = (
        "position 38 must answer, but it can see nothing of the text under the mask reverse; use"
        " another mask"
    )
    with pytest.raises(SpecError, match=said):
        require_permitted(
            LastToken(least=0.94, grid=100),
            resolve(tiny_architecture("gpt2", {"mask": "reverse", "max_length": 50})),
            40,
        )
    require_permitted(MaskedLM(), resolve(tiny_architecture("gpt2", {"mask": "reverse"})), 20)


def test_rows_so_short_that_nothing_is_left_to_see_are_refused() -> None:
    with pytest.raises(
        SpecError, match=r"can see nothing of the text .*; use another mask, or longer rows"
    ):
        require_permitted(MaskedLM(), resolve(tiny_architecture("gpt2")), 2)


def test_a_length_past_the_model_is_refused() -> None:
    with pytest.raises(
        SpecError, match="the objective reads 40 positions, past max_length 29; use at most that"
    ):
        require_permitted(CausalLM(), resolve(tiny_architecture("gpt2")), 40)


def test_a_score_is_sums_of_what_is_weighed() -> None:
    spec = resolve(tiny_architecture("gpt2"))
    problem = example_problem(components_of(Seq2Seq())[0], spec, 9)
    vocabulary = Vocabulary(9, torch.arange(9 + N_SPECIAL_TOKENS))
    logits = torch.randn(1, 9, vocabulary.size)
    got = score(logits, problem, vocabulary)
    asked = [(at, target) for at, target in enumerate(range(1, 9)) if target >= 4]
    by_hand = sum(-logits[0, at].log_softmax(-1)[target] for at, target in asked)
    assert got.nats_sum.item() == pytest.approx(float(by_hand), rel=1e-5)
    assert (got.target_count.item(), got.byte_count.item()) == (5, 4 + 5 + 6 + 7 + 8)
    assert isinstance(got + got, Score)
    assert (got + got).target_count.item() == 10


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.kind)
def test_only_what_is_asked_for_needs_words(objective: Objective) -> None:
    preset = "bert" if objective.kind in IN_PLACE else "gpt2"
    if objective.kind == "reverse":
        return
    problem = example_problem(
        components_of(objective)[0], resolve(tiny_architecture(preset)), LENGTH
    )
    states = torch.arange(problem.inputs.layout.length).float()[None, :, None].expand(-1, -1, 2)
    assert torch.equal(
        problem.gather_states(states)[0, :, 0].long(), problem.scored_positions_BM[0]
    )
