"""Filters and draws against small implementations of their own, against transformers, and against
the probabilities that they should follow.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from paribus.generate import Sampling
from paribus.generate.choosing import (
    N_LIKELIEST,
    RowStream,
    choose_tokens,
    draw_by_blocks,
    draw_tokens,
    draw_uniforms,
    filter_scores,
    keep_top_p,
    penalise_repetition,
    row_choices,
    sample_stream,
    token_logprobs,
)
from paribus.runtime import numpy_generator

N_VOCAB = 31
FILTERS: dict[str, dict[str, Any]] = {
    "none": {"temperature": 1.0},
    "temperature": {"temperature": 0.7},
    "top-k": {"temperature": 1.3, "top_k": 5},
    "top-p": {"temperature": 0.9, "top_p": 0.6},
    "min-p": {"temperature": 1.0, "min_p": 0.2},
    "all": {"temperature": 1.7, "top_k": 11, "top_p": 0.8, "min_p": 0.1},
    "one": {"temperature": 1.0, "top_p": 1e-9},
}


def random_logits(n_rows: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(n_rows, N_VOCAB, generator=generator, dtype=torch.float64)


def probabilities(logits: list[float], sampling: Sampling) -> list[float]:
    """What a token is drawn with, computed with lists."""
    weights = [math.exp(value / sampling.temperature) for value in logits]
    order = sorted(range(len(logits)), key=lambda number: -weights[number])
    kept = order[: sampling.top_k or len(order)]
    total, reached, nucleus = sum(weights[number] for number in kept), 0.0, []
    for number in kept:
        nucleus.append(number)
        reached += weights[number] / total
        if reached >= sampling.top_p:
            break
    kept = [number for number in nucleus if weights[number] >= sampling.min_p * weights[order[0]]]
    total = sum(weights[number] for number in kept)
    return [weights[number] / total if number in kept else 0.0 for number in range(len(logits))]


@pytest.mark.parametrize("name", FILTERS)
def test_filters_leave_what_lists_leave(name: str) -> None:
    sampling = Sampling(**FILTERS[name])
    logits_BV = random_logits(50)
    chances_BV = filter_scores(logits_BV, row_choices([sampling] * 50)).softmax(-1)
    for logits, chances in zip(logits_BV.tolist(), chances_BV.tolist(), strict=True):
        assert chances == pytest.approx(probabilities(logits, sampling), abs=1e-12)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_those_of_transformers(name: str) -> None:
    warpers = pytest.importorskip("transformers.generation.logits_process")
    sampling = Sampling(**FILTERS[name])
    logits_BV = random_logits(200, seed=2)
    scores = warpers.TemperatureLogitsWarper(float(sampling.temperature))(None, logits_BV)
    if sampling.top_k:
        scores = warpers.TopKLogitsWarper(sampling.top_k)(None, scores)
    if sampling.top_p < 1:
        scores = warpers.TopPLogitsWarper(sampling.top_p)(None, scores)
    if sampling.min_p:
        scores = warpers.MinPLogitsWarper(sampling.min_p)(None, scores)
    ours = filter_scores(logits_BV, row_choices([sampling] * 200))
    assert torch.equal(ours.isinf(), scores.isinf())
    torch.testing.assert_close(ours.softmax(-1), scores.softmax(-1), rtol=1e-12, atol=0)


def test_the_repetition_penalty_is_that_of_transformers() -> None:
    warpers = pytest.importorskip("transformers.generation.logits_process")
    logits_BV = random_logits(7)
    read_BT = torch.randint(N_VOCAB, (7, 13), generator=torch.Generator().manual_seed(3))
    seen_BV = torch.zeros_like(logits_BV, dtype=torch.bool).scatter(1, read_BT, True)
    for penalty in (0.5, 1.0, 1.3):
        theirs = warpers.RepetitionPenaltyLogitsProcessor(penalty)(read_BT, logits_BV)
        penalty_B = torch.full((7,), penalty, dtype=torch.float64)
        assert torch.equal(penalise_repetition(logits_BV, seen_BV, penalty_B), theirs)


def test_the_penalty_divides_what_is_above_zero_and_multiplies_what_is_below() -> None:
    logits_BV = torch.tensor([[2.0, 2.0, -1.0, -1.0]])
    seen_BV = torch.tensor([[True, False, True, False]])
    penalised_BV = penalise_repetition(logits_BV, seen_BV, torch.tensor([2.0]))
    assert penalised_BV.tolist() == [[1.0, 2.0, -2.0, -1.0]]


@pytest.mark.parametrize("name", FILTERS)
def test_draws_follow_the_probabilities_that_filters_leave(name: str) -> None:
    """A chi-square test of 20,000 draws, each from a stream of its own."""
    sampling = Sampling(**FILTERS[name], seed=11)
    n_draws = 20_000
    logits_BV = random_logits(1, seed=4)
    uniforms_B = torch.from_numpy(draw_uniforms([RowStream(11, 0)], n_draws)[0])
    tokens = choose_tokens(
        logits_BV.expand(n_draws, -1), row_choices([sampling] * n_draws), uniforms_B
    )
    counts = torch.bincount(tokens, minlength=N_VOCAB).numpy()
    expected = n_draws * np.array(probabilities(logits_BV[0].tolist(), sampling))
    assert (counts[expected == 0] == 0).all()
    is_common = expected >= 5
    observed = [*counts[is_common], counts[~is_common].sum()]
    wanted = [*expected[is_common], expected[~is_common].sum()]
    if wanted[-1] < 1:  # too rare for a cell of its own
        observed, wanted = [*observed[:-2], sum(observed[-2:])], [*wanted[:-2], sum(wanted[-2:])]
    if len(wanted) > 1:
        assert chisquare(observed, wanted).pvalue > 1e-3


def test_rows_with_settings_of_their_own_are_chosen_as_each_alone() -> None:
    samplings = [Sampling(), *(Sampling(**fields) for fields in FILTERS.values())]
    samplings.append(Sampling(temperature=1, repetition_penalty=1.7))
    logits_BV = random_logits(len(samplings)).float()
    seen_BV = logits_BV > 1
    streams = [RowStream(seed) for seed in range(len(samplings))]
    uniforms_B = torch.from_numpy(draw_uniforms(streams, 1, first_place=5)[:, 0])
    together = choose_tokens(logits_BV, row_choices(samplings), uniforms_B, seen_BV)
    for row, sampling in enumerate(samplings):
        one = slice(row, row + 1)
        alone = choose_tokens(
            logits_BV[one], row_choices([sampling]), uniforms_B[one], seen_BV[one]
        )
        assert together[row] == alone[0]
    assert together[0] == logits_BV[0].argmax()


@pytest.mark.parametrize("fields", [{}, *FILTERS.values()])
def test_nothing_is_looked_at_on_the_host(fields: dict[str, Any]) -> None:
    """Tensors without values would refuse to be looked at."""
    sampling = Sampling(**fields, repetition_penalty=1.1)
    logits_BV = torch.empty(3, N_VOCAB, device="meta")
    uniforms_B = torch.empty(3, dtype=torch.float64, device="meta")
    choices = row_choices([sampling] * 3, "meta")
    assert choose_tokens(logits_BV, choices, uniforms_B, logits_BV > 0).shape == (3,)
    assert token_logprobs(logits_BV, uniforms_B.long(), 2).likeliest_BK.shape == (3, 2)


def test_a_draw_is_a_function_of_seed_row_and_place() -> None:
    streams = [RowStream(3, 0), RowStream(3, 5), RowStream(4, 0)]
    uniforms_BT = draw_uniforms(streams, 7)
    for row, stream in enumerate(streams):
        for place in range(7):
            drawn = numpy_generator(stream.seed, "generate", stream.row, place).random()
            assert uniforms_BT[row, place] == drawn
    assert np.array_equal(draw_uniforms(streams[1:], 3, first_place=4), uniforms_BT[1:, 4:])


def test_the_first_sample_has_the_stream_of_a_single_answer_and_others_have_their_own() -> None:
    assert sample_stream(3, 2, 0) == RowStream(3, 2)
    streams = {sample_stream(3, row, sample) for row in range(4) for sample in range(5)}
    assert len(streams) == 20


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_range_draw_no_token_that_a_filter_removed(uniform: float) -> None:
    scores_BV = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]], dtype=torch.float64)
    token = draw_tokens(scores_BV, torch.tensor([uniform], dtype=torch.float64))
    assert token.item() == (1 if uniform == 0 else 2)


def test_equal_logits_are_all_kept_by_top_k() -> None:
    logits_BV = torch.tensor([[1.0, 3.0, 1.0, 0.0]])
    scores_BV = filter_scores(logits_BV, row_choices([Sampling(temperature=1, top_k=2)]))
    assert scores_BV.isinf().tolist() == [[False, False, False, True]]


def test_top_p_of_a_large_vocabulary_keeps_what_a_whole_sort_keeps() -> None:
    """Rows of which a few tokens are enough, and one that is nearly flat."""
    generator = torch.Generator().manual_seed(5)
    scores_BV = torch.randn(4, 5 * N_LIKELIEST, generator=generator, dtype=torch.float64)
    scores_BV *= torch.tensor([9.0, 5.0, 0.01, 3.0], dtype=torch.float64)[:, None]
    top_p_B = torch.tensor([0.9, 0.5, 0.8, 1.0], dtype=torch.float64)
    kept_BV = ~keep_top_p(scores_BV, top_p_B).isinf()
    for row in range(4):
        chances, order = scores_BV[row].softmax(-1).sort(descending=True)
        n_kept = int((chances.cumsum(-1) - chances < top_p_B[row]).sum())
        if row == 3:
            n_kept = len(order)
        assert set(kept_BV[row].nonzero()[:, 0].tolist()) == set(order[:n_kept].tolist())
    assert kept_BV[2].sum() > N_LIKELIEST > kept_BV[0].sum()


def test_top_k_above_the_vocabulary_keeps_all() -> None:
    logits_BV = random_logits(2)
    scores_BV = filter_scores(logits_BV, row_choices([Sampling(temperature=1, top_k=999)] * 2))
    assert not scores_BV.isinf().any()


def test_log_probabilities_are_the_models_own() -> None:
    logits_BV = random_logits(3)
    token_B = torch.tensor([4, 0, 30])
    found = token_logprobs(logits_BV, token_B, 2)
    for row in range(3):
        values = logits_BV[row].tolist()
        total = math.log(sum(map(math.exp, values)))
        order = sorted(range(N_VOCAB), key=lambda number, values=values: -values[number])[:2]
        assert found.said_B[row].item() == pytest.approx(values[int(token_B[row])] - total)
        assert found.likeliest_BK[row].tolist() == order
        wanted = [values[number] - total for number in order]
        assert found.logprobs_BK[row].tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("share_left", [1.0, 0.001])
def test_a_draw_by_blocks_takes_the_token_that_one_sum_takes(share_left: float) -> None:
    generator = torch.Generator().manual_seed(1)
    scores_BV = 4 * torch.randn(64, 5003, dtype=torch.float64, generator=generator)
    is_out_BV = torch.rand(scores_BV.shape, generator=generator) >= share_left
    is_out_BV[:, -1] = False
    scores_BV = scores_BV.masked_fill(is_out_BV, float("-inf"))
    scores_BV = scores_BV - scores_BV.amax(-1, keepdim=True)
    uniforms_B = torch.rand(64, dtype=torch.float64, generator=generator)
    uniforms_B[0], uniforms_B[1] = 0.0, 1 - 2.0**-53
    token_B = draw_by_blocks(scores_BV.exp(), uniforms_B)
    assert token_B.tolist() == draw_tokens(scores_BV, uniforms_B).tolist()
