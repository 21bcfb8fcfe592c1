"""Bytes and epochs in the control table, where a budget of tokens decides how much text each arm reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from paribus.analyse import TextDifference, TextRead, text_differences
from paribus.analyse.text_read import TOKEN_BUDGETS
from paribus.record import ControlLine, Mark
from paribus.spec.design import Pair

BYTES, EPOCHS = "bytes_read in all", "epochs"
CHOSEN = "by the budget chosen"


def with_text_read(
    lines: Iterable[ControlLine],
    budget: str | None,
    pairs: Sequence[Pair],
    reads: Mapping[str, TextRead],
    allow: Mapping[str, str],
) -> tuple[ControlLine, ...]:
    """The same lines, with a mark and a note on the text that a budget of tokens left unequal.

    `allow` has the names of the table. An allowance of bytes or of epochs is one of the text, and lets both pass.
    """
    if budget not in TOKEN_BUDGETS:
        return tuple(lines)
    found = text_differences(budget, pairs, reads)
    allowed = allow.get(BYTES, allow.get(EPOCHS))
    return tuple(_marked(line, found, allowed) if line.path in (BYTES, EPOCHS) else line for line in lines)


def _marked(line: ControlLine, found: Sequence[TextDifference], allowed: str | None) -> ControlLine:
    if line.mark == Mark.EQUAL:
        return line
    if any(one.is_confound for one in found):
        return replace(line, mark=Mark.CONFOUND, note=_note(line.path, found), allowed=allowed)
    return replace(line, mark=Mark.MATCHED, note=_note(line.path, found))


def _note(path: str, found: Sequence[TextDifference]) -> str:
    """The difference of each judged pair that is large, with the steps that would make bytes equal; or the largest."""
    large = [one for one in found if one.is_large]
    if large:
        return "; ".join(f"{_pair(one)} {_difference(path, one):+.1%} {CHOSEN}, {_steps(one)}" for one in large)
    most = max((abs(_difference(path, one)) for one in found), default=0.0)
    return f"differs by {most:.2%} at most, {CHOSEN}"


def _difference(path: str, one: TextDifference) -> float:
    return one.n_bytes if path == BYTES else one.epochs


def _pair(one: TextDifference) -> str:
    return f"{one.arm} against {one.against}"


def _steps(one: TextDifference) -> str:
    if one.equal_steps == one.n_steps:
        return "bytes are as equal as whole steps come"
    return f"equal bytes would give it {one.equal_steps} steps"


def text_confounds(lines: Iterable[ControlLine]) -> tuple[str, ...]:
    """The difference in text that could have been avoided and is not allowed, in three beats.

    Epochs differ with bytes, and are not told again.
    """
    return tuple(
        f"{line.path} is {_values(line)}, but corpus, tokenizer and objective are equal, and so could the text be "
        f"({line.note}); use budget = 'bytes_read', or list bytes_read under allow with a reason"
        for line in lines
        if line.path == BYTES and line.mark == Mark.CONFOUND and line.allowed is None
    )


def _values(line: ControlLine) -> str:
    return ", ".join(f"{value} in {arm}" for arm, value in line.values.items())
