"""This does not show: what a reader might take from the page and should not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from paribus.analyse import name_of
from paribus.report.contrasts import undeclared
from paribus.report.material import Material
from paribus.report.numbers import count, listed

MEASURED = {
    "halves": "the likelihood of the second half of held-out documents, given the first",
    "pairs": "the likelihood of held-out targets, given their sources",
    "pseudo": "the pseudo-likelihood of tokens of held-out documents, each masked in turn",
}


SOURCES = {
    "python-docs": "the documentation of Python and its installed libraries",
    "python-code": "the source code of Python and its installed libraries",
    "python-summaries": "functions of Python and its installed libraries, each with the first line of its docstring",
    "files": "text from the files", "pairs": "pairs from the files",
}  # fmt: skip


ANONYMOUS = {"files": "text from files", "pairs": "pairs from files"}


def limits(material: Material) -> list[str]:
    return list(_limits(material))


def _limits(material: Material) -> Iterator[str]:
    baseline = material.found.baseline
    work, stage = material.plan.arms[baseline].work, material.stage(baseline)
    tokens = count(work.tokens_read * stage.training.n_steps)
    sizes = [material.plan.arms[arm].price.parameters for arm in material.order]
    size = " to ".join(dict.fromkeys((count(min(sizes)), count(max(sizes)))))
    yield f"What happens at other sizes, or after more training: {size} parameters read {tokens} tokens."
    yield f"What happens on other text: all of it was {sources_read(material, baseline)}."
    yield f"How good the text is that the arms write, or how well they do a task: measured was {measured(material)}."
    if material.found.rates is None:
        at = "all trained at one" if material.one_rate else "each trained at the rate written for it"
        yield f"What each arm can do at its own best learning rate: {at}."
    silent = undeclared(material)
    if silent:
        yield silent
    words = [arm.judgement.verdict.word for arm in material.found.arms]
    words += [one.word for one in material.found.contrasts]
    if "inconclusive" in words:
        yield "That arms are equal where the verdict is inconclusive: it says that these runs cannot tell."
    if material.found.margin is not None and any(word in ("better", "worse") for word in words):
        yield "That a difference matters: the margin is the design's own idea of what is large enough to."


def sources_read(material: Material, arm: str) -> str:
    """What an arm was trained on, in words."""
    sources = material.stage(arm).corpus.sources
    return listed(list(dict.fromkeys(_source(source.table, material) for source in sources)))


def _source(source: Mapping[str, Any], material: Material) -> str:
    """A source in words; an anonymous page names no file."""
    if not material.anonymous:
        return source_words(source)
    return ANONYMOUS.get(source["kind"], source_words({"kind": source["kind"]}))


def source_words(source: Mapping[str, Any]) -> str:
    """A source of text in words: what it is, and the last part of where it lies."""
    words = SOURCES.get(source["kind"], f"an invented language ({source['kind']})")
    names = [PurePath(path.replace("\\", "/")).name for path in source.get("paths", ())]
    return f"{words} {listed(names)}" if names else words


def measured(material: Material) -> str:
    """The primary yardstick in words."""
    measure = material.plan.design.primary.measure.table
    return f"{MEASURED.get(measure['kind'], measure['kind'])} ({name_of(measure)})"
