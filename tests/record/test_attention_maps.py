"""Attention maps on disk."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record.attention_maps import AttentionMap, read_attention_maps, write_attention_maps


def encode(*values: int) -> str:
    return base64.b64encode(bytes(values)).decode()


MAP = AttentionMap(
    run="first",
    stack="stack",
    branch="attention",
    layer=1,
    head=0,
    n_queries=2,
    n_keys=3,
    n_rows=2,
    n_columns=3,
    largest=0.5,
    levels=encode(255, 0, 0, 51, 102, 0),
    visible=encode(1, 0, 0, 1, 1, 0),
    query_tokens=("a", "\x1e|"),
)


def test_maps_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_attention_maps(tmp_path / "maps.jsonl", [MAP, MAP])
    assert read_attention_maps(tmp_path / "maps.jsonl") == [MAP, MAP]


def test_a_level_is_the_square_root_of_a_weight() -> None:
    assert MAP.weight(0, 0) == 0.5
    assert MAP.weight(1, 0) == pytest.approx(0.5 * 0.2**2)
    assert MAP.weight(1, 1) == pytest.approx(0.5 * 0.4**2)


def test_nothing_is_seen_outside() -> None:
    assert MAP.sees(1, 1)
    assert not MAP.sees(1, 2)
    assert not MAP.sees(-1, 0)
    assert not MAP.sees(0, 3)


def test_a_map_of_another_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "maps.jsonl"
    write_attention_maps(path, [MAP])
    path.write_text(path.read_text().replace('"n_rows": 2', '"n_rows": 3'))
    with pytest.raises(RecordError, match="no attention map in line 1: levels and visible have no"):
        read_attention_maps(path)
