"""Masks as small pictures in SVG: an arm's icons, and the gallery."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paribus.masks import (
    DOCUMENT_RULES,
    Rule,
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
    by_arm: dict[str, list[tuple[str, Rule]]] = {}
    for arm in report.order:
        by_arm[arm] = list(_distinct_rules(report, arm))
        for where, rule in by_arm[arm]:
            holders.setdefault(rule, {})[f"{arm}{where}"] = None
    order = list(holders)
    pictures = [_mask_picture(rule, tuple(names)) for rule, names in holders.items()]
    of_arm = {arm: _picture_numbers(rules, order) for arm, rules in by_arm.items()}
    return MaskGallery(tuple(pictures), of_arm)


def _mask_picture(rule: Rule, holders: tuple[str, ...]) -> MaskPicture:
    outline = svg_path(coarse_mask(rule, SIDE, 0.5))
    return MaskPicture(rule=str(rule), outline=outline, note=_note(rule), holders=holders)


def _picture_numbers(rules: list[tuple[str, Rule]], order: list[Rule]) -> tuple[int, ...]:
    return tuple(order.index(rule) for _, rule in rules[:MAX_ICONS])


def _distinct_rules(report: ReportData, arm: str) -> Iterator[tuple[str, Rule]]:
    """Each distinct rule of each stack of an arm, the encoder's first, as it reads first."""
    spec = report.resolved_architecture(arm)
    if spec.encoder is None:
        stacks = {"": spec.stack}
    else:
        stacks = {", encoder": spec.encoder, ", decoder": spec.stack}
    for where, stack in stacks.items():
        rules: dict[Rule, None] = {}
        for layer in stack.masks:
            rules |= dict.fromkeys(head_rules(layer))
        for rule in rules:
            yield where, rule


def _note(rule: Rule) -> str:
    """What the drawing of a mask assumes."""
    notes: list[str] = []
    if leaves(rule) & DOCUMENT_RULES:
        notes.append("two documents")
    stride = coarse_stride(rule, SIDE)
    if stride > 1:
        notes.append(f"a square is {stride} positions")
    return ", ".join(notes)
