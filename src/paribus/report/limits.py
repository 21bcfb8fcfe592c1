"""This does not show: what a reader might take from the page and should not."""

from __future__ import annotations

from collections.abc import Iterator

from paribus.analyse import name_of
from paribus.report.material import Material
from paribus.report.numbers import listed, scaled

MEASURED = {
    "halves": "the likelihood of the second half of held-out documents, given the first",
    "pairs": "the likelihood of held-out targets, given their sources",
    "pseudo": "the pseudo-likelihood of tokens of held-out documents, each masked in turn",
}


def limits(material: Material) -> list[str]:
    return list(_limits(material))


def _limits(material: Material) -> Iterator[str]:
    baseline = material.found.baseline
    work, stage = material.plan["arms"][baseline]["work"], material.stage(baseline)
    tokens = scaled(work["tokens_read"] * stage["training"]["n_steps"])
    size = scaled(material.plan["arms"][baseline]["price"]["parameters"])
    sources = listed(list(dict.fromkeys(source["kind"] for source in stage["corpus"]["sources"])))
    yield f"What happens at other sizes, or after more training: {size} parameters read {tokens} tokens."
    yield f"What happens on other text: all of it was {sources}."
    yield f"How good the text is that the arms write, or how well they do a task: measured was {measured(material)}."
    if material.found.rates is None:
        yield "What each arm can do at its own best learning rate: all trained at one."
    words = [arm.judgement.verdict.word for arm in material.found.arms]
    if "inconclusive" in words:
        yield "That arms are equal where the verdict is inconclusive: it says that these runs cannot tell."
    if material.found.margin is not None and any(word in ("better", "worse") for word in words):
        yield "That a difference matters: the margin is the design's own idea of what is large enough to."


def measured(material: Material) -> str:
    """The primary yardstick in words."""
    measure = material.plan["design"]["primary"]["measure"]
    return f"{MEASURED[measure['kind']]} ({name_of(measure)})"
