"""Masks as small pictures in SVG: an arm's icons, and the gallery."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.masks import Rule, SameDocument, heads, leaves, outline, squares, step
from paribus.report.material import Material

SIDE = 16  # squares of a picture, each way
MAX_ICONS = 3  # of an arm


@dataclass(frozen=True)
class Picture:
    """One distinct mask: its rule in writing, the outline of what is visible, who has it, what the drawing assumes."""

    rule: str
    outline: str  # the `d` of a path over SIDE × SIDE
    note: str
    holders: tuple[str, ...]


@dataclass(frozen=True)
class Gallery:
    """Every mask of a study once, and which of them each arm has, by place."""

    pictures: tuple[Picture, ...]
    of_arm: dict[str, tuple[int, ...]]


def gallery(material: Material) -> Gallery:
    """The masks of all arms, in the order in which arms and layers have them."""
    holders: dict[Rule, dict[str, None]] = {}
    by_arm = {arm: _rules(material, arm) for arm in material.order}
    for arm, rules in by_arm.items():
        for where, rule in rules:
            holders.setdefault(rule, {})[f"{arm}{where}"] = None
    order = list(holders)
    pictures = tuple(Picture(str(rule), outline(_seen(rule)), _note(rule), tuple(holders[rule])) for rule in order)
    return Gallery(pictures, {arm: _places(rules, order) for arm, rules in by_arm.items()})


def _places(rules: list[tuple[str, Rule]], order: list[Rule]) -> tuple[int, ...]:
    return tuple(order.index(rule) for _, rule in rules)[:MAX_ICONS]


def _rules(material: Material, arm: str) -> list[tuple[str, Rule]]:
    """Each distinct rule of each stack of an arm, the encoder's first, as it reads first."""
    spec = material.spec(arm)
    stacks = {"": spec.stack} if spec.encoder is None else {", encoder": spec.encoder, ", decoder": spec.stack}
    return [
        (where, rule)
        for where, stack in stacks.items()
        for rule in dict.fromkeys(part for layer in stack.masks for part in heads(layer))
    ]


def _seen(rule: Rule) -> NDArray[np.bool_]:
    return squares(rule, SIDE, 0.5)


def _note(rule: Rule) -> str:
    notes = ["two documents"] if SameDocument() in leaves(rule) else []
    wide = step(rule, SIDE)
    return ", ".join(notes + ([f"a square is {wide} positions"] if wide > 1 else []))
