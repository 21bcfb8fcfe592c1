"""Counts of a router's choices: on planted routers whose answers are known."""

from math import comb, isnan, log

import pytest
import torch
from torch import Tensor

from paribus.probe.expert_counts import (
    any_expert_chance,
    any_expert_repeats,
    co_activation,
    counts_by_group,
    expert_counts,
    expert_load,
    first_expert_chance,
    first_expert_repeats,
    information,
    information_by_lot,
    max_violation,
    mean_batch_violation,
    preferred_experts,
    preferred_tokens,
    saturation,
    saturation_chance,
    shares_by_group,
)

B, T, N, K, V = 5, 41, 8, 2, 11


def random_choices(n_sequences: int = B, length: int = T, seed: int = 1) -> Tensor:
    """K different experts by lot for every token."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n_sequences, length, N, generator=generator).argsort(-1)[..., :K]


def random_tokens(seed: int = 2) -> Tensor:
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(seed))


def token_router(tokens: Tensor) -> Tensor:
    """A router that looks at nothing but the token: experts t and t + 3, of 8."""
    return torch.stack([tokens % N, (tokens + 3) % N], -1)


def test_loads_are_computed_by_hand():
    choices = torch.tensor([[[0, 1], [0, 2], [0, 1]]])
    assert expert_counts(choices, 4).tolist() == [3, 2, 1, 0]
    assert expert_load(choices, 4).tolist() == pytest.approx([2, 4 / 3, 2 / 3, 0])
    assert max_violation(choices, 4) == pytest.approx(1)


def test_perfect_balance_violates_nothing():
    choices = torch.arange(4 * N).view(-1, 2) % N
    assert expert_load(choices, N).tolist() == [1] * N
    assert max_violation(choices, N) == 0


def test_one_expert_for_all_violates_by_n_less_one():
    assert max_violation(torch.zeros(7, 1, dtype=torch.int64), N) == N - 1


def test_batches_can_be_unbalanced_where_the_text_is_not():
    batches = [torch.full((6, 1), expert) for expert in range(4)]
    assert max_violation(torch.cat(batches), 4) == 0
    assert mean_batch_violation(batches, 4) == 3


def test_the_mean_over_batches_is_never_below_the_text():
    choices = random_choices(12)
    batches = list(choices.split(3))
    assert mean_batch_violation(batches, N) >= max_violation(choices, N)


def test_a_router_by_domain_is_seen():
    domains = torch.arange(B) % 3
    choices = torch.stack([domains, domains + 3], -1)[:, None].expand(B, T, K)
    counts = counts_by_group(choices, domains[:, None].expand(B, T), N, 3)
    assert counts.sum().item() == B * T * K
    shares = shares_by_group(counts, K)
    for domain in range(3):
        expected = [float(expert in (domain, domain + 3)) for expert in range(N)]
        assert shares[domain].tolist() == expected


def test_counts_by_group_are_those_of_a_loop():
    choices, tokens = random_choices(), random_tokens()
    expected = torch.zeros(V, N, dtype=torch.int64)
    for token, experts in zip(tokens.flatten(), choices.flatten(0, 1), strict=True):
        expected[token, experts] += 1
    assert torch.equal(counts_by_group(choices, tokens, N, V), expected)


def test_the_shares_of_a_group_sum_to_the_experts_of_a_token():
    shares = shares_by_group(counts_by_group(random_choices(), random_tokens(), N, V), K)
    assert shares.sum(-1).tolist() == pytest.approx([K] * V)


def test_a_router_by_token_gives_every_token_its_experts():
    tokens = random_tokens()
    counts = counts_by_group(token_router(tokens), tokens, N, V)
    experts, shares = preferred_experts(counts, K, 2)
    for token in range(V):
        assert set(experts[token].tolist()) == {token % N, (token + 3) % N}
    assert shares.unique().tolist() == [1]


def test_an_expert_prefers_the_tokens_that_always_choose_it():
    tokens = random_tokens()
    counts = counts_by_group(token_router(tokens), tokens, N, V)
    found, shares = preferred_tokens(counts, K, 2)
    for expert in range(N):
        choosing = {token for token in range(V) if expert in (token % N, (token + 3) % N)}
        best = found[expert][shares[expert] == 1].tolist()
        assert set(best) <= choosing
        assert len(best) == min(2, len(choosing))


def test_rare_tokens_are_listed_last_without_a_share():
    counts = torch.tensor([[9, 0], [5, 6], [10, 0]])
    tokens, shares = preferred_tokens(counts, 1, 3)
    assert tokens[0].tolist() == [2, 1, 0]
    assert shares[0, :2].tolist() == pytest.approx([1, 5 / 11])
    assert isnan(shares[0, 2].item())
    assert preferred_experts(counts, 1, 1)[1].isnan().flatten().tolist() == [True, False, False]


def test_repeats_are_computed_by_hand():
    choices = torch.tensor([[[0, 1], [0, 2], [2, 0], [3, 4]]])
    assert first_expert_repeats(choices) == pytest.approx(1 / 3)
    assert any_expert_repeats(choices) == pytest.approx(2 / 3)


def test_repeats_do_not_run_from_one_text_into_the_next():
    choices = torch.tensor([[[0], [1]], [[1], [2]]])
    assert first_expert_repeats(choices) == 0


def test_padding_is_no_neighbour():
    choices = torch.tensor([[[0, 1], [0, 2], [5, 6], [5, 6]]])
    real = torch.tensor([[True, True, False, False]])
    assert first_expert_repeats(choices, real) == any_expert_repeats(choices, real) == 1
    assert first_expert_repeats(choices) == any_expert_repeats(choices) == pytest.approx(2 / 3)


def test_a_sticky_router_repeats():
    choices = random_choices(B, 1).expand(B, T, K)
    assert first_expert_repeats(choices) == any_expert_repeats(choices) == 1
    assert first_expert_chance(choices, N) < 1


def test_random_choices_repeat_at_chance():
    """With 2 of 8 experts by lot: 1/8 for the first, and 1 - 15/28 = 46 % for any (Mixtral)."""
    choices = random_choices(97, 211)
    any_chance = 1 - comb(6, 2) / comb(8, 2)
    assert first_expert_chance(choices, N) == pytest.approx(1 / 8, rel=0.01)
    assert any_expert_chance(choices, N) == pytest.approx(any_chance, rel=0.01)
    assert first_expert_repeats(choices) == pytest.approx(1 / 8, rel=0.05)
    assert any_expert_repeats(choices) == pytest.approx(any_chance, rel=0.05)


def test_chance_follows_the_load():
    choices = torch.tensor([0, 0, 0, 1]).view(1, 4, 1)
    assert first_expert_chance(choices, N) == pytest.approx(9 / 16 + 1 / 16)
    assert any_expert_chance(choices, N) == pytest.approx(10 / 16)


@pytest.mark.parametrize("pairs_at_once", [1, 100, 2**22])
def test_any_expert_chance_is_that_of_all_pairs(pairs_at_once, monkeypatch):
    monkeypatch.setattr("paribus.probe.expert_counts._PAIRS_AT_ONCE", pairs_at_once)
    choices = random_choices(1, 29)
    flat = choices.flatten(0, 1).tolist()
    hits = [bool(set(a) & set(b)) for a in flat for b in flat]
    assert any_expert_chance(choices, N) == pytest.approx(sum(hits) / len(hits))


def test_co_activation_is_computed_by_hand():
    found = co_activation(torch.tensor([[0, 1], [0, 2], [1, 0], [2, 0]]), 4)
    assert found[:3, :3].tolist() == [[1, 0.5, 0.5], [1, 1, 0], [1, 0, 1]]
    assert found[:3, 3].tolist() == [0, 0, 0]
    assert found[3].isnan().all()


def test_saturation_is_computed_by_hand():
    early = torch.tensor([[0, 1], [2, 3], [4, 5]])
    last = torch.tensor([[1, 0], [3, 7], [6, 7]])
    assert saturation(early, last) == pytest.approx((1 + 0.5 + 0) / 3)
    assert saturation(last, last) == 1


def test_unrelated_routers_saturate_at_chance():
    found = saturation(random_choices(97, 211), random_choices(97, 211, seed=5))
    assert found == pytest.approx(K / N, rel=0.05)


def test_saturation_by_chance_is_that_of_choices_by_lot():
    choices, last = random_choices(400, seed=3), random_choices(400, seed=4)
    chance = saturation_chance(choices, last, N)
    assert chance == pytest.approx(K / N, rel=1e-2)
    assert saturation(choices, last) == pytest.approx(chance, rel=5e-2)


def test_saturation_by_chance_is_whole_where_all_tokens_choose_alike():
    same = torch.tensor([3, 5]).expand(B, T, K)
    assert saturation_chance(same, same, N) == pytest.approx(1)


def test_a_router_by_group_is_told_by_the_group():
    """Four groups, an expert each: the group tells all of log₂ 4 bits."""
    counts = torch.diag(torch.full((4,), 25))
    told, by_chance = information(counts)
    assert told == pytest.approx(2)
    assert by_chance == pytest.approx(9 / (2 * 100 * log(2)))


def test_groups_that_tell_nothing_have_what_chance_gives():
    """By lot, 6 groups and 8 experts: the mean over many texts is near the chance that is told."""
    generator = torch.Generator().manual_seed(3)
    found = []
    for _ in range(200):
        cells = torch.randint(6 * N, (1200,), generator=generator)
        found.append(information(torch.bincount(cells, minlength=6 * N).view(6, N)))
    told, by_chance = (sum(column) / len(found) for column in zip(*found, strict=True))
    assert told == pytest.approx(by_chance, rel=0.05)


def test_groups_that_are_too_rare_are_left_out():
    counts = torch.tensor([[20, 0], [0, 20], [4, 5]])
    assert information(counts)[0] == pytest.approx(1)
    assert isnan(information(counts, min_occurrences=21)[0])


def texts_of_one_expert(experts: list[int]) -> torch.Tensor:
    """Counts of texts of 100 tokens, each of which has one expert in all its tokens."""
    return 100 * torch.nn.functional.one_hot(torch.tensor(experts), N)


def test_by_lot_tokens_of_one_text_stay_together():
    """Six texts of an expert each in two groups: a deal in which every expert is in one group
    alone tells 1 bit, and there are only such deals.
    """
    counts = texts_of_one_expert([0, 1, 2, 3, 4, 5])
    assert information_by_lot(counts, torch.tensor([0, 0, 0, 1, 1, 1])) == pytest.approx(1)
    separate = information(torch.tensor([[100, 100, 100, 0, 0, 0], [0, 0, 0, 100, 100, 100]]))[1]
    assert separate < 0.01  # of as many tokens that are dealt one by one


def test_by_lot_two_kinds_of_texts_in_two_groups_have_the_mean_over_all_deals():
    """Of the 6 deals of 4 texts, 2 tell 1 bit and 4 nothing."""
    counts = texts_of_one_expert([0, 0, 1, 1])
    found = information_by_lot(counts, torch.tensor([0, 0, 1, 1]))
    assert found == pytest.approx(1 / 3, abs=0.15)  # of 100 deals


def test_texts_that_are_alike_tell_nothing_by_lot():
    assert information_by_lot(texts_of_one_expert([2] * 6), torch.arange(6) % 2) == 0
