"""Experts: how the choices of a router are spread over experts, domains, tokens and time.

Choices are integers [..., K], the K different experts of each token, best first. Where neighbours
do not matter, padding is cut out beforehand: `choices[real]`. Counts are exact; shares are float64.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from paribus.runtime import derive_seed

_PAIRS_AT_ONCE = 2**22  # pairs of sets of experts that are compared together
N_DEALS = 100  # of groups to texts, for what chance gives
MIN_OCCURRENCES = 10  # of a token, before its preferences are listed; as in OLMoE's code


def expert_counts(choices: Tensor, n_experts: int) -> Tensor:
    """How often each expert is chosen, [N]."""
    return torch.bincount(choices.flatten(), minlength=n_experts)


def expert_load(choices: Tensor, n_experts: int) -> Tensor:
    """Choices of an expert over K · tokens / N, [N]: 1 for all in perfect balance."""
    counts = expert_counts(choices, n_experts).double()
    return counts / counts.mean()


def max_violation(choices: Tensor, n_experts: int) -> float:
    """MaxVio = (max load - mean load) / mean load, over all these tokens (Wang 2024)."""
    return expert_load(choices, n_experts).max().item() - 1


def mean_batch_violation(batches: Iterable[Tensor], n_experts: int) -> float:
    """The mean of MaxVio over batches. It is never below MaxVio of the whole text, if batches are
    equally large.
    """
    found = [max_violation(choices, n_experts) for choices in batches]
    return sum(found) / len(found)


def counts_by_group(choices: Tensor, groups: Tensor, n_experts: int, n_groups: int) -> Tensor:
    """How often the tokens of each group choose each expert, [groups, N].

    A group is a domain or a token of the vocabulary; `groups` is [...], one for each token of text.
    """
    cells = groups[..., None] * n_experts + choices
    counts = torch.bincount(cells.flatten(), minlength=n_groups * n_experts)
    return counts.view(n_groups, n_experts)


def shares_by_group(counts: Tensor, n_active: int) -> Tensor:
    """The share of a group's tokens that choose each expert, [groups, N]; rows sum to K.

    It is OLMoE's specialisation: of domains, and of the vocabulary. NaN for a group without tokens.
    """
    return counts.double() / (counts.sum(-1, keepdim=True).double() / n_active)


def preferred_tokens(
    counts: Tensor, n_active: int, n: int, min_occurrences: int = MIN_OCCURRENCES
) -> tuple[Tensor, Tensor]:
    """For each expert the n tokens that choose it most reliably, and the share of their
    occurrences that do, [N, n] each.

    Rarer tokens than `min_occurrences` come last, with a share of NaN.
    """
    shares = _common_shares(counts, n_active, min_occurrences)
    best = shares.topk(min(n, len(shares)), dim=0)
    return best.indices.T, _nan_if_rare(best.values.T)


def preferred_experts(
    counts: Tensor, n_active: int, n: int, min_occurrences: int = MIN_OCCURRENCES
) -> tuple[Tensor, Tensor]:
    """For each token of the vocabulary the n experts that it chooses most often, and how often,
    [V, n] each. The shares of a token rarer than `min_occurrences` are NaN.
    """
    shares = _common_shares(counts, n_active, min_occurrences)
    best = shares.topk(min(n, shares.shape[1]), dim=1)
    return best.indices, _nan_if_rare(best.values)


def _common_shares(counts: Tensor, n_active: int, min_occurrences: int) -> Tensor:
    is_rare = counts.sum(-1) < min_occurrences * n_active
    return shares_by_group(counts, n_active).masked_fill(is_rare[:, None], -1)


def _nan_if_rare(shares: Tensor) -> Tensor:
    return shares.masked_fill(shares < 0, float("nan"))


def information(counts_GN: Tensor, min_occurrences: int = MIN_OCCURRENCES) -> tuple[float, float]:
    """How many bits a token's group tells about its one expert, and how many it would seem to tell
    by chance.

    Σ p(g, e) log₂ p(g, e) / p(g) p(e), over groups that occur at least `min_occurrences` times.
    Counts are finite, so it is above 0 even where groups tell nothing: by about
    (groups - 1) (experts - 1) / (2 · tokens · ln 2), counting those that occur (Miller 1955). NaN
    where no group occurs so often.
    """
    joint = counts_GN[counts_GN.sum(1) >= min_occurrences].double()
    joint = joint[:, joint.sum(0) > 0]
    n_tokens = joint.sum()
    independent = joint.sum(1, keepdim=True) * joint.sum(0) / n_tokens
    bits = torch.xlogy(joint, joint / independent).sum() / n_tokens / math.log(2)
    n_groups, n_experts = joint.shape
    by_chance = (n_groups - 1) * (n_experts - 1) / (2 * n_tokens * math.log(2))
    return bits.item(), by_chance.item()


def information_by_lot(counts_BN: Tensor, group_of_text: Tensor) -> float:
    """How many bits the group of a text would seem to tell about the expert of its tokens if groups
    had been dealt to texts by lot: the mean over many deals.

    Tokens of one text are alike, so this is far above what as many separate tokens would give.
    """
    generator = torch.Generator().manual_seed(derive_seed(0, "experts", "domains"))
    found: list[float] = []
    for _ in range(N_DEALS):
        dealt = group_of_text[torch.randperm(len(group_of_text), generator=generator)]
        found.append(information(sum_by_group(counts_BN, dealt))[0])
    return sum(found) / len(found)


def sum_by_group(counts_BN: Tensor, group_of_text: Tensor) -> Tensor:
    """Counts of texts as counts of their groups, [groups, N]."""
    n_groups = int(group_of_text.max()) + 1
    counts_GN = counts_BN.new_zeros(n_groups, counts_BN.shape[1])
    return counts_GN.index_add_(0, group_of_text, counts_BN)


def first_expert_repeats(choices_BTK: Tensor, real_BT: Tensor | None = None) -> float:
    """The share of consecutive tokens whose first expert stays the same."""
    first_BT = choices_BTK[..., 0]
    return _share_of_neighbours(first_BT[:, 1:] == first_BT[:, :-1], real_BT)


def any_expert_repeats(choices_BTK: Tensor, real_BT: Tensor | None = None) -> float:
    """The share of consecutive tokens that have an expert in common."""
    pairs = choices_BTK[:, 1:, :, None] == choices_BTK[:, :-1, None, :]
    return _share_of_neighbours(pairs.any(-1).any(-1), real_BT)


def _share_of_neighbours(is_repeated: Tensor, real_BT: Tensor | None) -> float:
    """The mean over pairs of neighbours that are both real."""
    if real_BT is not None:
        is_repeated = is_repeated[real_BT[:, 1:] & real_BT[:, :-1]]
    return is_repeated.double().mean().item()


def first_expert_chance(choices: Tensor, n_experts: int) -> float:
    """Σ p², with p the share of first choices: how often two tokens agree by load alone."""
    counts = expert_counts(choices[..., 0], n_experts).double()
    return (counts / counts.sum()).square().sum().item()


def any_expert_chance(choices: Tensor, n_experts: int) -> float:
    """How often two tokens drawn by lot from the text have an expert in common."""
    ordered = choices.flatten(0, -2).sort(-1).values
    sets, counts = torch.unique(ordered, dim=0, return_counts=True)
    members, shares = _memberships(sets, n_experts), counts.double() / counts.sum()
    n_rows = max(_PAIRS_AT_ONCE // len(sets), 1)
    chance = 0.0
    for start in range(0, len(sets), n_rows):
        rows = slice(start, start + n_rows)
        overlaps = (members[rows] @ members.T > 0).double()
        chance += (shares[rows] @ overlaps @ shares).item()
    return chance


def co_activation(choices: Tensor, n_experts: int) -> Tensor:
    """The share of the tokens with expert i that also have expert j, [i, j]; NaN in the row of an
    expert that is never chosen.
    """
    members = _memberships(choices.flatten(0, -2), n_experts).double()
    together = members.T @ members
    return together / together.diagonal()[:, None]


def saturation(choices: Tensor, last_choices: Tensor) -> float:
    """The share of a token's experts that are also its experts at the last checkpoint, mean over
    tokens (OLMoE). Chance is near K/N.
    """
    is_kept = (choices[..., :, None] == last_choices[..., None, :]).any(-1)
    return is_kept.double().mean().item()


def saturation_chance(choices: Tensor, last_choices: Tensor, n_experts: int) -> float:
    """Saturation if choices of two tokens drawn by lot were compared: Σ_i p_i q_i · K, with p and q
    the shares of expert i in all choices. It is K/N where loads are equal.
    """
    shares = expert_counts(choices, n_experts).double() / choices.numel()
    last_shares = expert_counts(last_choices, n_experts).double() / last_choices.numel()
    return (shares * last_shares).sum().item() * last_choices.shape[-1]


def _memberships(choices_MK: Tensor, n_experts: int) -> Tensor:
    """1 where a token has an expert, [M, N]."""
    members = torch.zeros(len(choices_MK), n_experts, device=choices_MK.device)
    return members.scatter(1, choices_MK, 1.0)
