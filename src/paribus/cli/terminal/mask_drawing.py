"""Masks drawn in text: squares in half blocks, icons in braille, `#` and `.` where neither can
be written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.cli.terminal.field_format import format_ranges
from paribus.masks import (
    DOCUMENT_RULES,
    Rule,
    coarse_mask,
    coarse_stride,
    leaves,
    mask_text,
    rule_at_head,
)
from paribus.spec import Stack

BoolArray = NDArray[np.bool_]
SIDE = 16  # squares of a picture, each way
_HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille: four rows of two


@dataclass(frozen=True)
class MaskPanel:
    """One distinct rule of a stack: which layers and heads have it, and how it looks."""

    where: str
    rule: Rule
    step: int  # positions a square stands for
    squares: BoolArray

    @property
    def note(self) -> str:
        """What the drawing assumes."""
        notes: list[str] = []
        if leaves(self.rule) & DOCUMENT_RULES:
            notes.append("two documents")
        if self.step > 1:
            notes.append(f"a square is {self.step} positions")
        return ", ".join(notes)


def mask_panels(stack: Stack, name: str, prefix_share: float) -> list[MaskPanel]:
    """Every distinct rule of a stack's layers and heads, drawn."""
    n_heads = stack.layers[0].attention.n_heads
    layers: dict[Rule, list[int]] = {}
    for number, rule in enumerate(stack.masks):
        layers.setdefault(rule, []).append(number)
    panels: list[MaskPanel] = []
    for rule, numbers in layers.items():
        for part, heads in _head_labels(rule, n_heads).items():
            where = f"{name} {format_ranges(numbers)}{heads}"
            squares = coarse_mask(part, SIDE, prefix_share)
            panels.append(MaskPanel(where, part, coarse_stride(part, SIDE), squares))
    return panels


def draw_mask(visible: BoolArray, ascii_only: bool) -> str:
    """Two rows of squares to a line, in a frame."""
    if ascii_only:
        return mask_text(visible)
    edge = "─" * visible.shape[1]
    lines = [f"┌{edge}┐"]
    for upper, lower in _row_pairs(visible):
        squares = "".join(
            _HALVES[pair] for pair in zip(upper.tolist(), lower.tolist(), strict=True)
        )
        lines.append(f"│{squares}│")
    return "\n".join([*lines, f"└{edge}┘"])


def draw_icon(visible: BoolArray) -> str:
    """Four rows to a line, two columns to a character."""
    blocks = (visible[:4, start : start + 2] for start in range(0, visible.shape[1], 2))
    return "".join(chr(0x2800 + int((np.array(_DOTS) * block).sum())) for block in blocks)


def draw_icons(stack: Stack, prefix_share: float) -> str:
    """An icon for each distinct rule of a stack, at most three."""
    rules = dict.fromkeys(panel.rule for panel in mask_panels(stack, "", prefix_share))
    icons = [draw_icon(coarse_mask(rule, 4, prefix_share)) for rule in rules]
    if len(icons) > 3:
        icons[3:] = ["…"]
    return " ".join(icons)


def _head_labels(rule: Rule, n_heads: int) -> dict[Rule, str]:
    heads_by_rule: dict[Rule, list[int]] = {}
    for head in range(n_heads):
        heads_by_rule.setdefault(rule_at_head(rule, head, n_heads), []).append(head)
    if len(heads_by_rule) == 1:
        return dict.fromkeys(heads_by_rule, "")
    return {own: f", heads {format_ranges(heads)}" for own, heads in heads_by_rule.items()}


def _row_pairs(visible: BoolArray) -> zip[tuple[BoolArray, BoolArray]]:
    return zip(visible[::2], visible[1::2], strict=True)
