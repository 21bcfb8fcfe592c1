"""A study's files of another shape: every verb that reads them says so, and none ends in a
traceback.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table

from paribus.record import existing_study

Change = Callable[[Any], Any]


@pytest.fixture
def there(finished_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished_home, "runs")
    return tmp_path / "runs"


def put(path: Path, change: Change) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def normed(plan: dict[str, Any]) -> dict[str, Any]:
    plan["arms"]["causal"]["run"]["architecture"]["norm"] = "x"
    return plan


def unpurposed(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**cells[0], "purpose": None}, *cells[1:]]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "plan.json",
            lambda _: None,
            "plan.json holds a NoneType, not a table; `paribus run DESIGN`",
        ),
        ("plan.json", lambda _: [], "plan.json holds a list, not a table; `paribus run DESIGN`"),
        ("plan.json", lambda _: {}, "plan.json is of another shape: name: Field required; "),
        (
            "plan.json",
            normed,
            "plan.json: arms.causal.run.architecture cannot be read by this version: ",
        ),
        ("cells.json", unpurposed, "cells.json lists no cells: {'arm': "),
        (
            "cells.json",
            lambda _: {},
            "cells.json lists no cells: it is a dict; remove it, and `paribus run`",
        ),
        (
            "plan.lock",
            lambda _: None,
            "plan.lock is no lock of a plan: it is a NoneType; restore it, or begin",
        ),
        (
            "plan.lock",
            lambda lock: {**lock, "changes": [1]},
            "plan.lock is no lock of a plan: its changes is missing",
        ),
        ("rates.json", lambda _: [], "rates.json holds a list, not a table; `paribus run DESIGN`"),
        (
            "rates.json",
            lambda _: {"full": None},
            "rates.json is of another shape: full: Input should be",
        ),
        ("rates.json", lambda _: {}, "rates.json has no sweep of full; `paribus run DESIGN`"),
        (
            "items.json",
            lambda _: [],
            "items.json holds a list; remove it, and `paribus run` writes it again",
        ),
        ("items.json", lambda _: {"i": None}, "items.json cannot be read: "),
        (
            "samples.json",
            lambda _: [{"prompt": 1, "said": {}, "refused": {}}],
            "cannot be read: prompt is not text; ",
        ),
    ],
)
def test_a_study_s_file_of_another_shape_is_told_by_report(
    ask, there: Path, name: str, change: Change, said: str
) -> None:
    path = there / "studies/little" / name
    if not path.exists():
        path.write_text("{}")
    put(path, change)
    told = ask("report", "little", "--format", "md")
    assert (told.status, said in told.err) == (1, True), told.err
    for verb in (("rows", "little"), ("watch", "little", "--once"), ("runs",)):
        assert ask(*verb).status in (0, 1)


@pytest.mark.parametrize(
    "name", ["plan.json", "cells.json", "rates.json", "plan.lock", "items.json"]
)
@pytest.mark.parametrize("content", ["null", "{}", "[]", "[1]", '{"full": 1}', "", '"x"'])
def test_run_writes_again_or_says_what_is_in_its_way(
    ask, there: Path, study_cache: Path, name: str, content: str
) -> None:
    (there / "studies/little" / name).write_text(content)
    Path("little.json").write_text(json.dumps(design_table()))
    told = ask("run", "little.json", "--name", "little", "--cache", study_cache, "--device", "cpu")
    assert told.status in (0, 1), told.err
    if name in ("plan.json", "rates.json", "items.json"):
        assert told.status == 0, told.err
        assert ask("report", "little", "--format", "md").status == 0


@pytest.mark.parametrize("name", ["spec.json", "environment.json", "rows.jsonl", "state"])
@pytest.mark.parametrize(
    "content",
    [
        "null",
        "{}",
        "[]",
        '{"stages": [{"training": []}]}',
        '{"step": 15, "nats": "x"}\n',
        '[{"torch": 1}]',
    ],
)
def test_a_run_s_file_of_another_shape_ends_in_no_traceback(
    ask, there: Path, name: str, content: str
) -> None:
    run = existing_study(there, "little").read_cells()[0].run
    (there / run / name).write_text(content)
    told = ask("report", "little", "--format", "md")
    assert told.status in (1, 2), told.err
    assert told.err.strip()
    for verb in (
        ("rows", "little"),
        ("watch", "little", "--once"),
        ("watch", "--once"),
        ("runs",),
        ("runs", "--json"),
    ):
        assert ask(*verb).status in (0, 1)
    assert ask("evaluate", run, "--items", "2").status in (0, 1, 2)
