"""What a budget of tokens left unequal: the bytes and epochs that each judged pair read, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.analyse import TextDifference, TextRead, text_differences
from paribus.analyse.text_read import LARGE, epochs_of
from paribus.record.plan import ArmRecord
from paribus.report.material import Material
from paribus.report.numbers import FEW, percent

DIFFERS = "differs by the budget chosen"


def text_words(material: Material) -> str:
    """The text of every judged pair that differs by more than 2 %; empty where none does, or by no such budget."""
    large = sorted((one for one in _differences(material) if one.is_large), key=_size, reverse=True)
    if not large:
        return ""
    budget = str(material.plan.design.budget).replace("_", " ")
    more = f" So it is in {len(large) - FEW} more comparisons; the control table lists all." if large[FEW:] else ""
    return f"Text {DIFFERS} ({budget}). {' '.join(_sentence(one, material) for one in large[:FEW])}{more}"


def _differences(material: Material) -> tuple[TextDifference, ...]:
    plan, written = material.plan, epochs_line(material)
    if written is None:
        return ()
    reads = {arm: _read(plan.arms[arm], str(written[arm])) for arm in material.order}
    pairs = [(arm.name, arm.against) for arm in material.found.arms]
    pairs = pairs or [(arm, material.found.baseline) for arm in material.order[1:]]  # where contrasts are judged
    return text_differences(plan.design.budget, pairs, reads)


def epochs_line(material: Material) -> Mapping[str, Any] | None:
    """Arm → its epochs, as the control table writes them."""
    lines = (line.values for line in material.plan.control if line.path == "epochs")
    return next(lines, None)


def _read(arm: ArmRecord, epochs: str) -> TextRead:
    question = (arm.stage.corpus.table, arm.stage.objective)
    return TextRead(arm.n_steps, arm.work.bytes_read * arm.n_steps, epochs_of(epochs), question)


def _size(one: TextDifference) -> float:
    return max(abs(one.n_bytes), abs(one.epochs))


def _sentence(one: TextDifference, material: Material) -> str:
    epochs = epochs_line(material) or {}
    said = f"{_bytes(one)}, and the training text {epochs[one.arm]} times against {epochs[one.against]}."
    if one.equal_steps == one.n_steps:
        return f"{said} Its bytes are as equal as whole steps come."
    return f"{said} Equal bytes would give it {one.equal_steps} steps, not {one.n_steps}."


def _bytes(one: TextDifference) -> str:
    if abs(one.n_bytes) <= LARGE:
        return f"{one.arm} reads about as many bytes as {one.against}"
    fewer = "fewer" if one.n_bytes < 0 else "more"
    return f"{one.arm} reads {percent(abs(one.n_bytes))} {fewer} bytes than {one.against}"
