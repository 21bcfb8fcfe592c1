import math

import pytest
import torch

from paribus.batch import BatchLayout
from paribus.model.positions import Positions, alibi_slopes, relative_buckets, sinusoids
from paribus.spec import RelativeBias, parse_architecture, resolve

CPU = torch.device("cpu")


def _positions(kind, mask="causal", n_heads=3, d_model=12, max_length=11):
    spec = resolve(
        parse_architecture(
            {
                "n_vocab": 5,
                "max_length": max_length,
                "d_model": d_model,
                "n_layers": 1,
                "mask": mask,
                "positions": kind,
                "attention": {"kind": "multi_head", "n_heads": n_heads, "d_head": 4},
            }
        )
    )
    positions = Positions(spec.stack, max_length, d_model)
    if positions.weight is not None:
        with torch.no_grad():
            positions.weight.copy_(
                torch.randn(positions.weight.shape, generator=torch.Generator().manual_seed(3))
            )
    return positions


# Added to embeddings


@pytest.mark.parametrize("d_model", [7, 12])
def test_sinusoids_are_those_of_vaswani(d_model):
    table = sinusoids(torch.arange(13), d_model, theta=100.0)
    for position in range(13):
        for channel in range(d_model):
            angle = position / 100.0 ** ((channel - channel % 2) / d_model)
            expected = math.sin(angle) if channel % 2 == 0 else math.cos(angle)
            assert table[position, channel].item() == pytest.approx(expected, abs=2e-6)


def test_sinusoids_are_added_at_the_layouts_positions():
    positions = _positions({"kind": "sinusoidal", "theta": 50.0})
    added = positions.position_embeddings(
        BatchLayout(2, 3, start=5), 12, torch.zeros(1, dtype=torch.bfloat16)
    )
    assert added.dtype == torch.bfloat16
    torch.testing.assert_close(added, sinusoids(torch.tensor([5, 6, 7]), 12, 50.0).bfloat16())


def test_learned_positions_are_rows_of_the_table_after_the_offset():
    positions = _positions({"kind": "learned", "offset": 2})
    assert positions.weight.shape == (11 + 2, 12)
    like = torch.zeros(1)
    assert torch.equal(
        positions.position_embeddings(BatchLayout(2, 3, start=4), 12, like),
        positions.weight[[6, 7, 8]],
    )
    given = torch.tensor([[0, 1, 0], [8, 3, 5]])
    added = positions.position_embeddings(BatchLayout(2, 3, positions_BT=given), 12, like)
    assert torch.equal(added, positions.weight[given + 2])


@pytest.mark.parametrize("kind", ["none", "rotary", "alibi", "relative_bias"])
def test_other_positions_add_nothing_to_embeddings(kind):
    assert _positions(kind).position_embeddings(BatchLayout(2, 3), 12, torch.zeros(1)) is None


# Turned


def test_a_turn_rotates_channel_pairs_by_position():
    theta, width = 100.0, 6
    turn = _positions({"kind": "rotary", "theta": theta}).rotation(
        BatchLayout(2, 3, start=5), width, CPU
    )
    heads = torch.randn(2, 3, 3, width, generator=torch.Generator().manual_seed(5))
    out = turn(heads)
    for place in range(3):
        for pair in range(width // 2):
            angle = (5 + place) * theta ** (-2 * pair / width)
            x, y = heads[..., place, pair], heads[..., place, pair + width // 2]
            expected = (
                x * math.cos(angle) - y * math.sin(angle),
                y * math.cos(angle) + x * math.sin(angle),
            )
            torch.testing.assert_close(out[..., place, pair], expected[0])
            torch.testing.assert_close(out[..., place, pair + width // 2], expected[1])


def test_turned_scores_depend_on_distance_alone():
    positions = _positions("rotary")
    query, key = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(7))

    def score(at_query, at_key):
        turned = [
            positions.rotation(BatchLayout(1, 1, start=at), 8, CPU)(heads)
            for at, heads in ((at_query, query), (at_key, key))
        ]
        return (turned[0] * turned[1]).sum().item()

    for distance in (0, 1, 5):
        scores = [score(start + distance, start) for start in (0, 3, 17, 101)]
        assert scores == pytest.approx([scores[0]] * 4, abs=1e-4)
    assert abs(score(5, 0) - score(1, 0)) > 0.01
    assert score(0, 0) == pytest.approx((query * key).sum().item(), abs=1e-6)


def test_a_turn_reads_each_sequences_own_positions():
    given = torch.tensor([[0, 1, 2], [7, 0, 3]])
    heads = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(5))
    positions = _positions("rotary")
    out = positions.rotation(BatchLayout(2, 3, positions_BT=given), 4, CPU)(heads)
    for b in range(2):
        for t in range(3):
            alone = positions.rotation(BatchLayout(1, 1, start=int(given[b, t])), 4, CPU)(
                heads[b : b + 1, :, t : t + 1]
            )
            torch.testing.assert_close(out[b : b + 1, :, t : t + 1], alone)


def test_a_turn_is_reckoned_in_float32_and_keeps_the_precision_given():
    turn = _positions("rotary").rotation(BatchLayout(1, 3), 4, CPU)
    heads = torch.randn(1, 3, 3, 4).bfloat16()
    assert turn(heads).dtype == torch.bfloat16
    torch.testing.assert_close(turn(heads), turn(heads.float()).bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["none", "learned", "sinusoidal", "alibi", "relative_bias"])
def test_other_positions_turn_nothing(kind):
    assert _positions(kind).rotation(BatchLayout(2, 3), 4, CPU) is None


# Added to scores


def _bucket(ahead, n_buckets, max_distance, both_ways):
    """T5's bucket (arXiv 1910.10683 and its code), one distance at a time."""
    first = 0
    if both_ways:
        n_buckets //= 2
        first = n_buckets if ahead > 0 else 0
        distance = abs(ahead)
    else:
        distance = max(-ahead, 0)
    n_exact = n_buckets // 2
    if distance < n_exact:
        return first + distance
    growth = math.log(distance / n_exact) / math.log(max_distance / n_exact) * (n_buckets - n_exact)
    # float32 may lie a hair below a whole number
    return first + min(n_exact + int(growth + 1e-6), n_buckets - 1)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 20), (4, 3), (12, 37)])
def test_buckets_are_those_of_t5(n_buckets, max_distance, both_ways):
    spec = RelativeBias(n_buckets=n_buckets, max_distance=max_distance)
    ahead = torch.arange(-211, 212)
    expected = [_bucket(int(a), n_buckets, max_distance, both_ways) for a in ahead]
    got = relative_buckets(ahead, spec, both_ways).tolist()
    different = [(int(a), x, y) for a, x, y in zip(ahead, expected, got, strict=True) if x != y]
    # At an exact power of the growth, float32 logarithms may fall on either side; T5's own code
    # does too.
    assert all(abs(x - y) == 1 for _, x, y in different)
    assert len(different) <= 4
    assert set(got) <= set(range(n_buckets))


def test_known_buckets_of_t5():
    spec, ahead = (
        RelativeBias(),
        torch.tensor([-200, -128, -127, -64, -32, -16, -8, -7, -1, 0, 1, 7, 8, 16, 200]),
    )
    both = [15, 15, 15, 14, 12, 10, 8, 7, 1, 0, 17, 23, 24, 26, 31]
    assert relative_buckets(ahead, spec, is_bidirectional=True).tolist() == both
    back = [31, 31, 31, 26, 21, 16, 8, 7, 1, 0, 0, 0, 0, 0, 0]
    assert relative_buckets(ahead, spec, is_bidirectional=False).tolist() == back


@pytest.mark.parametrize(("mask", "both_ways"), [("causal", False), ("full", True)])
def test_the_relative_bias_is_the_tables_row_of_the_bucket(mask, both_ways):
    positions = _positions({"kind": "relative_bias", "n_buckets": 8, "max_distance": 7}, mask)
    bias = positions.score_bias(BatchLayout(2, 2, start=3), BatchLayout(2, 5), CPU)
    assert bias.shape == (1, 3, 2, 5)
    for t in range(2):
        for s in range(5):
            bucket = relative_buckets(torch.tensor(s - (3 + t)), positions.spec, both_ways)
            assert torch.equal(bias[0, :, t, s], positions.weight[bucket])


def test_known_alibi_slopes():
    eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(8, CPU).tolist() == eight
    # For 12 heads: those of 8, then every second one of 16.
    assert alibi_slopes(12, CPU).tolist() == pytest.approx(
        [*eight, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    )
    assert alibi_slopes(1, CPU).tolist() == [2**-8]
    assert alibi_slopes(3, CPU).tolist() == pytest.approx([2**-4, 2**-8, 2**-2])


def test_alibi_grows_with_distance_on_both_sides():
    bias = _positions("alibi", n_heads=2).score_bias(
        BatchLayout(2, 2, start=1), BatchLayout(2, 5), CPU
    )
    distances = torch.tensor([[1.0, 0, 1, 2, 3], [2, 1, 0, 1, 2]])
    torch.testing.assert_close(bias, torch.stack([-distances / 16, -distances / 256])[None])


@pytest.mark.parametrize("kind", ["alibi", "relative_bias"])
def test_biases_read_given_positions(kind):
    given = torch.tensor([[0, 1, 2], [9, 4, 5]])
    positions = _positions(kind)
    layout = BatchLayout(2, 3, positions_BT=given)
    bias = positions.score_bias(layout, layout, CPU)
    assert bias.shape == (2, 3, 3, 3)
    plain = positions.score_bias(BatchLayout(1, 11), BatchLayout(1, 11), CPU)
    for b in range(2):
        for t in range(3):
            for s in range(3):
                assert torch.equal(bias[b, :, t, s], plain[0, :, given[b, t], given[b, s]])


@pytest.mark.parametrize("kind", ["none", "learned", "sinusoidal", "rotary"])
def test_other_positions_add_nothing_to_scores(kind):
    assert _positions(kind).score_bias(BatchLayout(2, 3), BatchLayout(2, 3), CPU) is None
