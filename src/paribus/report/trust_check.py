"""One thing that a verdict rests on, with its mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TrustMark = Literal["yes", "mind", "no"]


@dataclass(frozen=True)
class TrustCheck:
    """One thing the verdict rests on: fine, to be kept in mind, or broken."""

    name: str
    mark: TrustMark
    text: str


def yes_unless(doubtful: bool) -> TrustMark:
    """`yes`, or `mind` where there is something to keep in mind."""
    if doubtful:
        return "mind"
    return "yes"
