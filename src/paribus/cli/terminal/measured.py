"""What a yardstick says of a run: one line, with what it would be by chance beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table

from paribus.evaluate import scored
from paribus.record import Evaluation
from paribus.report.numbers import plain, score

LEFT = ("yardstick", "label", "asked as")


def measured_table(made: Evaluation) -> Table:
    """A heading and a row; a pseudo-likelihood is called so, and an older record may have no chance beside it."""
    cells = _cells(made)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in cells:
        table.add_column(heading, justify="left" if heading in LEFT else "right", no_wrap=True)
    table.add_row(*cells.values())
    return table


def remarks(made: Evaluation) -> Iterator[str]:
    """What a person should know beside the numbers."""
    wanted, n_items = made.head.yardstick["n_items"], made.head.n_items
    if n_items < wanted:
        yield f"{wanted} items were asked for, and the held-out text has {n_items}"
    if made.head.n_cut:
        yield f"{made.head.n_cut} of {n_items} contexts are longer than the window and lost their beginnings"


def described(made: Evaluation) -> dict[str, Any]:
    """Everything but the single answers, for another program."""
    sums = scored(made.answers)
    return {
        **asdict(made.head),
        **asdict(sums),
        "bits_per_byte": _known(sums.bits_per_byte),
        "nats_sum": _known(sums.nats_sum),
    }


def _cells(made: Evaluation) -> dict[str, str]:
    head, sums = made.head, scored(made.answers)
    chance = None if head.unigram_nats is None else head.unigram_nats / math.log(2) / sums.n_bytes
    mode = head.part["mode"]
    return {
        "yardstick": str(head.yardstick["kind"]),
        "label": head.label,
        "asked as": str(head.part["objective"]["kind"]) + (f" ‹{mode}›" if mode else ""),
        "step": str(head.step + 1),
        "items": str(sums.n_items),
        "bytes": str(sums.n_bytes),
        "nats": plain(sums.nats_sum, 2),
        "bits per byte": score(sums.bits_per_byte),
        "unigram": score(chance),
        "contexts cut": str(head.n_cut),
    }


def _known(number: float) -> float | None:
    """JSON has no word for what is not finite."""
    return number if math.isfinite(number) else None
