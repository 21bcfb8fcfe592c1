"""Answers summed by document: items of one document are no independent evidence."""

from paribus.analyse.run_scores import Answers, item_totals


def document_sums(answers: Answers) -> dict[str, tuple[float, float]]:
    """Document → bits and bytes of its targets, or score and count of its items; an item without a
    document is one of its own.
    """
    sums: dict[str, tuple[float, float]] = {}
    for one in item_totals(answers):
        total, count = sums.get(one.document, (0.0, 0))
        sums[one.document] = total + one.total, count + one.count
    return sums
