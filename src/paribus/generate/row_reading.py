"""What is read in one step of an engine: what answers said last, and a chunk of new contexts."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from paribus.generate.answer_rows import AnswerRows
from paribus.generate.running_answer import RunningAnswer

Logits = list[tuple[RunningAnswer, Tensor]]  # of each answer, [1, V]


def read_said(rows: AnswerRows) -> Logits:
    """Read what was said in the step before. Rows whose context is not read yet pause."""
    answers = list(rows.answers)
    n_tokens = []
    for row, answer in enumerate(answers):
        is_ready = answer.n_said > 0 and rows.n_left(row) == 1
        n_tokens.append(int(is_ready))
    if not any(n_tokens):
        return []
    logits_BV = rows.read(0, n_tokens)
    found = []
    for answer, logits_1V, n_own in zip(answers, logits_BV.split(1), n_tokens, strict=True):
        if n_own:
            found.append((answer, logits_1V))
    return found


def read_contexts(rows: AnswerRows, chunk: int, admit: Callable[[], bool]) -> Logits:
    """Read a chunk of the contexts that are new, the first ones first."""
    n_left, logits = chunk, []
    groups: list[tuple[int, list[int]]] = []  # consecutive rows, and how much is read of each
    for row in rows_to_read(rows):
        if n_left > 0:
            groups.append((row, [_n_part(rows, row, n_left)]))
            n_left -= groups[-1][1][0]
    n_rows = len(rows.answers)
    while n_left > 0 and admit():
        if len(rows.answers) == n_rows:
            continue  # what was admitted has no row
        n_own = _n_part(rows, n_rows, n_left)
        if groups and _may_join(groups[-1], n_rows, n_own):
            groups[-1][1].append(n_own)
        else:
            groups.append((n_rows, [n_own]))
        n_left -= n_own + _n_source_read(rows.answers[n_rows])
        n_rows += 1
    for first, n_tokens in groups:
        if not _read_group(rows, first, n_tokens, logits):
            break  # rows may have moved; the rest is read in the next step
    return logits


def rows_to_read(rows: AnswerRows) -> list[int]:
    """The rows whose context is not read to its end."""
    found = []
    for row, answer in enumerate(rows.answers):
        if answer.n_said == 0 and rows.n_left(row):
            found.append(row)
    return found


def _n_part(rows: AnswerRows, row: int, n_most: int) -> int:
    """How many tokens of a context are read now: as many as are left, but a two-way prefix
    is read to its end, and a new source is seen by the tokens that are read next.
    """
    n_left, answer = rows.n_left(row), rows.answers[row]
    n_before = len(answer.text) - n_left
    n_left = min(n_left, answer.n_until_next_source(n_before))
    return max(min(n_left, n_most), answer.prefix - n_before)


def _n_source_read(answer: RunningAnswer) -> int:
    """How many tokens an answer with sources has to read, when it got its row."""
    if not answer.sources:
        return 0
    return answer.handle.n_read_tokens


def _read_group(rows: AnswerRows, first: int, n_tokens: list[int], logits: Logits) -> bool:
    """Read parts of some contexts at once; those that are read to their end get logits. False
    if that failed, which ends them.
    """
    answers = rows.answers[first : first + len(n_tokens)]
    try:
        logits_BV = rows.read(first, n_tokens)
    except Exception as fault:  # whatever it is, others go on
        for answer in answers:
            answer.handle.finish("error", fault)
            rows.leave(answer)
        return False
    for place, (answer, logits_1V) in enumerate(zip(answers, logits_BV.split(1), strict=True)):
        if not rows.n_left(first + place):
            logits.append((answer, logits_1V))
    return True


def _may_join(group: tuple[int, list[int]], row: int, n_tokens: int) -> bool:
    """Is a row the next of a group that is read at once, with less padding than tokens?"""
    first, others = group
    together = [*others, n_tokens]
    return first + len(others) == row and len(together) * max(together) <= 2 * sum(together)
