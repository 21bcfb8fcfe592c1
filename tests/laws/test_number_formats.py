"""A number looks the same on a page and on a terminal: report/numbers.py writes it for both."""

import ast
import re
from collections.abc import Iterator

from source_trees import ROOT, source_tree

HOME = ROOT / "report" / "numbers.py"
# a form that rounds a number; `g` alone and `,` write it as it is
ROUNDED = re.compile(r"\.\d+[efgEFG%]|\.\{|[fF%]$")
OWN = {"cli/doctor.py": {".1e"}}  # how far kernels are apart, which no page tells


def test_the_page_and_the_terminal_round_numbers_in_one_place() -> None:
    for folder in ("report", "cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != HOME:
                found = set(rounding_forms(source_tree(path)))
                found -= OWN.get(path.relative_to(ROOT).as_posix(), set())
                assert not found, (
                    f"{path} rounds numbers by {sorted(found)}; use paribus.report.numbers"
                )


def test_templates_round_no_number() -> None:
    """What a page shows is text before it comes to the template."""
    templates = sorted((ROOT / "report").glob("*.jinja"))
    assert templates
    for path in templates:
        found = re.findall(r"\|\s*(?:format|round)\b", path.read_text("utf-8"))
        assert not found, f"{path} rounds numbers; use paribus.report.numbers"


def test_the_law_finds_forms_that_round() -> None:
    assert set(rounding_forms(ast.parse('f"{loss:.4f} {rate:.3g} {share:+.2f}"'))) == {
        ".4f",
        ".3g",
        "+.2f",
    }
    assert set(rounding_forms(ast.parse('format(loss, ".4f")'))) == {".4f"}
    assert not set(rounding_forms(ast.parse('f"{n:,} {name:<12} {margin:g} {step:09}"')))


def rounding_forms(tree: ast.Module) -> Iterator[str]:
    """Every form of an f-string, or of `format`, that rounds a number."""
    for node in ast.walk(tree):
        match node:
            case ast.FormattedValue(format_spec=ast.JoinedStr() as given):
                form = ast.unparse(given)[2:-1]
            case ast.Call(ast.Name("format"), [_, ast.Constant(str(form))]):
                pass
            case _:
                continue
        if ROUNDED.search(form):
            yield form
