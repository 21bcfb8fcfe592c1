"""What a yardstick says of a run: one line, with what it would be by chance beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table

from paribus.cli.terminal.console import justify_method
from paribus.evaluate import answer_totals
from paribus.record import Evaluation
from paribus.report.numbers import format_plain, score

LEFT_ALIGNED = ("yardstick", "label", "objective")


def evaluation_table(evaluation: Evaluation) -> Table:
    """A heading and a row; a pseudo-likelihood is called so, and an older record may have no
    chance beside it.
    """
    cells = _evaluation_cells(evaluation)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in cells:
        justify = justify_method(heading not in LEFT_ALIGNED)
        table.add_column(heading, justify=justify, no_wrap=True)
    table.add_row(*cells.values())
    return table


def evaluation_remarks(evaluation: Evaluation) -> Iterator[str]:
    """What a person should know beside the numbers."""
    n_wanted, n_items = evaluation.head.yardstick["n_items"], evaluation.head.n_items
    if n_items < n_wanted:
        yield f"{n_wanted} items were asked for, but the held-out text has only {n_items}"
    if evaluation.head.n_truncated:
        yield (
            f"{evaluation.head.n_truncated} of {n_items} contexts are longer than the window and"
            " lost their beginnings"
        )
    if is_untrained(evaluation):
        yield (
            "untrained: it does worse than a unigram model over its own tokens, which sees no"
            " context; its weights are random, or it was trained on text of another kind"
        )


def is_untrained(evaluation: Evaluation) -> bool:
    """Is a model worse than what is known by how often each of its tokens comes? Older records do
    not say.
    """
    unigram = evaluation.head.unigram_nats
    return unigram is not None and answer_totals(evaluation.answers).nats_sum > unigram


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Everything but the single answers, for another program."""
    sums = answer_totals(evaluation.answers)
    return {
        **asdict(evaluation.head),
        **asdict(sums),
        "bits_per_byte": _finite_or_none(sums.bits_per_byte),
        "nats_sum": _finite_or_none(sums.nats_sum),
        "untrained": is_untrained(evaluation),
    }


def _evaluation_cells(evaluation: Evaluation) -> dict[str, str]:
    head, sums = evaluation.head, answer_totals(evaluation.answers)
    if head.unigram_nats is None:
        chance = None
    else:
        chance = head.unigram_nats / math.log(2) / sums.n_bytes
    objective, mode = str(head.component["objective"]["kind"]), head.component["mode"]
    if mode:
        objective += f" ‹{mode}›"
    return {
        "yardstick": str(head.yardstick["kind"]),
        "label": head.label,
        "objective": objective,
        "step": str(head.step + 1),
        "items": str(sums.n_items),
        "bytes": str(sums.n_bytes),
        "nats": format_plain(sums.nats_sum, 2),
        "bits per byte": score(sums.bits_per_byte),
        "unigram": score(chance),
        "contexts cut": str(head.n_truncated),
    }


def _finite_or_none(number: float) -> float | None:
    """JSON has no word for what is not finite."""
    if math.isfinite(number):
        return number
    return None
