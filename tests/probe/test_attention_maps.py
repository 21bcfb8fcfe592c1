"""Attention maps of every architecture: what is kept equals what attention did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from byte_models import byte_model
from probed_models import probed, random_texts

from paribus.probe.attention_maps import attention_maps, block_means, spread_numbers
from paribus.probe.look import look_at
from paribus.record.attention_maps import MAX_SIDE, AttentionMap
from paribus.report.attention_charts import attention_figure, mask_edges
from paribus.report.images import plot_files
from paribus.report.probe_charts import figure_plots

T = 10


def maps_of(preset: str, folder: Path, n_tokens: int = T, n_maps: int = 8) -> list[AttentionMap]:
    subject = probed(byte_model(preset, max_length=n_tokens), folder)
    tokens = random_texts(1, n_tokens).texts[0].tokens
    maps = attention_maps(subject, tokens, preset, n_maps)
    looked = look_at(
        subject.model,
        subject.batch(torch.tensor([tokens])),
        ["attention_weights"],
    )
    for one in maps:
        if one.branch == "attention" and one.n_rows == one.n_queries:
            weights = looked[f"{one.stack}.attention_weights.{one.layer}"][0, one.head]
            drawn = [
                [one.weight(row, at) for at in range(one.n_columns)] for row in range(one.n_rows)
            ]
            np.testing.assert_allclose(drawn, weights, atol=2 * one.largest / 255)
    return maps


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "bert", "bart", "mixtral", "deepseek-v3"])
def test_maps_hold_the_weights_of_each_attention(preset: str, tmp_path: Path) -> None:
    maps = maps_of(preset, tmp_path)
    places = {(one.stack, one.branch) for one in maps}
    if preset == "bart":
        assert places == {("encoder", "attention"), ("stack", "attention"), ("stack", "cross")}
    else:
        assert places == {("stack", "attention")}
    for one in maps:
        for row in range(one.n_rows):
            total = sum(one.weight(row, column) for column in range(one.n_columns))
            assert total == pytest.approx(1, abs=0.05)
    assert all(len(one.query_tokens) == one.n_queries for one in maps)


def test_cross_attention_has_tokens_of_the_source_as_keys(tmp_path: Path) -> None:
    cross = next(one for one in maps_of("bart", tmp_path) if one.branch == "cross")
    text = bytes(random_texts(1, T).texts[0].tokens).decode()
    assert (cross.n_queries, cross.n_keys) == (T // 2, T // 2)
    assert "".join(cross.key_tokens) == text[: T // 2]
    assert "".join(cross.query_tokens[1:]) == text[T // 2 : -1]


def test_the_outline_is_that_of_the_mask(tmp_path: Path) -> None:
    causal = maps_of("gpt2", tmp_path)[0]
    steps = {(row + 1, row, row + 1, row + 1) for row in range(T)}
    assert steps <= set(mask_edges(causal)) | {(T, T - 1, T, T)}
    assert (0, 0, 0, T) in set(mask_edges(causal))
    full = maps_of("bert", tmp_path / "full")[0]
    assert set(mask_edges(full)) == {(0, 0, T, 0), (0, T, T, T), (0, 0, 0, T), (T, 0, T, T)}


def test_long_texts_are_means_over_blocks(tmp_path: Path) -> None:
    n_tokens = 2 * MAX_SIDE
    one = maps_of("gpt2", tmp_path, n_tokens, 1)[0]
    assert (one.n_rows, one.n_columns, one.n_queries) == (MAX_SIDE, MAX_SIDE, n_tokens)
    assert one.query_tokens == ()
    assert one.sees(3, 3)
    assert not one.sees(3, 4)


def test_block_means_are_those_of_equal_blocks() -> None:
    n_tokens = 2 * MAX_SIDE
    values = torch.arange(n_tokens * 3.0).view(n_tokens, 3)
    means = block_means(values)
    assert means.shape == (MAX_SIDE, 3)
    torch.testing.assert_close(means[1], values[2:4].mean(0).double())


def test_numbers_are_spread_from_the_first_to_the_last() -> None:
    assert spread_numbers(12, 3) == [0, 6, 11]
    assert spread_numbers(2, 3) == [0, 1]
    assert spread_numbers(5, 1) == [0]


def test_no_maps_are_made_where_none_are_asked_for(tmp_path: Path) -> None:
    assert maps_of("gpt2", tmp_path, n_maps=0) == []


def test_maps_are_drawn_with_their_outline(tmp_path: Path) -> None:
    figure = attention_figure(maps_of("bart", tmp_path, n_maps=1))
    assert figure is not None
    assert [plot.spec["title"]["text"][0] for plot in figure.panels] == [
        "encoder",
        "decoder",
        "decoder",
    ]
    for content in plot_files(figure_plots([figure]), "svg").values():
        assert content.count(b"mark-rect") == 1
        assert b"mark-rule" in content
