"""The report as Markdown, and its result as a LaTeX table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from paribus.analyse import Verdict, name_of
from paribus.analyse.findings import UNIT, Arm
from paribus.report.alike import otherwise
from paribus.report.behind import heading, numbers_behind
from paribus.report.contrasts import HEADING, SCALE, contrast_lines, contrasts, typeset_contrasts
from paribus.report.early import TITLE, early_words
from paribus.report.intervals import decided_cell, digits_of
from paribus.report.limits import limits, measured
from paribus.report.material import Material
from paribus.report.methods import (
    HYPERPARAMETERS,
    METHODS,
    behind_caption,
    hyperparameter_caption,
    hyperparameter_tables,
    methods,
    results_caption,
)
from paribus.report.noise import HEADING as NOISE_HEADING
from paribus.report.noise import METHOD, noise_lines, noise_words
from paribus.report.noise import TITLE as NOISE
from paribus.report.numbers import MINUS, percent_level, signed
from paribus.report.overview import headings, overview, tally
from paribus.report.positive_control import control_sentence
from paribus.report.prices import costs, costs_by_arm
from paribus.report.series import series_words
from paribus.report.tables import OTHER_HEADING, others, summary
from paribus.report.text_read import text_words
from paribus.report.trust import allowed_confounds, grounds
from paribus.report.verdicts import advice_on, fresh_seeds, verdicts

BRIEF = {
    "unstable": "unstable",
    "withheld": "withheld",
    "no verdict": "no verdict (not trained long enough)",
}  # in a typeset table
MARKS = {"yes": "✓", "mind": "!", "no": "✗"}
_CODE = re.compile(r"`([^`]*)`")  # a command within a sentence
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", MINUS: "$-$", "–": "--", "±": r"$\pm$", "<": r"\textless{}",
    ">": r"\textgreater{}", "β": r"$\beta$", "ε": r"$\epsilon$", "×": r"$\times$", "…": r"\ldots{}",
    "|": r"\textbar{}",
}  # fmt: skip


def markdown(material: Material) -> str:
    """The first screen of the page and the numbers behind it, for a repository or an issue."""
    return "\n".join(_markdown(material)) + "\n"


def _markdown(material: Material) -> Iterator[str]:
    yield f"# {_plain(material.plan.question)}\n"
    if material.found.reading:
        yield f"{_plain(material.found.reading)}.\n"
    yield from (f"{_plain(one)}\n" for one in series_words(material))
    lock = material.found.lock
    if lock is not None and not lock.as_planned:
        yield f"**Not as planned:** {_plain(lock.words)}.\n"
    if material.found.agreement.changed:
        yield f"**No verdict:** {_plain(material.found.agreement.words)}.\n"
    text = text_words(material)
    if text:
        yield f"{_plain(text)}\n"
    for one in contrasts(material):
        yield f"**{_plain(one.headline)}**"
        numbers = f"{one.numbers.capitalize()}." if one.numbers else ""
        yield _plain(" ".join(filter(None, (numbers, one.meaning, one.advice)))) + "\n"
    briefs = overview(material)
    if briefs:
        yield f"{_plain(tally(briefs, material))}\n"
        columns = headings(briefs, material)
        yield from _table(columns, [one.cells[: len(columns)] for one in briefs])
        yield ""
    for one in verdicts(material):
        control = " (the positive control)" if one.is_control else ""
        yield f"**{_plain(one.headline)}**{control}"
        numbers = f"{one.numbers.capitalize()}." if one.numbers else ""
        yield _plain(" ".join(filter(None, (one.failures, numbers, one.meaning, one.compute, one.advice)))) + "\n"
    control = control_sentence(material)
    if control:
        yield f"{_plain(control)}\n"
    fresh = fresh_seeds(material)
    if fresh:
        yield f"{_with_code(fresh)}\n"
    yield f"Measured: {_plain(measured(material))}, in {UNIT}. Margin: {_plain(material.found.margin_words)}.\n"
    yield "## Can I trust it?\n"
    yield from (f"- {MARKS[one.mark]} **{_plain(one.name)}.** {_plain(one.text)}" for one in grounds(material))
    yield "\n## Same verdict if …\n"
    lines = [(one.by, one.arm or "all", one.same, one.text) for one in otherwise(material)]
    yield from _table(("made equal in", "arm", "same verdict?", ""), lines)
    yield "\n## What each arm costs\n"
    yield from _costs(material)
    yield "\n## This does not show\n"
    yield from (f"- {_plain(one)}" for one in limits(material))
    behind = numbers_behind(material)
    if behind:
        yield f"\n## The numbers behind the verdict\n\n*{_plain(behind_caption(material))}*\n"
        yield from _table(heading(material), behind)
    lines = noise_lines(material)
    if lines:
        yield f"\n## {NOISE}\n\n{_plain(METHOD)}\n"
        yield from _table(NOISE_HEADING, lines)
    if material.found.contrasts:
        yield f"\n## Contrasts\n\n{_plain(SCALE)}\n"
        yield from _table(HEADING, contrast_lines(material))
    early = early_words(material)
    if early:
        yield f"\n## {TITLE}\n\n{_plain(early)}"
    yield f"\n## {METHODS}\n\n{_plain(methods(material))}\n"
    yield f"## {HYPERPARAMETERS}\n\n*{_plain(hyperparameter_caption(material))}*\n"
    for columns, lines in hyperparameter_tables(material):
        yield from _table(columns, lines)
        yield ""
    for name, lines in others(material):
        yield f"\n## {_plain(name)}\n\nA secondary yardstick, to explore: no verdict.\n"
        yield from _table(OTHER_HEADING, lines)


def _costs(material: Material) -> Iterator[str]:
    if not material.many:
        return (yield from _table(("", *material.order), [(line.name, *line.values) for line in costs(material)]))
    heading, lines, equal = costs_by_arm(material)
    if len(heading) > 1:
        yield from _table(heading, lines)
    yield f"\n{_plain(equal)}"


def _table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(map(_plain, heading)) + " |"
    yield "|" + "---|" * len(heading)
    yield from ("| " + " | ".join(map(_plain, line)) + " |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _with_code(text: str) -> str:
    """A sentence of ours whose commands can be copied as they are."""
    parts = _CODE.split(text)  # words and commands in turn
    return "".join(f"`{part}`" if place % 2 else _MARKDOWN.sub(r"\\\1", part) for place, part in enumerate(parts))


def latex(material: Material) -> str:
    """For a paper: booktabs tables of every arm's score, verdict and hyper-parameters, and a methods paragraph."""
    column = name_of(material.plan.design.primary.measure.table)
    lines = [r"\toprule", r"arm & score & gain & interval & verdict \\", r"\midrule"]
    told = [(name, "–", *cells) for name, *cells in typeset_contrasts(material)]
    lines += [" & ".join(map(_typeset, one)) + r" \\" for one in told]
    lines += [r"\midrule"] if told else []
    for arm, (mean, _) in zip(material.order, summary(material, column), strict=True):
        lines += [" & ".join(map(_typeset, (arm, mean, *told))) + r" \\" for told in _compared(arm, material)]
    level = 1 - material.found.share / material.found.n_comparisons
    about = f"score: {UNIT} of {column}, lower is better; intervals at {percent_level(level)} unless they say otherwise"
    reading = [material.found.reading] if material.found.reading else []
    text = text_words(material)
    notes = [
        about,
        f"margin: {material.found.margin_words}",
        *series_words(material),
        *reading,
        *filter(None, [text, control_sentence(material)]),
        *_advice(material),
    ]
    notes += [f"allowed to differ: {one}" for one in allowed_confounds(material)]
    notes += filter(None, [noise_words(material)])
    told = [f"% {' '.join(note.split())}" for note in notes]
    results = _floating("results", "lrrrl", [*lines, r"\bottomrule"], results_caption(material))
    paragraph = rf"\paragraph{{{METHODS}.}} {_typeset_prose(methods(material))}"
    return "\n".join([*results, *told, "", paragraph, "", *_typeset_hyperparameters(material)]) + "\n"


def _typeset_hyperparameters(material: Material) -> Iterator[str]:
    """A table of hyper-parameters, or two where there are many arms."""
    for place, (columns, lines) in enumerate(hyperparameter_tables(material), 1):
        typeset = [" & ".join(map(_typeset, line)) + r" \\" for line in (columns, *lines)]
        whole = [r"\toprule", typeset[0], r"\midrule", *typeset[1:], r"\bottomrule"]
        caption = hyperparameter_caption(material)
        yield from _floating(f"hyperparameters-{place}", "l" * len(columns), whole, caption)


def _floating(label: str, columns: str, lines: Sequence[str], caption: str) -> list[str]:
    """A table with its caption above it, to be put into a paper as it is."""
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{_typeset_prose(caption)}}}", rf"\label{{tab:{label}}}"]
    return [*begin, rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}", r"\end{table}"]


def _typeset_prose(text: str) -> str:
    """Sentences, with the quotation marks of LaTeX."""
    return re.sub(r'"([^"]*)"', r"``\1''", _typeset(text))


def _advice(material: Material) -> Iterator[str]:
    """What inconclusive contrasts and comparisons would take, but for the positive control."""
    yield from (f"{one.name}: {one.advice.removesuffix('.')}" for one in contrasts(material) if one.advice)
    for arm in material.found.arms:
        advice = advice_on(arm)
        if advice is not None and arm.name != material.control:
            yield f"{material.found.label(arm)}: {advice.words}"
    fresh = fresh_seeds(material)
    if fresh:
        yield fresh


def _compared(arm: str, material: Material) -> list[tuple[str, str, str]]:
    """Gain, interval and verdict of every comparison of an arm; of one that has none, that it has none."""
    found = material.found
    own = [one for one in found.arms if one.name == arm]
    return [_judged(one, material) for one in own] or [("–", "–", "baseline" if arm == found.baseline else "–")]


def _judged(arm: Arm, material: Material) -> tuple[str, str, str]:
    made = arm.judgement.comparison
    verdict = BRIEF.get(arm.judgement.verdict.word, _verdict(arm.judgement.verdict))
    verdict += "" if arm.against == material.found.baseline else f" (against {arm.against})"
    if made is None:
        return "–", "–", verdict
    return signed(made.effect, digits_of(made)), decided_cell(made), verdict


def _verdict(verdict: Verdict) -> str:
    """The verdict for a cell; the margin of `equivalent` stands beside its interval."""
    return str(replace(verdict, detail="") if verdict.word == "equivalent" else verdict)


def _typeset(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))
