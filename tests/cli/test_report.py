"""paribus report: verdicts on the terminal, files beside the study, from rows alone and without
torch.
"""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from handmade_study import GAINS, SEEDS, make_study, make_study_at_look

import paribus as pb
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.escapes import SafeConsole
from paribus.record import existing_study
from paribus.record.checksums import write_listed_file
from paribus.record.file_names import ROWS_FILE
from paribus.report import formats

ROOT = Path(__file__).parents[2]
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "tokenizers", "safetensors"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
from paribus.cli import main
sys.exit(main(sys.argv[1:]))
"""


def blocked(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_lies_beside_the_study_and_the_verdicts_are_printed(ask, tmp_path):
    study = make_study(tmp_path / "runs")
    told = ask("report", "small")
    assert told.status == 0
    assert told.out.splitlines()[0].startswith(
        'better  "prefix" does better than "causal", by less than the margin: gain +'
    )
    assert told.out.splitlines()[1].startswith('worse   "input hidden" does worse than "causal"')
    assert told.out.splitlines()[-1] == "runs/studies/small/report.html"
    assert (study.folder / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_terminal_says_what_is_being_written(ask, monkeypatch, tmp_path):
    make_study(tmp_path / "runs")
    monkeypatch.setenv("FORCE_COLOR", "1")  # is a terminal, for rich
    page = SafeConsole(file=io.StringIO(), width=200)
    monkeypatch.setattr("paribus.cli.report.console", lambda: page)
    assert ask("report", "small", "--format", "csv").status == 0
    assert "writing the report of small" in page.file.getvalue()


def test_plots_that_cannot_be_drawn_are_told_of(ask, tmp_path):
    make_study(tmp_path / "runs", failed=tuple((arm, seed) for arm in GAINS for seed in SEEDS))
    told = ask("report", "small", "--format", "svg,md", "--open")
    assert told.status == 0
    assert told.out.splitlines()[-1] == "runs/studies/small/report.md"
    assert (
        "note: no svg file is written: no run of this study trained, so there is nothing to draw"
        in told.err
    )
    assert ask("report", "small", "--format", "svg", "--open").status == 0


def test_every_format_is_written_where_it_is_asked_for(ask, tmp_path):
    make_study(tmp_path / "runs")
    assert ask("report", "small", "--format", "csv,tex,md,svg,png", "--out", "there").status == 0
    names = sorted(path.name for path in (tmp_path / "there").iterdir())
    plots = ("difference-control", "difference", "effect-control", "effect", "learning")
    drawn = [f"{plot}.{kind}" for plot in plots for kind in ("png", "svg")]
    assert names == sorted(
        [
            "curves.csv",
            "design.json",
            "documents.csv",
            "report.md",
            "report.tex",
            "rows.csv",
            "verdicts.csv",
            *drawn,
        ]
    )
    assert (tmp_path / "there/effect.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "there/effect.svg").read_text().startswith("<svg")
    rows = (tmp_path / "there/rows.csv").read_text().splitlines()
    assert rows[0].startswith("study,arm,purpose,seed,rate,run,n_steps,outcome,reason,halves.test")
    assert len(rows) == 1 + 3 * 4
    assert "seconds" not in rows[0]
    assert r"prefix & " in (tmp_path / "there/report.tex").read_text()
    assert (tmp_path / "there/report.md").read_text().startswith("# Does it help?\n")


def test_text_in_other_formats_is_escaped_too(ask, tmp_path):
    gains = {"causal": 0.0, "a_b%{}": 0.004, "<b>|x": -0.5}
    make_study(tmp_path / "runs", gains=gains)
    ask("report", "small", "--format", "tex,md")
    folder = tmp_path / "runs/studies/small"
    assert r"a\_b\%\{\}" in (folder / "report.tex").read_text()
    assert r"\textless{}b\textgreater{}" in (folder / "report.tex").read_text()
    assert r"\<b\>\|x" in (folder / "report.md").read_text()


def test_the_function_gives_the_files(tmp_path):
    study = make_study(tmp_path / "runs")
    assert pb.write_report("small", runs=tmp_path / "runs", formats=["md"]) == (
        study.folder / "report.md",
    )


def test_without_a_page_there_is_none_to_open(ask, tmp_path):
    make_study(tmp_path / "runs")
    told = ask("report", "small", "--format", "md", "--open")
    assert (told.status, told.err) == (
        0,
        "note: there is no page to open: --format html makes report.html\n",
    )


def test_allowed_confounds_are_told_with_every_verdict(ask, tmp_path):
    line = {
        "path": "training.warmup",
        "mark": "✗",
        "note": "",
        "allowed": "part of the [bold] recipe & more",
    }
    make_study(
        tmp_path / "runs",
        changes={"control": [{**line, "values": {"causal": 1, "prefix": 2, "input hidden": 1}}]},
    )
    told = ask("report", "small", "--format", "tex")
    assert "allowed to differ: training.warmup: part of the [bold] recipe & more" in told.out
    table = (tmp_path / "runs/studies/small/report.tex").read_text()
    assert "% allowed to differ: training.warmup: part of the [bold] recipe & more\n" in table


def test_a_look_is_told_before_the_verdicts(ask, tmp_path):
    make_study_at_look(tmp_path / "runs")
    assert ask("report", "small", "--format", "md").out.startswith(
        "Look 1 of 2: the verdict is read at 3 of 4 seeds"
    )


def test_a_format_that_is_none_is_refused(ask, tmp_path):
    make_study(tmp_path / "runs")
    told = ask("report", "small", "--format", "html,pdf")
    assert (told.status, told.err) == (
        2,
        "error: --format has 'pdf'; use one or more of html, md, csv, tex, svg, png, separated"
        " by commas\n",
    )


def test_a_study_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RecordError, match="holds no study"):
        pb.write_report("nothing", runs=tmp_path, formats="md")


def test_a_study_that_is_not_done_is_refused(tmp_path):
    study = make_study(tmp_path)
    (tmp_path / study.read_cells()[0].run / "state").write_text("running\n")
    with pytest.raises(
        SpecError,
        match=(
            "1 of 12 runs is missing or not yet run: causal, seed 1; `paribus run DESIGN` resumes"
        ),
    ):
        pb.write_report("small", runs=tmp_path)


def test_a_missing_package_is_asked_for_by_name(monkeypatch, tmp_path):
    make_study(tmp_path)
    monkeypatch.setattr(formats, "find_spec", lambda name: None if name == "vl_convert" else name)
    message = (
        r"--format html needs vl-convert, which is not installed; run pip install"
        r" 'paribus\[report\]'"
    )
    with pytest.raises(UnsupportedError, match=message):
        pb.write_report("small", runs=tmp_path)
    assert pb.write_report("small", runs=tmp_path, formats="csv,md,tex")


def test_a_report_needs_no_torch(tmp_path):
    make_study(tmp_path / "runs")
    told = blocked("report", "small", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert (tmp_path / "runs/studies/small/report.html").is_file()


def test_help_needs_no_torch(tmp_path):
    told = blocked("--help", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert "report" in told.stdout
    assert "demo" in told.stdout
    assert blocked("report", "--help", cwd=tmp_path).returncode == 0


def test_runs_are_made_again_where_that_is_asked(
    ask, finished_home: Path, study_cache: Path, tmp_path: Path
) -> None:
    own = ["--runs", str(finished_home), "--format", "md", "--out", str(tmp_path)]
    cache = ["--cache", str(study_cache)]
    told = ask("report", "little", *own, "--verify", "1", "--draw", "a word", *cache)
    assert told.status == 0
    assert "made again, drawn by --draw a word:" in told.out
    assert told.out.splitlines()[-1].endswith("equal to the bit")
    told = ask("report", "little", *own, "--draw", "a word")
    assert told.status == 2
    assert "--draw goes with --verify, which is not given" in told.err
    told = ask("report", "little", *own, *cache)
    assert "--cache goes with --verify, which is not given" in told.err


def test_a_run_that_is_not_the_recorded_one_ends_with_status_1(
    ask, finished_home: Path, study_cache: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "little")
    for cell in study.read_cells():
        folder = study.root / cell.run
        content = (folder / ROWS_FILE).read_text().replace('"nats": ', '"nats": 1')
        write_listed_file(folder, ROWS_FILE, content.encode())
    told = ask("report", "little", "--verify", "1", "--cache", str(study_cache))
    assert told.status == 1
    assert "1 of 1 runs of little, made again, are not what the study holds" in told.err
