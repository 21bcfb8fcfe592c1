"""The probe of rank on models whose attention is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from byte_models import byte_model
from probed_models import found_values as found
from probed_models import (
    probed,
    random_texts,
    with_planted_attention,
    with_uniform_attention,
)

from paribus.probe.rank_probe import n_spectra, probe_rank
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probes import RankProbe
from paribus.watcher import Watcher

T = 12


class Steps(Watcher):
    """Counts what is told to be done."""

    def __init__(self) -> None:
        self.n_done = 0

    def advance(self, amount: int) -> None:
        self.n_done += amount


def rank_rows(preset: str, tmp_path: Path, is_uniform: bool = False) -> list[ProbeRow]:
    model = byte_model(preset, max_length=T)
    if is_uniform:
        with_uniform_attention(model)
    subject, spec, steps = probed(model, tmp_path), RankProbe(n_texts=2), Steps()
    rows = list(probe_rank(subject, random_texts(2, T), spec, steps))
    assert steps.n_done == n_spectra(subject, spec)
    return rows


def test_uniform_causal_attention_has_a_determinant_of_one_over_n_factorial(tmp_path: Path) -> None:
    rows = rank_rows("gpt2", tmp_path, is_uniform=True)
    determinants = found(rows, "log |det|", variant="")
    assert determinants == pytest.approx([-math.lgamma(T + 1)] * len(determinants), rel=1e-5)
    weights = np.tril(np.ones((T, T))) / np.arange(1, T + 1)[:, None]
    values = np.linalg.svd(weights, compute_uv=False)
    shares = values / values.sum()
    expected = math.exp(-(shares * np.log(shares)).sum())
    assert found(rows, "effective rank", variant="") == pytest.approx(
        [expected] * len(determinants), rel=1e-4
    )
    assert set(found(rows, "numerical rank above rounding", variant="")) == {T}


def test_uniform_bidirectional_attention_has_rank_one(tmp_path: Path) -> None:
    rows = rank_rows("bert", tmp_path, is_uniform=True)
    assert found(rows, "effective rank", variant="") == pytest.approx(
        [1.0] * len(found(rows, "effective rank", variant="")), abs=1e-3
    )
    assert set(found(rows, "numerical rank at 0.0001", variant="")) == {1}


def test_planted_attention_has_the_rank_of_its_pattern(tmp_path: Path) -> None:
    """The identity, all at the first token, pairs at their first token, and equal weights."""
    pairs = [t - t % 2 for t in range(T)]
    places = [list(range(T)), [0] * T, pairs]
    model = byte_model("gpt2", max_length=T, changes={"n_layers": 1})
    subject = probed(with_planted_attention(model, places), tmp_path)
    rows = list(probe_rank(subject, random_texts(2, T), RankProbe(), Steps()))
    ranks = {head: found(rows, "effective rank", head=head, variant="") for head in range(4)}
    assert ranks[0] == pytest.approx([T], rel=1e-4)
    assert ranks[1] == pytest.approx([1], abs=1e-3)
    assert ranks[2] == pytest.approx([T / 2], rel=1e-3)
    assert found(rows, "log |det|", head=0, variant="") == pytest.approx([0], abs=1e-4)
    assert found(rows, "log |det|", head=3, variant="") == pytest.approx(
        [-math.lgamma(T + 1)], rel=1e-5
    )
    assert found(rows, "numerical rank at 0.01", head=2, variant="") == [T / 2]


def test_every_head_of_every_branch_has_a_row_and_cross_attention_no_determinant(
    tmp_path: Path,
) -> None:
    rows = rank_rows("bart", tmp_path)
    heads = {
        (row.stack, row.branch, row.layer, row.head)
        for row in rows
        if row.quantity == "effective rank"
    }
    spec = byte_model("bart", max_length=T).spec
    n_heads = sum(block.attention.n_heads for block in spec.stack.layers)
    assert spec.encoder is not None
    n_encoder = sum(block.attention.n_heads for block in spec.encoder.layers)
    assert len(heads) == 2 * n_heads + n_encoder
    assert not found(rows, "log |det|", branch="cross")
    assert found(rows, "log |det|", stack="encoder")


def test_a_spectrum_begins_at_one_and_falls(tmp_path: Path) -> None:
    rows = rank_rows("gpt2", tmp_path)
    curve = found(rows, "singular value, median over heads", variant="", layer=0)
    assert curve[0] == pytest.approx(1)
    assert curve == sorted(curve, reverse=True)
