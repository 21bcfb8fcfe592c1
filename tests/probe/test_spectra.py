"""Attention rank on matrices whose ranks, energies and determinants are known."""

from math import exp, factorial, lgamma, log, sqrt

import pytest
import torch
from torch import Tensor

from paribus.probe.spectra import (
    NUMERICAL_TOLERANCES,
    are_triangular,
    at_score_scale,
    attention_weights,
    effective_rank,
    energy_shares,
    log_attention_weights,
    log_determinant,
    numerical_rank,
    relative_effective_rank,
    rescale_scores,
    roots_of_gram,
    rounding_tolerance,
    singular_values,
    stable_rank,
)

N = 23


def causal(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def full(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool)


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_scores(n: int, d_head: int, n_matrices: int) -> Tensor:
    """Scores of random queries and keys, as in attention: sd 1 over √d_head."""
    query, key = normal(n_matrices, n, d_head, seed=2), normal(n_matrices, n, d_head, seed=3)
    return query @ key.transpose(-1, -2) / sqrt(d_head)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_identity_uses_every_direction_alike(dtype):
    values = singular_values(torch.eye(N, dtype=dtype))
    assert values.dtype == dtype
    assert effective_rank(values).item() == pytest.approx(N, rel=1e-6)
    assert relative_effective_rank(values).item() == pytest.approx(1, rel=1e-6)
    assert stable_rank(values).item() == pytest.approx(N, rel=1e-6)
    assert numerical_rank(values, 1e-2).item() == N
    assert energy_shares(values).tolist() == pytest.approx([(k + 1) / N for k in range(N)])


def test_a_permutation_is_of_full_rank():
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    values = singular_values(torch.eye(N)[order])
    assert effective_rank(values).item() == pytest.approx(N, rel=1e-6)
    assert stable_rank(values).item() == pytest.approx(N, rel=1e-6)


@pytest.mark.parametrize(("n_queries", "n_keys"), [(N, N), (17, 29), (29, 17)])
def test_uniform_attention_has_one_direction(n_queries, n_keys):
    values = singular_values(torch.full((n_queries, n_keys), 1 / n_keys, dtype=torch.float64))
    assert effective_rank(values).item() == pytest.approx(1)
    assert relative_effective_rank(values).item() == pytest.approx(1 / min(n_queries, n_keys))
    assert stable_rank(values).item() == pytest.approx(1)
    assert energy_shares(values)[0].item() == pytest.approx(1)
    for tolerance in NUMERICAL_TOLERANCES:
        assert numerical_rank(values, tolerance).item() == 1


def test_the_ranks_of_a_diagonal_are_computed_by_hand():
    values = singular_values(torch.diag(torch.tensor([1.0, -4.0, 2.0, 1.0])))
    assert values.tolist() == [4, 2, 1, 1]
    nats = 0.5 * log(2) + 0.25 * log(4) + 2 * 0.125 * log(8)
    assert effective_rank(values).item() == pytest.approx(exp(nats))
    assert effective_rank(values).item() == pytest.approx(2**1.75)
    assert stable_rank(values).item() == pytest.approx(22 / 16)
    assert numerical_rank(values, 0.3).item() == 2
    assert energy_shares(values).tolist() == pytest.approx([16 / 22, 20 / 22, 21 / 22, 1])


def test_noise_around_rank_k_is_seen_by_the_ranks_that_should_see_it():
    k, n = 5, 97
    basis = torch.linalg.qr(normal(n, k)).Q
    noise = normal(n, n, seed=4)
    noise = noise / torch.linalg.matrix_norm(noise, 2)
    values = singular_values(basis @ basis.T + 1e-3 * noise)
    assert numerical_rank(values, 1e-2).item() == k
    assert numerical_rank(values, 1e-4).item() > n / 2
    assert numerical_rank(values, rounding_tolerance(noise)).item() == n
    assert stable_rank(values).item() == pytest.approx(k, rel=1e-2)
    assert k < effective_rank(values).item() < 1.2 * k
    assert energy_shares(values)[k - 1].item() == pytest.approx(1, abs=1e-4)


def test_rounding_decides_the_rank_of_an_exact_product():
    product = normal(31, 7).float() @ normal(7, 43, seed=2).float()
    values = singular_values(product)
    assert rounding_tolerance(product) == 43 * torch.finfo(torch.float32).eps
    assert numerical_rank(values, rounding_tolerance(product)).item() == 7


def test_ranks_do_not_depend_on_the_scale_of_a_matrix():
    matrix = normal(N, N).float()
    small, plain = singular_values(matrix * 1e-30), singular_values(matrix)
    assert effective_rank(small).item() == pytest.approx(effective_rank(plain).item(), rel=1e-4)
    assert stable_rank(small).item() == pytest.approx(stable_rank(plain).item(), rel=1e-4)
    assert energy_shares(small).tolist() == pytest.approx(energy_shares(plain).tolist(), rel=1e-3)


def test_a_batch_equals_its_matrices_one_by_one():
    matrices = normal(2, 3, 11, 13)
    values = singular_values(matrices)
    ranks = effective_rank(values)
    assert ranks.shape == (2, 3)
    for b in range(2):
        for h in range(3):
            alone = effective_rank(singular_values(matrices[b, h])).item()
            assert ranks[b, h].item() == pytest.approx(alone)


def test_half_precision_is_computed_in_float32():
    assert singular_values(torch.eye(3, dtype=torch.bfloat16)).dtype == torch.float32
    assert rounding_tolerance(torch.eye(3, dtype=torch.bfloat16)) == 3 * 2**-23


def test_the_determinant_of_uniform_causal_attention_is_one_over_n_factorial():
    found = log_determinant(torch.zeros(N, N, dtype=torch.float64), causal(N))
    assert found is not None
    assert found.item() == pytest.approx(-log(factorial(N)))


def test_a_determinant_does_not_underflow():
    n = 1024  # 1/n! is about 10^-2640
    found = log_determinant(torch.zeros(n, n), causal(n))
    assert found is not None
    assert found.item() == pytest.approx(-lgamma(n + 1), rel=1e-5)
    far = torch.zeros(3, 3).index_fill(1, torch.tensor([0]), 400.0)  # weights of e^-400
    found = log_determinant(far, causal(3))
    assert found is not None
    assert found.item() == pytest.approx(-800)


@pytest.mark.parametrize("visible", [causal(N), causal(N).T], ids=["causal", "reversed"])
def test_the_diagonal_gives_the_determinant_of_a_triangular_matrix(visible):
    scores = normal(2, 3, N, N)
    found = log_determinant(scores, visible)
    expected = torch.linalg.slogdet(attention_weights(scores, visible)).logabsdet
    assert found is not None
    torch.testing.assert_close(found, expected)


def test_other_masks_take_the_general_determinant():
    visible = causal(7)
    visible[:3, :3] = True  # a prefix
    assert not are_triangular(visible)
    scores = normal(7, 7)
    weights = attention_weights(scores, visible)
    prefix, suffix = torch.linalg.det(weights[:3, :3]), weights.diagonal()[3:].prod()
    found = log_determinant(scores, visible)
    assert found is not None
    assert found.item() == pytest.approx((prefix * suffix).abs().log().item())


def test_heads_of_different_masks_have_each_their_determinant():
    visible = torch.stack([causal(7), causal(7).T, full(7)])
    assert are_triangular(visible).tolist() == [True, True, False]
    scores = normal(2, 3, 7, 7)
    together = log_determinant(scores, visible)
    assert together is not None
    for head in range(3):
        alone = log_determinant(scores[:, head], visible[head])
        assert alone is not None
        torch.testing.assert_close(together[:, head], alone)


def test_scores_have_the_rank_of_a_head_and_attention_has_not():
    scores = random_scores(31, 7, n_matrices=1)[0]
    tolerance = rounding_tolerance(scores)
    assert numerical_rank(singular_values(scores), tolerance).item() == 7
    for visible in (causal(31), full(31)):
        values = singular_values(attention_weights(scores, visible))
        assert numerical_rank(values, tolerance).item() == 31


def test_uniform_full_attention_is_singular():
    found = log_determinant(torch.zeros(2, 2), full(2))
    assert found is not None
    assert found.item() == float("-inf")


def test_cross_attention_has_no_determinant():
    assert log_determinant(normal(5, 7), torch.ones(5, 7, dtype=torch.bool)) is None


def test_a_query_that_sees_nothing_attends_to_nothing():
    visible = torch.tensor([[False, False], [True, False]])
    assert attention_weights(normal(2, 2), visible).tolist() == [[0, 0], [1, 0]]
    assert log_attention_weights(normal(2, 2), visible)[0].tolist() == [float("-inf")] * 2


@pytest.mark.parametrize("sd", [1.0, 4.0])
def test_rescaled_scores_have_the_standard_deviation_that_was_asked_for(sd):
    scores, visible = 7 + 0.3 * normal(2, 3, N, N), causal(N)
    rescaled = rescale_scores(scores, visible, sd)[..., visible]
    assert rescaled.std(-1, correction=0).flatten().tolist() == pytest.approx([sd] * 6)
    assert rescaled.mean(-1).abs().max().item() < 1e-12


def test_the_mean_of_scores_does_not_matter():
    scores, visible = normal(3, N, N), causal(N)
    moved = at_score_scale(scores + 100, visible, 4.0)
    torch.testing.assert_close(at_score_scale(scores, visible, 4.0), moved)


def test_the_own_scale_gives_the_own_attention():
    scores, visible = normal(N, N), causal(N)
    own = scores[visible].std(correction=0).item()
    torch.testing.assert_close(
        at_score_scale(scores, visible, own), attention_weights(scores, visible)
    )


def test_equal_scores_stay_uniform_at_any_scale():
    weights = at_score_scale(torch.full((3, 3), 5.0), full(3), 4.0)
    torch.testing.assert_close(weights, torch.full((3, 3), 1 / 3))


def test_hidden_scores_do_not_count_for_the_scale():
    scores, visible = normal(N, N), causal(N)
    loud = scores.masked_fill(~visible, 1e6)
    torch.testing.assert_close(
        at_score_scale(loud, visible, 1.0), at_score_scale(scores, visible, 1.0)
    )


def causal_over_full(scores: Tensor, sd: float) -> float:
    """The ratio of the effective ranks of causal and full attention at one scale of scores."""
    n = scores.shape[-1]
    ranks = [
        effective_rank(singular_values(at_score_scale(scores, visible, sd))).mean().item()
        for visible in (causal(n), full(n))
    ]
    return ranks[0] / ranks[1]


def test_the_scale_of_scores_decides_causal_over_full_effective_rank():
    """Measured at n = 128, d = 64: 0.80, 0.75, 0.77, 0.77 at sd 0.6, 1, 2, 4; 1.08 at 0.3 and 3.0
    at 0.1. At n = 512 it is 0.81, 0.74, 0.78, 0.79; 1.23 and 4.4.
    """
    scores = random_scores(128, 64, n_matrices=3)
    for sd in (0.6, 1.0, 2.0, 4.0):
        assert 0.73 < causal_over_full(scores, sd) < 0.82
    assert 1.0 < causal_over_full(scores, 0.3) < 1.2
    assert 2.5 < causal_over_full(scores, 0.1) < 3.5


def test_roots_of_the_gram_matrix_are_the_singular_values() -> None:
    """The way that is taken on CUDA, for wide, square and tall matrices."""
    generator = torch.Generator().manual_seed(5)
    for shape in ((3, 9, 20), (2, 16, 16), (4, 20, 9)):
        matrices = torch.rand(shape, generator=generator).softmax(-1)
        expected = torch.linalg.svdvals(matrices.double())
        found = roots_of_gram(matrices)
        assert found.shape == expected.shape
        assert float((found - expected).abs().max()) < 3e-8 * float(expected.max())
