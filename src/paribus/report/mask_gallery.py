"""Masks as small pictures in SVG: an arm's icons, and the gallery."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.masks import (
    Rule,
    SameDocument,
    coarse_mask,
    coarse_stride,
    head_rules,
    leaves,
    svg_path,
)
from paribus.report.report_data import ReportData

SIDE = 16  # squares of a picture, each way
MAX_ICONS = 3  # of an arm


@dataclass(frozen=True)
class MaskPicture:
    """One distinct mask: its rule in writing, the outline of what is visible, who has it, what
    the drawing assumes.
    """

    rule: str
    outline: str  # the `d` of a path over SIDE × SIDE
    note: str
    holders: tuple[str, ...]


@dataclass(frozen=True)
class MaskGallery:
    """Every mask of a study once, and which of them each arm has, by place."""

    pictures: tuple[MaskPicture, ...]
    of_arm: dict[str, tuple[int, ...]]


def mask_gallery(report: ReportData) -> MaskGallery:
    """The masks of all arms, in the order in which arms and layers have them."""
    holders: dict[Rule, dict[str, None]] = {}
    by_arm = {arm: _distinct_rules(report, arm) for arm in report.order}
    for arm, rules in by_arm.items():
        for where, rule in rules:
            holders.setdefault(rule, {})[f"{arm}{where}"] = None
    order = list(holders)
    pictures = tuple(
        MaskPicture(str(rule), svg_path(_visible_squares(rule)), _note(rule), tuple(holders[rule]))
        for rule in order
    )
    return MaskGallery(
        pictures, {arm: _picture_numbers(rules, order) for arm, rules in by_arm.items()}
    )


def _picture_numbers(rules: list[tuple[str, Rule]], order: list[Rule]) -> tuple[int, ...]:
    return tuple(order.index(rule) for _, rule in rules)[:MAX_ICONS]


def _distinct_rules(report: ReportData, arm: str) -> list[tuple[str, Rule]]:
    """Each distinct rule of each stack of an arm, the encoder's first, as it reads first."""
    spec = report.spec(arm)
    if spec.encoder is None:
        stacks = {"": spec.stack}
    else:
        stacks = {", encoder": spec.encoder, ", decoder": spec.stack}
    return [
        (where, rule)
        for where, stack in stacks.items()
        for rule in dict.fromkeys(part for layer in stack.masks for part in head_rules(layer))
    ]


def _visible_squares(rule: Rule) -> NDArray[np.bool_]:
    return coarse_mask(rule, SIDE, 0.5)


def _note(rule: Rule) -> str:
    notes = ["two documents"] if SameDocument() in leaves(rule) else []
    wide = coarse_stride(rule, SIDE)
    return ", ".join(notes + ([f"a square is {wide} positions"] if wide > 1 else []))
