"""Masks drawn in text: squares in half blocks, icons in braille, `#` and `.` where neither can be written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.cli.terminal.spelling import spans
from paribus.masks import Rule, SameDocument, at_head, drawing, leaves, squares, step
from paribus.spec import Stack

Bools = NDArray[np.bool_]
SIDE = 16  # squares of a picture, each way
_HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille: four rows of two


@dataclass(frozen=True)
class Panel:
    """One distinct rule of a stack: which layers and heads have it, and how it looks."""

    where: str
    rule: Rule
    step: int  # positions a square stands for
    squares: Bools

    @property
    def note(self) -> str:
        """What the drawing assumes."""
        notes = ["two documents"] if SameDocument() in leaves(self.rule) else []
        return ", ".join(notes + ([f"a square is {self.step} positions"] if self.step > 1 else []))


def panels(stack: Stack, name: str, prefix_share: float) -> list[Panel]:
    """Every distinct rule of a stack's layers and heads, drawn."""
    n_heads = stack.layers[0].attention.n_heads
    layers: dict[Rule, list[int]] = {}
    for number, rule in enumerate(stack.masks):
        layers.setdefault(rule, []).append(number)
    return [
        Panel(f"{name} {spans(numbers)}{heads}", part, step(part, SIDE), squares(part, SIDE, prefix_share))
        for rule, numbers in layers.items()
        for part, heads in _heads(rule, n_heads).items()
    ]


def picture(seen: Bools, ascii_only: bool) -> str:
    """Two rows of squares to a line, in a frame."""
    if ascii_only:
        return drawing(seen)
    edge = "─" * seen.shape[1]
    lines = ("".join(_HALVES[bool(a), bool(b)] for a, b in zip(*pair, strict=True)) for pair in _paired(seen))
    return "\n".join([f"┌{edge}┐", *(f"│{line}│" for line in lines), f"└{edge}┘"])


def icon(seen: Bools) -> str:
    """Four rows to a line, two columns to a character."""
    blocks = (seen[:4, start : start + 2] for start in range(0, seen.shape[1], 2))
    return "".join(chr(0x2800 + int((np.array(_DOTS) * block).sum())) for block in blocks)


def icons(stack: Stack, prefix_share: float) -> str:
    """An icon for each distinct rule of a stack, at most three."""
    rules = dict.fromkeys(panel.rule for panel in panels(stack, "", prefix_share))
    drawn = [icon(squares(rule, 4, prefix_share)) for rule in rules]
    return " ".join(drawn[:3] + ["…"] * (len(drawn) > 3))


def _heads(rule: Rule, n_heads: int) -> dict[Rule, str]:
    found: dict[Rule, list[int]] = {}
    for head in range(n_heads):
        found.setdefault(at_head(rule, head, n_heads), []).append(head)
    return {part: f", heads {spans(numbers)}" if len(found) > 1 else "" for part, numbers in found.items()}


def _paired(seen: Bools) -> zip[tuple[Bools, Bools]]:
    return zip(seen[::2], seen[1::2], strict=True)
