"""The rows of a study for people and for other programs."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import paribus as pb

SOURCE = Path(__file__).parents[2] / "src"
WATCHFUL = (
    "import sys; from paribus.cli import main; sys.exit(main() or 9 * ('torch' in sys.modules))"
)


def test_rows_are_given_as_csv_and_json_with_the_same_numbers(ask, finished_home: Path) -> None:
    as_json = json.loads(ask("rows", "little", "--json", "--runs", finished_home).out)
    as_csv = list(
        csv.DictReader(io.StringIO(ask("rows", "little", "--csv", "--runs", finished_home).out))
    )
    assert len(as_json) == len(as_csv) == 9
    assert [float(row["pseudo.test"]) for row in as_csv] == [row["pseudo.test"] for row in as_json]
    assert [row["arm"] for row in as_csv[::3]] == ["full", "reverse", "causal"]
    assert as_json == [dict(row) for row in pb.rows("little", finished_home)]


def test_people_get_an_arm_a_line(ask, finished_home: Path) -> None:
    told = ask("rows", "little", "--runs", finished_home)
    assert told.status == 0, told.err
    assert [line.split()[0] for line in told.out.splitlines()[:4]] == [
        "arm",
        "full",
        "reverse",
        "causal",
    ]
    assert "bits per byte of pseudo.test, lower is better" in told.out


def test_a_study_that_is_not_there_is_refused(ask, finished_home: Path, tmp_path: Path) -> None:
    told = ask("rows", "other", "--runs", finished_home)
    assert (told.status, told.out) == (1, "")
    assert "other holds no study; studies there are little" in told.err
    assert "`paribus run DESIGN` makes one" in ask("rows", "other", "--runs", tmp_path).err
    assert "cannot be the name of a folder" in ask("rows", "../little", "--runs", finished_home).err


def test_rows_and_watching_need_no_torch(finished_home: Path) -> None:
    for words in (["rows", "little", "--csv"], ["watch", "little", "--once"]):
        answer = subprocess.run(
            [sys.executable, "-W", "error", "-c", WATCHFUL, *words, "--runs", str(finished_home)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        assert "full" in answer.stdout


def test_two_forms_at_once_are_refused(ask, finished_home: Path) -> None:
    told = ask("rows", "little", "--csv", "--json", "--runs", finished_home)
    assert (told.status, told.err) == (
        2,
        "error: --csv and --json are both given; choose one of them\n",
    )
