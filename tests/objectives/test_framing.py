"""Items lie before a model as `pose_problem` laid its training text: the same inputs, positions
and answers.
"""

import pytest
import torch
from byte_models import VOCABULARY, byte_model
from tiny_model import tiny_architecture
from torch import Tensor

from paribus.batch import Batch, TextBatch
from paribus.errors import SpecError, UnsupportedError
from paribus.objectives import Problem, pose_problem
from paribus.objectives.answering import answering_component
from paribus.objectives.batching import batch_problems
from paribus.objectives.framing import item_layout, item_problems, lay_context, lay_item
from paribus.spec import resolve
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    Continuation,
    LastToken,
    MaskedLM,
    Mixture,
    MixtureComponent,
    Objective,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SpanCorruption,
)

CONTEXT, TARGET = tuple(range(40, 53)), tuple(range(60, 67))  # 13 and 7
END = VOCABULARY.eos


def laid(
    objective: Objective, preset: str = "gpt2", window: int = 29, context: tuple[int, ...] = CONTEXT
) -> list[Problem]:
    part = answering_component(
        objective, "pseudo-likelihood" if objective.kind == "masked" else "likelihood"
    )
    spec = resolve(tiny_architecture(preset, {"n_vocab": VOCABULARY.size}))
    framed = item_layout(part, spec, VOCABULARY, window)
    return list(item_problems(framed, lay_item(framed, "it", context, TARGET)))


def posed(
    objective: Objective,
    tokens: tuple[int, ...],
    has_encoder: bool = False,
    source: int | None = None,
):
    """What training makes of a row; with `source`, of a pair whose target begins there."""
    row = torch.tensor([tokens])
    zeros = torch.zeros_like(row)
    pairs = (
        {}
        if source is None
        else {"real_BT": row != VOCABULARY.pad, "target_starts_B": torch.tensor([source])}
    )
    return pose_problem(
        objective,
        TextBatch(0, zeros[:, 0], row, zeros, zeros, **pairs),
        VOCABULARY,
        1,
        has_encoder,
        False,
    )


def asked(problem: Problem) -> list[tuple[int, int]]:
    """Where an answer is scored, and which."""
    scored = problem.weights_BM[0] > 0
    return list(
        zip(
            problem.scored_positions_BM[0][scored].tolist(),
            problem.targets_BM[0][scored].tolist(),
            strict=True,
        )
    )


def read(batch: Batch) -> tuple[list[int], int]:
    real = batch.layout.real_BT
    prefix = batch.layout.prefix
    tokens = batch.tokens_BT[0] if real is None else batch.tokens_BT[0][real[0]]
    return tokens.tolist(), int(prefix[0]) if isinstance(prefix, Tensor) else prefix


def same(ours: Problem, theirs: Problem, last: int = 0) -> None:
    """Equal but for the last positions and answers of training, which no target needs."""
    tokens, prefix = read(theirs.inputs)
    assert read(ours.inputs) == (tokens[: len(tokens) - last], prefix)
    assert (ours.inputs.source is None) == (theirs.inputs.source is None)
    if ours.inputs.source is not None and theirs.inputs.source is not None:
        assert read(ours.inputs.source) == read(theirs.inputs.source)
    assert asked(ours)[-1] == asked(theirs)[-1 - last]
    assert set(asked(ours)) <= set(asked(theirs))


def test_causal_text_is_that_of_training_after_the_end_of_another() -> None:
    (ours,) = laid(CausalLM())
    same(ours, posed(CausalLM(), (END, *CONTEXT, *TARGET)))
    assert [answer for _, answer in asked(ours)] == list(TARGET)


@pytest.mark.parametrize("encoder", [False, True])
def test_a_prefix_is_that_of_training(encoder: bool) -> None:
    (ours,) = laid(PrefixLM(), "t5" if encoder else "unilm")
    share = 14 / 21
    same(ours, posed(PrefixLM(least=share, most=share, grid=21), (END, *CONTEXT, *TARGET), encoder))
    assert [answer for _, answer in asked(ours)] == list(TARGET)


@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("mode", [None, "S"])
def test_a_continuation_is_that_of_training(encoder: bool, mode: str | None) -> None:
    objective = Mixture(
        components=(MixtureComponent(objective=Continuation(rate=1 / 3), mode=mode),)
    )
    (ours,) = laid(objective, "t5" if encoder else "unilm")
    # a row is one shorter where a sign stands before it
    unread = (99,) if mode and not encoder else ()
    same(ours, posed(objective, (END, *CONTEXT, *TARGET, *unread), encoder))
    assert [answer for _, answer in asked(ours)] == list(TARGET)


def test_ul2_is_asked_under_its_sign_for_continuations() -> None:
    assert answering_component(UL2(), "likelihood") == MixtureComponent(
        objective=Continuation(), mode="S"
    )
    (ours,) = laid(UL2(), "unilm")
    assert read(ours.inputs) == ([VOCABULARY.mode_tokens["S"], END, *CONTEXT, *TARGET], 15)
    (ours,) = laid(UL2(), "t5")
    assert ours.inputs.source is not None
    assert read(ours.inputs.source)[0] == [VOCABULARY.mode_tokens["S"], END, *CONTEXT]


@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("mode", [None, "X"])
def test_what_follows_is_a_span_like_those_of_training(encoder: bool, mode: str | None) -> None:
    """A span as long as the target is hidden; spans always end a text."""
    objective = Mixture(
        components=(MixtureComponent(objective=SpanCorruption(mean_span=7, rate=1 / 3), mode=mode),)
    )
    (ours,) = laid(objective, "t5" if encoder else "unilm")
    unread = 0 if encoder else 3 + (mode is not None)  # signs take the place of text
    same(ours, posed(objective, (END, *CONTEXT, *TARGET, *range(unread)), encoder), last=1)
    assert [answer for _, answer in asked(ours)] == list(TARGET)


def test_the_longest_spans_of_several_are_taken() -> None:
    denoisers = [MixtureComponent(objective=SpanCorruption(mean_span=span)) for span in (3, 64, 8)]
    assert answering_component(Mixture(components=tuple(denoisers)), "likelihood") == denoisers[1]


@pytest.mark.parametrize("encoder", [False, True])
def test_a_pair_is_that_of_training_without_its_end(encoder: bool) -> None:
    (ours,) = laid(Seq2Seq(), "t5" if encoder else "unilm")
    theirs = posed(Seq2Seq(), (*CONTEXT, *TARGET, END, VOCABULARY.pad), encoder, source=13)
    same(ours, theirs, last=1)
    assert [answer for _, answer in asked(ours)] == list(TARGET)


def test_the_last_token_is_asked_for_each_of_the_target() -> None:
    rows = laid(LastToken(), "bert")
    assert len(rows) == 7
    for n, ours in enumerate(rows):
        share = (14 + n) / 21
        same(ours, posed(LastToken(least=share, most=share, grid=21), (END, *CONTEXT, *TARGET)))
        assert asked(ours) == [(14 + n, TARGET[n])]


def test_each_token_is_masked_with_all_others_in_sight() -> None:
    rows = laid(MaskedLM(), "bert")
    for n, ours in enumerate(rows):
        whole = [END, *CONTEXT, *TARGET]
        whole[14 + n] = VOCABULARY.mask
        assert read(ours.inputs) == (whole, len(whole))
        assert asked(ours) == [(14 + n, TARGET[n])]
    assert len(rows) == 7


def test_under_a_mask_that_keeps_documents_apart_nothing_precedes_one() -> None:
    spec = resolve(
        tiny_architecture("gpt2", {"n_vocab": VOCABULARY.size, "mask": "causal & same_document"})
    )
    framed = item_layout(MixtureComponent(objective=CausalLM()), spec, VOCABULARY, 29)
    (ours,) = item_problems(framed, lay_item(framed, "it", CONTEXT, TARGET))
    assert read(ours.inputs) == ([*CONTEXT, *TARGET], 0)


@pytest.mark.parametrize(
    ("objective", "preset", "window", "kept", "n_cut"),
    [
        (CausalLM(), "gpt2", 21, [END, *CONTEXT], 0),
        (CausalLM(), "gpt2", 20, [*CONTEXT], 0),
        (CausalLM(), "gpt2", 17, [*CONTEXT[3:]], 3),
        (CausalLM(), "gpt2", 8, [*CONTEXT[12:]], 12),
        (UL2(), "unilm", 17, [VOCABULARY.mode_tokens["S"], *CONTEXT[4:]], 4),
        (UL2(), "t5", 9, [VOCABULARY.mode_tokens["S"], *CONTEXT[5:]], 5),
        (SpanCorruption(), "t5", 9, [*CONTEXT[5:], VOCABULARY.sentinel(0)], 5),
        (SpanCorruption(), "unilm", 20, [*CONTEXT[2:], VOCABULARY.sentinel(0)], 2),
        (LastToken(), "bert", 17, [*CONTEXT[3:]], 3),
    ],
)
def test_a_context_loses_its_beginning_where_it_does_not_fit(
    objective: Objective, preset: str, window: int, kept: list[int], n_cut: int
) -> None:
    spec = resolve(tiny_architecture(preset, {"n_vocab": VOCABULARY.size}))
    framed = item_layout(answering_component(objective, "likelihood"), spec, VOCABULARY, window)
    found = lay_item(framed, "it", CONTEXT, TARGET)
    assert (list(found.inputs), found.n_truncated) == (kept, n_cut)
    longest = max(problem.inputs.layout.length for problem in item_problems(framed, found))
    assert longest <= window


MODE, OPEN = VOCABULARY.mode_tokens["S"], int(VOCABULARY.sentinel(0))


@pytest.mark.parametrize(
    ("objective", "preset", "window", "kept", "n_cut"),
    [
        # one window for both: 17 positions and a last token that is not read, less 4 of the answer
        (CausalLM(), "gpt2", 17, [END, *CONTEXT], 0),
        (CausalLM(), "gpt2", 12, [*CONTEXT[4:]], 4),
        (CausalLM(), "gpt2", 5, [*CONTEXT[10:]], 10),  # half of the six, and the answer is shorter
        # the mode token, and the sentinel that opens the answer, take one position each
        (UL2(), "unilm", 12, [MODE, *CONTEXT[5:]], 5),
        (SpanCorruption(), "unilm", 14, [*CONTEXT[4:], OPEN], 4),
        # an encoder has its window for itself
        (UL2(), "t5", 9, [MODE, *CONTEXT[5:]], 5),
        (SpanCorruption(), "t5", 9, [*CONTEXT[5:], OPEN], 5),
        # in place, the mask of the last token has a position too
        (LastToken(), "bert", 12, [*CONTEXT[5:]], 5),
    ],
)
def test_a_context_leaves_room_for_an_answer_that_is_yet_to_be_said(
    objective: Objective, preset: str, window: int, kept: list[int], n_cut: int
) -> None:
    spec = resolve(tiny_architecture(preset, {"n_vocab": VOCABULARY.size}))
    framed = item_layout(answering_component(objective, "likelihood"), spec, VOCABULARY, window)
    found = lay_context(framed, CONTEXT, 4)
    assert (list(found.inputs), found.n_truncated) == (kept, n_cut)


@pytest.mark.parametrize(
    ("objective", "preset", "window"), [(CausalLM(), "gpt2", 7), (PrefixLM(), "t5", 6)]
)
def test_a_target_without_room_is_refused_by_name(
    objective: Objective, preset: str, window: int
) -> None:
    with pytest.raises(
        UnsupportedError,
        match=(
            "item it has a target of 7 tokens, which leaves no room for a context in a window of"
            f" {window}; use"
        ),
    ):
        laid(objective, preset, window)


def test_an_item_without_tokens_is_refused_by_name() -> None:
    with pytest.raises(
        SpecError,
        match="item it has a context without a token; give it text that the tokenizer keeps",
    ):
        laid(Seq2Seq(), context=())
    framed = item_layout(
        MixtureComponent(objective=CausalLM()), byte_model("gpt2").spec, VOCABULARY, 20
    )
    with pytest.raises(SpecError, match="item it has a target without a token"):
        lay_item(framed, "it", CONTEXT, ())


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (
            MaskedLM(),
            (
                "is 'masked', which gives no likelihood .* from what follows it too; measure it"
                " with 'pseudo' where every arm fills masks; .* the yardstick 'head', after a last"
            ),
        ),
        (
            ReverseLM(),
            "is 'reverse', which gives no likelihood .* from those after it; train with 'causal'",
        ),
        (
            Mixture(
                components=(
                    MixtureComponent(objective=MaskedLM()),
                    MixtureComponent(objective=ReverseLM()),
                )
            ),
            (
                "is 'mixture', which gives no likelihood .* too, and each token .*; measure it with"
                " 'pseudo'"
            ),
        ),
    ],
)
def test_what_has_no_likelihood_is_refused_with_the_reason(
    objective: Objective, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        answering_component(objective, "likelihood")


def test_what_fills_no_masks_has_no_pseudo_likelihood() -> None:
    with pytest.raises(
        SpecError,
        match=r"is 'causal', which was not trained to fill masks, .*; use 'halves' .* 'head'",
    ):
        answering_component(CausalLM(), "pseudo-likelihood")


@pytest.mark.parametrize(
    ("kinds", "taken"),
    [
        (("masked", "causal"), "causal"),
        (("spans", "prefix", "causal"), "prefix"),
        (("reverse", "last_token"), "last_token"),
        (("causal", "continuation"), "continuation"),
    ],
)
def test_a_mixture_answers_by_the_part_that_asks_what_follows(
    kinds: tuple[str, ...], taken: str
) -> None:
    mixture = Mixture.model_validate({"components": [{"objective": kind} for kind in kinds]})
    assert answering_component(mixture, "likelihood").objective.kind == taken


def test_rows_that_are_alike_are_joined_without_padding() -> None:
    (row,) = laid(PrefixLM(), "unilm")
    both = batch_problems([row, row], VOCABULARY.pad)
    assert both.inputs.layout.real_BT is None
    assert both.inputs.layout.prefix == 14
    (other,) = laid(PrefixLM(), "unilm", context=CONTEXT[4:])
    uneven = batch_problems([row, other], VOCABULARY.pad).inputs
    assert uneven.layout.real_BT is not None
    assert uneven.layout.real_BT.sum(1).tolist() == [21, 17]
    assert isinstance(uneven.layout.prefix, Tensor)
    assert uneven.layout.prefix.tolist() == [14, 10]
