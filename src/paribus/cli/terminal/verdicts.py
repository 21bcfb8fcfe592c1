"""The verdicts of a study, a line an arm."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from paribus.report.contrasts import contrasts
from paribus.report.material import Material
from paribus.report.positive_control import control_sentence
from paribus.report.series import series_words
from paribus.report.text_read import text_words
from paribus.report.trust import allowed_confounds
from paribus.report.verdicts import Said, fresh_seeds, too_short, verdicts

STYLES = {
    "better": "bold green", "worse": "bold red", "equivalent": "bold blue", "not worse": "bold blue",
    "inconclusive": "bold yellow",
}  # fmt: skip


def print_verdicts(material: Material, page: Console) -> None:
    """Each arm's word first; of an inconclusive one also what it would take. Then what is to be known beside them."""
    said, asked = verdicts(material), contrasts(material)
    width = max(len(one.word) for one in (*said, *asked))
    if material.found.reading:
        page.print(f"{material.found.reading}.", soft_wrap=True, markup=False)
    for line in series_words(material):
        page.print(line, soft_wrap=True, markup=False)
    for one in asked:
        line = f"{one.headline}{': ' if one.numbers else ''}{one.numbers}"
        page.print(Text.assemble((f"{one.word:{width}}  ", STYLES.get(one.word, "bold")), line), soft_wrap=True)
        for more in filter(None, (one.meaning, one.advice)):
            page.print(f"{'':{width}}  {more}", style="dim", soft_wrap=True, markup=False)
    for one in said:
        page.print(Text.assemble((f"{one.word:{width}}  ", STYLES.get(one.word, "bold")), _line(one)), soft_wrap=True)
        if one.advice and not one.is_control:
            page.print(f"{'':{width}}  {one.advice}", style="dim", soft_wrap=True)
    control = control_sentence(material)
    if control:
        page.print(control, soft_wrap=True, markup=False)
    text = text_words(material)
    if text:
        page.print(Text(text, "yellow"), soft_wrap=True)
    short = too_short(material.found.reported)
    if short:
        page.print(Text(short, "yellow"), soft_wrap=True)
    fresh = fresh_seeds(material)
    if fresh:
        page.print(fresh, style="dim", soft_wrap=True, markup=False)
    for one in allowed_confounds(material):
        page.print(Text(f"allowed to differ: {one}", "yellow"), soft_wrap=True)
    if material.found.agreement.changed:
        page.print(Text(f"no verdict: {material.found.agreement.words}", "red"), soft_wrap=True)
    lock = material.found.lock
    if lock is not None and not lock.as_planned:
        page.print(Text(f"not as planned: {lock.words}", "yellow"), soft_wrap=True)


def _line(one: Said) -> str:
    control = " (the positive control)" if one.is_control else ""
    return f"{one.headline}{control}{': ' if one.numbers else ''}{one.numbers}"
