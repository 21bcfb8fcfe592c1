"""The probe of collapse on models whose states are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_models import byte_model
from probed_models import probed, random_texts, with_uniform_attention

from paribus.errors import UnsupportedError
from paribus.probe.collapse_probe import VARIANTS, n_passes, probe_collapse
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probes import CollapseProbe
from paribus.watcher import Watcher

T, QUANTITY = 12, "residual over norm"
SPEC = CollapseProbe(n_texts=3, start=False)


def depths(rows: list[ProbeRow], variant: str, stack: str = "stack") -> list[float]:
    own = [row for row in rows if row.variant == variant and row.stack == stack]
    return [row.value for row in own if row.quantity == QUANTITY]


def collapse_rows(preset: str, tmp_path: Path, is_uniform: bool = False) -> list[ProbeRow]:
    model = byte_model(preset, max_length=T)
    if is_uniform:
        with_uniform_attention(model)
    subject, texts = probed(model, tmp_path), random_texts(3, T)
    assert n_passes(texts, SPEC) == 3 * len(VARIANTS)
    return list(probe_collapse(subject, texts, SPEC, Watcher()))


def test_uniform_bidirectional_attention_alone_collapses_in_one_layer(tmp_path: Path) -> None:
    rows = collapse_rows("bert", tmp_path, is_uniform=True)
    collapsed = depths(rows, "attention alone")
    assert collapsed[0] > 0.1
    assert max(collapsed[1:]) < 1e-5  # every token is the mean of all
    assert min(depths(rows, "")) > 0.1  # skips keep them apart


def test_every_depth_of_both_stacks_has_a_row_in_every_variant(tmp_path: Path) -> None:
    rows = collapse_rows("bart", tmp_path)
    n_layers = len(byte_model("bart", max_length=T).spec.stack.layers)
    for variant in VARIANTS:
        for stack in ("stack", "encoder"):
            assert len(depths(rows, variant, stack)) == n_layers + 1
    assert {row.n for row in rows} == {3}


def test_parts_that_are_left_out_leave_the_embedding_alone(tmp_path: Path) -> None:
    rows = collapse_rows("gpt2", tmp_path)
    assert len({depths(rows, variant)[0] for variant in VARIANTS}) == 1
    assert len({depths(rows, variant)[-1] for variant in VARIANTS}) == len(VARIANTS)


def test_a_model_that_was_not_trained_here_has_no_start(tmp_path: Path) -> None:
    subject = probed(byte_model("gpt2", max_length=T), tmp_path)
    with pytest.raises(UnsupportedError, match="how it began is not known; set start to false"):
        list(probe_collapse(subject, random_texts(2, T), CollapseProbe(), Watcher()))
