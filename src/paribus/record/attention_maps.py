"""Attention of one head on one text as a small picture: weights and mask, at most 48 × 48."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.files import MAX_ROWS_BYTES, read_text
from paribus.record.disk import replace

MAX_SIDE = 48  # squares: more take a browser too long
MAX_LEVEL = 255


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Mean weights over blocks of queries and keys, as levels of their square root: a weight is
    `largest` × (level / 255)². Square roots keep faint weights apart.
    """

    run: str  # of which it is
    stack: str  # stack or encoder
    branch: str  # attention or cross
    layer: int
    head: int
    n_queries: int
    n_keys: int
    n_rows: int  # blocks of queries
    n_columns: int  # blocks of keys
    largest: float  # the weight of the highest level
    levels: str  # base64 of a byte a block, row by row
    visible: str  # base64 of a byte a block: 1 where any pair of it is visible
    query_tokens: tuple[str, ...] = ()  # texts of tokens, where a block is one
    key_tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n_blocks = self.n_rows * self.n_columns
        if {len(self.level_bytes), len(self.visible_bytes)} != {n_blocks}:
            raise ValueError(f"levels and visible have no {n_blocks} bytes each")

    @cached_property
    def level_bytes(self) -> bytes:
        return base64.b64decode(self.levels, validate=True)

    @cached_property
    def visible_bytes(self) -> bytes:
        return base64.b64decode(self.visible, validate=True)

    def weight(self, row: int, column: int) -> float:
        """The mean weight of a block."""
        return self.largest * (self.level_bytes[row * self.n_columns + column] / MAX_LEVEL) ** 2

    def sees(self, row: int, column: int) -> bool:
        """Is any pair of a block visible? Nothing is outside of the map."""
        is_inside = 0 <= row < self.n_rows and 0 <= column < self.n_columns
        return is_inside and self.visible_bytes[row * self.n_columns + column] == 1


def write_attention_maps(path: Path, maps: Iterable[AttentionMap]) -> None:
    """One JSON object per line."""
    replace(path, "".join(json.dumps(asdict(one)) + "\n" for one in maps).encode())


def read_attention_maps(path: Path) -> list[AttentionMap]:
    """The maps of a file; RecordError where one cannot be read."""
    maps = []
    for number, line in enumerate(read_text(path, MAX_ROWS_BYTES).splitlines(), 1):
        try:
            maps.append(_read_map(json.loads(line)))
        except (TypeError, ValueError, KeyError) as fault:
            raise RecordError(
                f"{path} has no attention map in line {number}: {fault}; remove the file, and"
                " `paribus probe` writes it again"
            ) from None
    return maps


def _read_map(table: dict[str, Any]) -> AttentionMap:
    tokens = {name: tuple(table[name]) for name in ("query_tokens", "key_tokens")}
    return AttentionMap(**{**table, **tokens})
