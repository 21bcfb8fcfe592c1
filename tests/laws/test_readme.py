"""The README and the tour run: commands and Python are executed, files load, what is quoted is
what they print.

Blocks marked sh, toml and python are done in order, in one folder. A toml block names its file in
its first line. A text block is all that the block before it prints; `…` stands for what is left
out, lines where it is alone on one. A command that is refused says so: `# exit status 2`.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paribus.cli import main, verbs
from paribus.spec import load, presets
from paribus.spec.design_reading import load_design
from paribus.spec.run import load_run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = (
    *("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/results/README.md"),
    *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")),
)
PRINTS = {"sh", "python"}


@dataclass(frozen=True)
class Block:
    """What stands between two fences, and where."""

    language: str
    place: str
    text: str


def blocks(text: str) -> Iterator[Block]:
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(
            found[1], f"README.md, line {text.count(chr(10), 0, found.start()) + 2}", found[2]
        )


def commands(block: Block) -> Iterator[tuple[list[str], int]]:
    """The words of each line, and the exit status it is said to have."""
    for line in block.text.splitlines():
        said = re.search(r"# exit status (\d+)$", line)
        yield shlex.split(line, comments=True), int(said[1]) if said else 0


def pattern(quoted: str) -> str:
    """The regular expression of a quoted answer."""
    lines = (
        "(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in quoted.splitlines()
    )
    return "".join(lines)


def do(block: Block, names: dict[str, Any]) -> None:
    match block.language:
        case "sh":
            for words, status in commands(block):
                if words[0] == "paribus":
                    assert main(words[1:]) == status, f"{block.place}: {shlex.join(words)}"
        case "python":
            exec(compile(block.text, block.place, "exec"), names)
        case "toml":
            name = re.match(r"# (\w+\.toml)\n", block.text)
            assert name, f"{block.place}: name the file in the first line, as in '# mine.toml'"
            Path(name[1]).write_text(block.text, "utf-8")
            _load_file(name[1], tomllib.loads(block.text))


def _load_file(name: str, table: dict[str, Any]) -> None:
    if "question" in table:
        load_design(name)
    elif "architecture" in table:
        load_run(name)
    else:
        load(name)


@pytest.mark.parametrize(
    ("document", "files"),
    [("README.md", {"mine.toml", "runs"}), ("docs/tour.md", {"mine.toml", "run.toml", "runs"})],
)
def test_a_document_does_and_prints_what_it_says(
    document: str,
    files: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    before, printed, names = "", "", {}
    for block in blocks((ROOT / document).read_text("utf-8")):
        if block.language == "text":
            assert before in PRINTS, f"{block.place} quotes what no block before it prints"
            assert re.fullmatch(pattern(block.text), printed), (
                f"{block.place} quotes another answer than\n{printed}"
            )
        do(block, names)
        before, printed = block.language, "".join(capsys.readouterr())
    assert names["model"].spec.d_model
    assert files <= set(os.listdir())


def test_the_notebook_of_the_training_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (block,) = (
        one
        for one in blocks((ROOT / "docs/training.md").read_text("utf-8"))
        if one.language == "python"
    )
    names: dict[str, Any] = {}
    do(block, names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("(0.")
    assert "20 runs/copying" in printed
    assert names["done"].folder == Path("runs/copying")


def test_every_line_for_the_shell_is_checked_or_run() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ].keys()
    lines = [
        words for block in blocks(README) if block.language == "sh" for words, _ in commands(block)
    ]
    assert any(words[0] == "paribus" for words in lines)
    for words in lines:
        match words:
            case ["paribus", *_]:
                pass
            case ["make", *wanted]:
                assert set(wanted) <= targets
            case ["pip", "install", place]:
                asked = re.fullmatch(r"\.(?:\[(.*)\])?", place)
                assert asked
                assert set(filter(None, (asked[1] or "").split(","))) <= extras
            case _:
                pytest.fail(f"nobody checks: {shlex.join(words)}")


def test_the_chinese_readme_has_the_same_parts_and_every_block_word_for_word() -> None:
    chinese = (ROOT / "README.zh-CN.md").read_text("utf-8")
    assert [(block.language, block.text) for block in blocks(chinese)] == [
        (block.language, block.text) for block in blocks(README)
    ]
    assert len(re.findall(r"^## ", chinese, re.MULTILINE)) == len(
        re.findall(r"^## ", README, re.MULTILINE)
    )
    for found in (r"`[^`\n]+`", r"\]\((?!README)[^)]+\)", r"[−+]?\d+\.\d+"):
        assert sorted(set(re.findall(found, chinese))) == sorted(set(re.findall(found, README)))


def test_a_quoted_answer_must_be_whole() -> None:
    printed = "one 1\ntwo 2\nthree 3\n"
    for quoted in ("one 1\ntwo 2\nthree 3\n", "one …\n…\nthree 3\n", "…\ntwo 2\n…\n", "one 1\n…\n"):
        assert re.fullmatch(pattern(quoted), printed)
    for quoted in ("one 1\n", "one 1\nthree 3\n", "one\n…\n", "…\nthree 3\ntwo 2\n…\n"):
        assert not re.fullmatch(pattern(quoted), printed)


def test_the_readme_is_short_and_counts_presets_and_designs() -> None:
    assert README.count("\n") <= 100
    assert f"{len(presets())} presets" in README
    others = {"claims", "turns"}  # what designs test, and one that trains nothing
    designs = {path.stem for path in ROOT.glob("designs/*.toml")} - others
    assert f"{len(designs)} ready-made comparisons" in README


def test_the_readme_names_every_verb() -> None:
    assert [verb for verb in verbs() if f"paribus {verb}" not in README] == []


def test_contributing_names_every_law_and_its_test() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text[text.index("## Laws") :]
    named = re.findall(r"`(tests/laws/test_\w+\.py)`", table)
    assert sorted(named) == sorted(
        f"tests/laws/{path.name}" for path in ROOT.glob("tests/laws/test_*.py")
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_a_document_names_exists(document: str) -> None:
    text, here = (ROOT / document).read_text("utf-8"), (ROOT / document).parent
    links = [here / target for target in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    paths = [
        ROOT / path for path in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]*)`", text)
    ]
    assert [path for path in links + paths if not path.exists()] == []
