"""Charts of arms whose names JavaScript knows: drawn as any other, in files and in the page's
specs.
"""

import json
import re
from pathlib import Path

import pytest
from handmade_study import make_study, sweep_record

from paribus.report.charts import KEY_FIELD, label_expression, row_key
from paribus.report.images import plot_files
from paribus.report.page import render_page, study_plots
from paribus.report.report_data import gather_report_data
from paribus.spec.design_reading import ARM_NAME

NAMES = ("constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf")
OTHERS = ("propertyIsEnumerable", "toLocaleString", "length", "name", "prototype")
GAINS = (0.0, 0.004, -0.05, 0.1, -0.02)


def plots(root: Path, names: tuple[str, ...]):
    gains = dict(zip(names, GAINS, strict=True))
    return study_plots(gather_report_data(make_study(root, gains=gains, rates=sweep_record(names))))


@pytest.mark.parametrize("names", [NAMES, OTHERS])
def test_every_plot_is_drawn_with_its_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert all(ARM_NAME.fullmatch(name) for name in names)
    found = plots(tmp_path, names)
    files = plot_files(found, "svg")
    assert set(files) == {"effect.svg", "learning.svg", "difference.svg", "rates.svg"}
    for file, content in files.items():
        shown = names if file in ("learning.svg", "rates.svg") else names[1:]
        assert all(f">{name}</text>" in content.decode() for name in shown), file
    assert plot_files({"effect": found["effect"]}, "png")["effect.png"].startswith(b"\x89PNG")


def test_such_names_draw_as_many_marks_as_others(tmp_path: Path) -> None:
    """A table kept by `constructor` could lose its line without a word."""
    plain = tuple(letter * len(name) for letter, name in zip("ABCDE", NAMES, strict=True))
    odd, even = (plot_files(plots(tmp_path / names[0], names), "svg") for names in (NAMES, plain))
    for file in odd:
        marks = [
            len(re.findall("<path|<text|<line", content.decode()))
            for content in (odd[file], even[file])
        ]
        assert marks[0] == marks[1], file


def test_no_scale_or_expression_of_a_spec_holds_a_name_alone(tmp_path: Path) -> None:
    """Neither a domain nor a text of an expression is such a name: Vega looks both up in plain
    objects.
    """
    names = dict(zip(NAMES, GAINS, strict=True))
    text = render_page(
        gather_report_data(make_study(tmp_path, gains=names, rates=sweep_record(NAMES)))
    )
    specs = json.loads(text.partition('id="specs">')[2].partition("</script>")[0])
    domains = re.findall(r'"(?:domain|sort)": (\[[^]]*\])', json.dumps(specs))
    assert domains
    assert not any(name in domain for name in NAMES for domain in domains)
    expressions = re.findall(r'"labelExpr": ("(?:[^"\\]|\\.)*")', json.dumps(specs))
    assert expressions
    for name in NAMES:
        assert not any(f'"{name}"' in json.loads(expression) for expression in expressions)
    assert f'"field": "{KEY_FIELD}"' in json.dumps(specs)


def test_names_stand_in_quotation_marks_in_sentences_and_bare_in_tables(tmp_path: Path) -> None:
    found = plots(tmp_path, NAMES)
    assert 'Right of zero is better than "constructor".' in found["effect"].caption
    assert 'Above zero is better than "constructor";' in found["difference"].caption
    assert '"toString" ends at ' in found["learning"].spec["description"]
    assert '"toString" ends at +0.0040' in found["difference"].spec["description"]
    assert 'the chosen rates are 0.004 for "constructor"; ' in found["rates"].spec["description"]
    for plot in found.values():
        cells = {cell for line in plot.numbers for cell in line}
        assert not any('"' in cell for cell in cells), plot.key
        assert cells & set(NAMES), plot.key


def test_the_label_of_a_place_is_taken_from_one_text() -> None:
    assert row_key(1) == "place-1"
    assert (
        label_expression(["a", "b"])
        == 'split("a\\u001eb\\u001e", "\\u001e")[slice(datum.label, 6)]'
    )
