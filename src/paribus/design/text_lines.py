"""Bytes and epochs in the control table, where a budget of tokens decides how much text each
arm reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from paribus.analyse import TextDifference, TextRead, text_differences
from paribus.analyse.text_read import LARGE_DIFFERENCE, TOKEN_BUDGETS
from paribus.record import ControlLine, Mark
from paribus.spec.design import ArmPair

BYTES_LINE, EPOCHS_LINE = "bytes_read in all", "epochs"
CHOSEN_NOTE = "by the budget chosen"


def mark_text_lines(
    lines: Iterable[ControlLine],
    budget: str | None,
    pairs: Sequence[ArmPair],
    reads: Mapping[str, TextRead],
    allow: Mapping[str, str],
) -> tuple[ControlLine, ...]:
    """Control lines with a mark and a note on the text that a budget of tokens left unequal.

    `allow` has the names of the table. An allowance of bytes or of epochs is one of the text, and
    lets both pass.
    """
    if budget not in TOKEN_BUDGETS:
        return tuple(lines)
    differences = text_differences(budget, pairs, reads)
    allowance = allow.get(BYTES_LINE, allow.get(EPOCHS_LINE))
    marked_lines = []
    for line in lines:
        if line.path in (BYTES_LINE, EPOCHS_LINE):
            marked_lines.append(_mark_line(line, differences, allowance))
        else:
            marked_lines.append(line)
    return tuple(marked_lines)


def _mark_line(
    line: ControlLine, differences: Sequence[TextDifference], allowance: str | None
) -> ControlLine:
    if line.mark == Mark.EQUAL:
        return line
    if any(one.is_confound for one in differences):
        return replace(
            line, mark=Mark.CONFOUND, note=_note(line.path, differences), allowed=allowance
        )
    return replace(line, mark=Mark.MATCHED, note=_note(line.path, differences))


def _note(path: str, differences: Sequence[TextDifference]) -> str:
    """The difference of each judged pair that is large, with the steps that would make bytes
    equal; or the largest.
    """
    large, most = [], 0.0
    for one in differences:
        share = _difference(path, one)
        most = max(most, abs(share))
        if one.is_large:
            pair = f"{one.arm} against {one.against}"
            large.append(f"{pair} {_describe_share(share)} {_describe_reason(path, one)}")
    if large:
        return "; ".join(large)
    return f"differs by {most:.2%} at most, {CHOSEN_NOTE}"


def _difference(path: str, one: TextDifference) -> float:
    if path == BYTES_LINE:
        return one.bytes_difference
    return one.epochs_difference


def _describe_share(share: float) -> str:
    """How much more, such as "+12.0%"; from ten times as much on how many times as much."""
    return f"{share:+.1%}" if share < 9 else f"{1 + share:.3g} ×"


def _describe_reason(path: str, one: TextDifference) -> str:
    if path == EPOCHS_LINE and abs(one.bytes_difference) <= LARGE_DIFFERENCE:
        return "by the length of its text, of which it reads as many bytes"
    return f"{CHOSEN_NOTE}, {_describe_steps(one)}"


def _describe_steps(one: TextDifference) -> str:
    if one.steps_for_equal_bytes == one.n_steps:
        return "bytes are as equal as whole steps come"
    return f"equal bytes would give it {one.steps_for_equal_bytes} steps"


def describe_text_confounds(lines: Iterable[ControlLine]) -> tuple[str, ...]:
    """The difference in text that could have been avoided and is not allowed, in three beats.

    Epochs differ with bytes, and are not told again.
    """
    problems = []
    for line in lines:
        is_confound = line.mark == Mark.CONFOUND and line.allowed is None
        if line.path == BYTES_LINE and is_confound:
            problems.append(
                f"{line.path} is {_describe_values(line)}, but corpus, tokenizer and objective of"
                f" the last stage are equal, so the text could be equal too ({line.note}); use"
                " budget = 'bytes_read', or list bytes_read under allow with a reason"
            )
    return tuple(problems)


def _describe_values(line: ControlLine) -> str:
    return ", ".join(f"{value} in {arm}" for arm, value in line.values.items())
