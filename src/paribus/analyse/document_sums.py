"""Answers summed by document: items of one document are no independent evidence."""

import math

from paribus.record import Evaluation


def document_sums(evaluation: Evaluation) -> dict[str, tuple[float, int]]:
    """Document → bits and bytes of its targets; an item without a document is one of its own."""
    sums: dict[str, tuple[float, int]] = {}
    for answer in evaluation.answers:
        name = answer.document or answer.item
        bits, n_bytes = sums.get(name, (0.0, 0))
        sums[name] = bits + answer.nats / math.log(2), n_bytes + answer.n_bytes
    return sums
