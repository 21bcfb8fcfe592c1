"""Problems posed: what is read, what is asked, and that every draw has its own key."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.objectives import draw_component, pose_problem
from paribus.objectives.source_target import fit_span_plan
from paribus.objectives.spans import HiddenSpans, corrupt_spans, draw_spans, plan_spans
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

WORDS = Vocabulary(
    50,
    torch.cat(
        [torch.ones(50, dtype=torch.int64), torch.zeros(N_SPECIAL_TOKENS, dtype=torch.int64)]
    ),
)
RUNNING = [
    CausalLM(),
    ReverseLM(),
    PrefixLM(),
    MaskedLM(),
    LastToken(),
    SpanCorruption(),
    Continuation(),
    UL2(),
]


def reading(n_rows: int = 5, length: int = 23, k: int = 3, first: int = 0) -> TextBatch:
    tokens = torch.from_numpy(np.random.default_rng(k).integers(50, size=(n_rows + first, length)))[
        first:
    ]
    documents = (torch.arange(length) >= 9).long().expand(n_rows, -1)
    return TextBatch(k, torch.arange(first, first + n_rows), tokens, documents, documents)


def pairs() -> TextBatch:
    tokens = torch.tensor([[1, 2, 3, 11, 12, 51, 50], [4, 13, 51, 50, 50, 50, 50]])
    real = tokens != 50
    zeros = torch.zeros_like(tokens)
    return TextBatch(0, torch.arange(2), tokens, zeros, zeros, real, torch.tensor([3, 1]))


def posed(
    objective: Objective,
    text: TextBatch,
    has_encoder: bool = False,
    documents: bool = False,
    seed: int = 7,
):
    return pose_problem(objective, text, WORDS, seed, has_encoder, documents)


def test_causal_reads_all_and_tells_all_but_the_first() -> None:
    text = reading()
    problem = posed(CausalLM(), text)
    assert torch.equal(problem.inputs.tokens_BT, text.tokens_BT)
    assert torch.equal(problem.targets_BM[:, :-1], text.tokens_BT[:, 1:])
    assert problem.weights_BM[0].tolist() == [1] * 22 + [0]
    assert problem.target_positions_BM[0].tolist() == [*range(1, 23), -1]


def test_reverse_is_causal_from_the_other_end() -> None:
    text = reading()
    problem = posed(ReverseLM(), text)
    assert torch.equal(problem.inputs.tokens_BT, text.tokens_BT)
    assert torch.equal(problem.targets_BM[:, 1:], text.tokens_BT[:, :-1])
    assert problem.weights_BM[0].tolist() == [0] + [1] * 22
    assert problem.target_positions_BM[0].tolist() == [-1, *range(22)]


def test_prefix_has_one_split_a_step_and_scores_what_follows_it() -> None:
    text = reading()
    problem = posed(PrefixLM(), text)
    split = problem.inputs.layout.prefix
    assert isinstance(split, int)
    assert torch.equal(problem.targets_BM, text.tokens_BT[:, split:])
    assert problem.scored_positions_BM[0].tolist() == list(range(split - 1, 22))
    splits = {posed(PrefixLM(), reading(k=k)).inputs.layout.prefix for k in range(60)}
    assert splits == {round(23 * n / 16) for n in range(4, 13)}
    assert {posed(PrefixLM(grid=2), reading(k=k)).inputs.layout.prefix for k in range(9)} == {12}


def test_an_encoder_reads_the_prefix_and_the_decoder_the_rest_one_behind() -> None:
    text = reading()
    problem = posed(PrefixLM(), text, has_encoder=True)
    assert problem.inputs.source is not None
    split = problem.inputs.source.tokens_BT.shape[1]
    assert torch.equal(problem.inputs.source.tokens_BT, text.tokens_BT[:, :split])
    assert (problem.inputs.tokens_BT[:, 0] == WORDS.decoder_start).all()
    assert torch.equal(problem.inputs.tokens_BT[:, 1:], text.tokens_BT[:, split:-1])
    assert torch.equal(problem.targets_BM, text.tokens_BT[:, split:])


def test_masked_hides_a_fixed_share_and_asks_for_it_in_place() -> None:
    text = reading(400, 101)
    problem = posed(MaskedLM(), text)
    assert problem.scored_positions_BM.shape == (400, 15)
    assert torch.equal(problem.targets_BM, text.tokens_BT.gather(1, problem.scored_positions_BM))
    read = problem.inputs.tokens_BT.gather(1, problem.scored_positions_BM)
    untouched = torch.ones_like(text.tokens_BT, dtype=torch.bool).scatter(
        1, problem.scored_positions_BM, False
    )
    assert torch.equal(problem.inputs.tokens_BT[untouched], text.tokens_BT[untouched])
    masked = (read == WORDS.mask).float().mean().item()
    left = (read == problem.targets_BM).float().mean().item()
    assert masked == pytest.approx(0.8, abs=5 * (0.16 / 6000) ** 0.5)
    assert left == pytest.approx(0.1 + 0.1 / 50, abs=5 * (0.09 / 6000) ** 0.5)
    assert (problem.target_positions_BM == -1).all()


@pytest.mark.parametrize(
    ("length", "rate", "n_chosen"),
    [
        (24, 0.15, 4),
        (23, 0.15, 3),
        (101, 0.15, 15),
        (5, 0.5, 2),
        (7, 0.5, 4),
        (9, 0.9, 8),
        (3, 0.15, 1),
        (2, 0.01, 1),
    ],
)  # 3.6, 3.45, 15.15, 2.5 to the even one, 3.5 likewise, 8.1; and one at least
def test_the_number_of_masked_tokens_is_rounded(length: int, rate: float, n_chosen: int) -> None:
    assert posed(MaskedLM(rate=rate), reading(3, length)).scored_positions_BM.shape == (3, n_chosen)


@pytest.mark.parametrize(
    ("n_text", "rate", "mean_span", "plan"),
    [
        (24, 0.15, 3.0, (4, 1)),
        (23, 0.15, 3.0, (3, 1)),
        (40, 0.25, 4.0, (10, 2)),
        (44, 0.25, 4.0, (11, 3)),
    ],
)  # 3.6 tokens in 1.33 spans; 3.45; 10 in 2.5, to the even one; 11 in 2.75
def test_numbers_of_hidden_tokens_and_spans_are_rounded(
    n_text: int, rate: float, mean_span: float, plan: tuple[int, int]
) -> None:
    found = plan_spans(n_text, rate, mean_span)
    assert (found.n_hidden, found.n_spans) == plan


@pytest.mark.parametrize(
    ("length", "n_told"), [(23, 6), (24, 6), (26, 6), (27, 7)]
)  # 5.75, 6, 6.5, 6.75
def test_the_length_of_a_continuation_is_rounded(length: int, n_told: int) -> None:
    assert posed(Continuation(), reading(3, length)).targets_BM.shape == (3, n_told)


def test_replacements_are_drawn_evenly_from_all_of_the_text_s_vocabulary() -> None:
    """15,150 draws among 50 tokens: about 303 of each, and no sign among them."""
    text = reading(300, 101)
    problem = posed(MaskedLM(rate=0.5, masked=0.0, replaced=1.0), text)
    read = problem.inputs.tokens_BT.gather(1, problem.scored_positions_BM)
    counts = torch.bincount(read.flatten(), minlength=50)
    assert counts.shape == (50,)
    expected = read.numel() / 50
    assert ((counts - expected).abs() < 5 * expected**0.5).all()


def test_the_last_token_is_asked_under_a_mask_and_nothing_after_it_is_read() -> None:
    text = reading()
    problem = posed(LastToken(), text)
    split = problem.inputs.tokens_BT.shape[1] - 1
    assert torch.equal(problem.inputs.tokens_BT[:, :-1], text.tokens_BT[:, :split])
    assert (problem.inputs.tokens_BT[:, -1] == WORDS.mask).all()
    assert torch.equal(problem.targets_BM, text.tokens_BT[:, split : split + 1])


def test_spans_are_cut_as_t5_cuts_them() -> None:
    hole = HiddenSpans.of(torch.tensor([[0, 1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 1, 1, 0]]).bool())
    tokens = torch.tensor([[10, 11, 12, 13, 14, 15, 16], [20, 21, 22, 23, 24, 25, 26]])
    read, told = corrupt_spans(hole, tokens, 90 + hole.span_numbers_BT, torch.tensor([98, 99]))
    assert read.tolist() == [[10, 90, 13, 14, 91, 16], [20, 21, 90, 23, 91, 26]]
    assert told.tolist() == [[90, 11, 12, 91, 15, 98], [90, 22, 91, 24, 25, 99]]


@pytest.mark.parametrize(
    ("n_text", "rate", "mean_span"),
    [(100, 0.15, 3.0), (100, 0.5, 8.0), (7, 0.15, 64.0), (64, 0.5, 64.0)],
)
def test_spans_have_their_planned_number_and_length(
    n_text: int, rate: float, mean_span: float
) -> None:
    plan = plan_spans(n_text, rate, mean_span)
    hole = draw_spans(plan, map(np.random.default_rng, range(20)))
    assert hole.hidden_BT.shape == (20, n_text)
    assert plan.n_hidden == max(round(n_text * rate), 1)
    assert (hole.hidden_BT.sum(1) == plan.n_hidden).all()
    assert (hole.starts_BT.sum(1) == plan.n_spans).all()
    assert not hole.hidden_BT[:, 0].any()


def test_every_way_to_cut_spans_is_equally_likely() -> None:
    plan = plan_spans(6, 0.5, 1.5)
    assert (plan.n_hidden, plan.n_spans) == (3, 2)
    seen: dict[str, int] = {}
    for gone in draw_spans(plan, map(np.random.default_rng, range(4000))).hidden_BT.int().tolist():
        name = "".join(map(str, gone))
        seen[name] = seen.get(name, 0) + 1
    assert len(seen) == 4  # two ways to cut the kept, two to cut the hidden
    assert all(abs(count - 1000) < 5 * 750**0.5 for count in seen.values())


@pytest.mark.parametrize("has_encoder", [False, True])
def test_spans_give_the_text_back(has_encoder: bool) -> None:
    text = reading(3, 40)
    problem = posed(SpanCorruption(rate=0.4), text, has_encoder)
    source = problem.inputs.source
    read = (
        problem.inputs.tokens_BT[:, : problem.inputs.layout.prefix]
        if source is None
        else source.tokens_BT
    )
    for row in range(3):
        told, spans, n = problem.targets_BM[row].tolist(), {}, -1
        for token in told[:-1]:
            if token >= WORDS.sentinel(0):
                n = token
                spans[n] = []
            else:
                spans[n].append(token)
        assert told[-1] == WORDS.eos
        back = [word for token in read[row].tolist() for word in spans.get(token, [token])]
        assert back == text.tokens_BT[row, : len(back)].tolist()
        assert len(back) == 40 if has_encoder else len(back) > 20
    assert problem.inputs.tokens_BT.shape[1] <= 40


def test_more_spans_than_sentinels_are_refused() -> None:
    with pytest.raises(
        SpecError, match="cuts 1024 tokens into 171 spans, but there are 96 sentinels"
    ):
        fit_span_plan(SpanCorruption(rate=0.5), 1024, one_sequence=False, has_mode=False)


def test_a_length_too_short_for_spans_is_refused() -> None:
    with pytest.raises(SpecError, match="does not fit a length of 3"):
        fit_span_plan(SpanCorruption(), 3, one_sequence=True, has_mode=False)


def test_ul2_draws_its_seven_denoisers_evenly_and_says_which() -> None:
    counts: dict[tuple[str | None, str], int] = {}
    for k in range(2100):
        part = draw_component(UL2(), 1, k)
        name = (part.mode, part.objective.model_dump_json())
        counts[name] = counts.get(name, 0) + 1
    assert len(counts) == 7
    assert all(abs(count - 300) < 5 * (2100 * 6 / 49) ** 0.5 for count in counts.values())
    for k in range(20):
        text = reading(2, 60, k)
        problem = posed(UL2(), text)
        mode = draw_component(UL2(), 7, k).mode
        assert mode is not None
        assert (problem.inputs.tokens_BT[:, 0] == WORDS.mode_tokens[mode]).all()


def test_a_mixture_follows_its_weights() -> None:
    mixture = Mixture(
        components=(
            MixtureComponent(objective=CausalLM(), weight=3.0),
            MixtureComponent(objective=PrefixLM()),
        )
    )
    causal = sum(isinstance(draw_component(mixture, 5, k).objective, CausalLM) for k in range(1000))
    assert abs(causal - 750) < 5 * 187.5**0.5


def test_a_pair_together_scores_its_target_alone() -> None:
    problem = posed(Seq2Seq(), pairs())
    assert problem.inputs.layout.prefix.tolist() == [3, 1]
    assert problem.weights_BM.tolist() == [[0, 0, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0]]
    assert problem.targets_BM[0, 2:5].tolist() == [11, 12, 51]
    assert problem.target_positions_BM.tolist() == [
        [-1, -1, 3, 4, 5, -1, -1],
        [1, 2, -1, -1, -1, -1, -1],
    ]


def test_a_pair_apart_gives_source_and_target_each_its_row() -> None:
    problem = posed(Seq2Seq(), pairs(), has_encoder=True)
    source = problem.inputs.source
    assert source is not None
    assert source.layout.real_BT is not None
    assert [
        row[real].tolist()
        for row, real in zip(source.tokens_BT, source.layout.real_BT, strict=True)
    ] == [
        [1, 2, 3],
        [4],
    ]
    told = [
        row[weights > 0].tolist()
        for row, weights in zip(problem.targets_BM, problem.weights_BM, strict=True)
    ]
    assert told == [[11, 12, 51], [13, 51]]
    assert problem.inputs.tokens_BT[0, :3].tolist() == [WORDS.decoder_start, 11, 12]


@pytest.mark.parametrize("has_encoder", [False, True])
def test_a_target_without_a_source_is_read_and_not_asked(has_encoder: bool) -> None:
    text = replace(pairs(), target_starts_B=torch.tensor([0, 1]))
    problem = posed(Seq2Seq(), text, has_encoder)
    assert problem.inputs.tokens_BT.shape == text.tokens_BT.shape
    assert problem.weights_BM.sum(1).tolist() == [0, 2]


@pytest.mark.parametrize("objective", RUNNING)
def test_a_row_is_posed_the_same_in_any_slice_of_the_batch(objective: Objective) -> None:
    whole, part = posed(objective, reading(5)), posed(objective, reading(2, first=3))
    assert torch.equal(whole.inputs.tokens_BT[3:], part.inputs.tokens_BT)
    assert torch.equal(whole.targets_BM[3:], part.targets_BM)
    assert torch.equal(whole.scored_positions_BM[3:], part.scored_positions_BM)


@pytest.mark.parametrize("objective", RUNNING)
def test_documents_travel_with_their_tokens(objective: Objective) -> None:
    text = reading()
    # a token tells its document
    text = TextBatch(
        text.k, text.rows_B, text.documents_BT * 10, text.documents_BT, text.documents_BT
    )
    for has_encoder in (False, True):
        try:
            problem = posed(objective, text, has_encoder, documents=True)
        except SpecError:
            continue
        for part in (problem.inputs, problem.inputs.source):
            if part is None:
                continue
            assert part.layout.documents_BT is not None
            plain = (part.tokens_BT == 0) | (part.tokens_BT == 10)
            if not isinstance(objective, MaskedLM):  # which puts in words of its own
                assert torch.equal(part.layout.documents_BT[plain] * 10, part.tokens_BT[plain])
            positions = part.layout.positions_BT
            assert positions is not None
            assert (positions[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("objective", "text", "message"),
    [
        (
            Seq2Seq(),
            reading(),
            (
                "is 'seq2seq', which needs pairs, but the corpus has running text; use another"
                " objective"
            ),
        ),
        (
            CausalLM(),
            pairs(),
            "is 'causal', which needs running text, but the corpus has pairs; use 'seq2seq'",
        ),
    ],
)
def test_an_objective_for_another_kind_of_text_is_refused(
    objective: Objective, text: TextBatch, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        posed(objective, text)
