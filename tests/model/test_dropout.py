import hashlib

import numpy as np
import pytest
import torch

from paribus.batch import Batch
from paribus.model import DropoutKey, build
from paribus.model.dropout import dropout, uniform_integers
from paribus.spec import parse_architecture

LIKE = torch.zeros(3, 5, 7)
WORD = 2**64 - 1


def _mixed(number):
    """splitmix64's finaliser in unbounded integers."""
    number = number * 0x9E3779B97F4A7C15 & WORD
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & WORD
    return number ^ number >> 31


def test_each_draw_is_a_hash_of_seed_step_place_row_and_element():
    text = b"int:3\x1fstr:dropout\x1fstr:here"
    place = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1
    numbers = uniform_integers(LIKE, DropoutKey(seed=3, step=11), "here")
    for row, position, channel in [(0, 0, 0), (0, 4, 6), (2, 3, 1), (1, 0, 5)]:
        start = _mixed(_mixed(11 + place & WORD) + row & WORD)
        number = _mixed(start + position * 7 + channel & WORD) >> 11
        assert numbers[row, position, channel].item() == number


def test_the_draws_are_spread_evenly():
    numbers = uniform_integers(torch.zeros(11, 101, 97), DropoutKey(seed=3, step=0), "here").numpy()
    counts, _ = np.histogram(numbers, bins=10, range=(0, 2**53))
    expected = numbers.size / 10
    assert np.all(np.abs(counts - expected) < 5 * expected**0.5)
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.02


def test_a_share_is_dropped_and_the_rest_scaled_up():
    hidden = torch.full((7, 101, 97), 3.0)
    out = dropout(hidden, 0.3, DropoutKey(seed=1, step=2), "here")
    kept = out != 0
    assert torch.equal(out[kept], torch.full_like(out[kept], 3.0 / 0.7))
    # Five standard deviations of a share of 0.3 among so many.
    assert (~kept).float().mean().item() == pytest.approx(
        0.3, abs=5 * (0.21 / hidden.numel()) ** 0.5
    )


def test_without_draws_or_share_nothing_happens():
    hidden = torch.randn(2, 3, 5)
    assert dropout(hidden, 0.5, None, "here") is hidden
    assert dropout(hidden, 0.0, DropoutKey(1, 2), "here") is hidden


def test_the_same_key_draws_the_same_and_any_other_draws_anew():
    base = uniform_integers(LIKE, DropoutKey(3, 5), "here")
    assert torch.equal(uniform_integers(LIKE, DropoutKey(3, 5), "here"), base)
    for other in [
        uniform_integers(LIKE, DropoutKey(2, 5), "here"),
        uniform_integers(LIKE, DropoutKey(3, 7), "here"),
        uniform_integers(LIKE, DropoutKey(3, 5), "there"),
        uniform_integers(LIKE, DropoutKey(3, 5, torch.tensor([3, 4, 5])), "here"),
    ]:
        assert (other == base).float().mean() < 0.05


def test_a_step_may_be_a_number_or_a_tensor():
    base = uniform_integers(LIKE, DropoutKey(3, 5), "here")
    assert torch.equal(uniform_integers(LIKE, DropoutKey(3, torch.tensor(5)), "here"), base)


def test_a_row_draws_the_same_in_any_split_of_the_batch():
    whole = uniform_integers(torch.zeros(7, 5, 3), DropoutKey(3, 5), "here")
    part = uniform_integers(torch.zeros(2, 5, 3), DropoutKey(3, 5, torch.tensor([6, 2])), "here")
    assert torch.equal(part, whole[[6, 2]])


def test_a_longer_sequence_begins_with_the_draws_of_a_shorter():
    long, short = (
        uniform_integers(torch.zeros(2, n, 3), DropoutKey(3, 5), "here") for n in (11, 5)
    )
    assert torch.equal(long[:, :5], short)


def test_draws_leave_the_global_generator_alone():
    before = torch.random.get_rng_state()
    uniform_integers(LIKE, DropoutKey(3, 5), "here")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_precision_is_kept():
    assert dropout(LIKE.bfloat16() + 1, 0.5, DropoutKey(1, 1), "here").dtype == torch.bfloat16


# In a model


def _model(**changes):
    given = {
        "n_vocab": 13,
        "max_length": 11,
        "d_model": 6,
        "n_layers": 2,
        "dropout": 0.5,
        "attention": {"kind": "multi_head", "n_heads": 3},
        "init": {"kind": "normal", "std": 0.5},
        **changes,
    }
    return build(parse_architecture(given))


def test_a_model_drops_only_where_draws_are_given():
    model, tokens = _model(), torch.arange(10).view(2, 5)
    quiet = model(tokens).logits_BTV
    assert torch.equal(model(tokens).logits_BTV, quiet)
    noisy = model(tokens, DropoutKey(1, 2)).logits_BTV
    assert not torch.allclose(noisy, quiet)
    assert torch.equal(model(tokens, DropoutKey(1, 2)).logits_BTV, noisy)
    assert not torch.allclose(model(tokens, DropoutKey(1, 3)).logits_BTV, noisy)
    assert torch.equal(_model(dropout=0.0)(tokens, DropoutKey(1, 2)).logits_BTV, quiet)


@pytest.mark.parametrize("changes", [{}, {"encoder": {"n_layers": 2}}])
def test_a_split_batch_drops_what_the_whole_batch_drops(changes):
    model, tokens = _model(**changes), torch.arange(12).view(4, 3)
    source = tokens.flip(1) if changes else None
    whole = model(Batch.of(tokens, source=source), DropoutKey(1, 2)).logits_BTV
    rows = torch.tensor([3, 1])
    part = Batch.of(tokens[rows], source=None if source is None else source[rows]).with_rows(rows)
    torch.testing.assert_close(model(part, DropoutKey(1, 2)).logits_BTV, whole[rows])
    torch.testing.assert_close(model(part, DropoutKey(1, 2, rows)).logits_BTV, whole[rows])


def test_every_place_of_a_model_has_its_own_draws(monkeypatch):
    places = []

    def spy(hidden, share, draws, place):
        places.append(place)
        return hidden

    monkeypatch.setattr("paribus.model.forward.dropout", spy)
    monkeypatch.setattr("paribus.model.stack.dropout", spy)
    _model(encoder={"n_layers": 2, "shared": True})(
        Batch.of(torch.zeros(1, 3).long(), source=torch.zeros(1, 5).long()), DropoutKey(1, 1)
    )
    assert len(set(places)) == len(places)
    assert sorted(places) == sorted(
        ["encoder.embedding", "stack.embedding"]
        + [
            f"{name}.layers.{n}.{part}"
            for name in ("encoder", "stack")
            for n in (0, 1)
            for part in ("attention", "feed_forward")
        ]
        + [f"stack.layers.{n}.cross" for n in (0, 1)]
    )
