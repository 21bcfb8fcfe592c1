"""A study from the command line: run, found again, sharded, and what each exit status says."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table

import paribus as pb
from paribus.analyse.seal import study_seal
from paribus.record import existing_study
from paribus.record.checksums import write_listed_file
from paribus.workspace import Execution, Workspace

SHORT = {"base.training.n_steps": 2, "base.training.checkpoint_every": 2, "arms.reverse": None}
LEARNT = {"arms.reverse": None}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(changes: dict[str, Any] | None, cache: Path, *more: str) -> list[str]:
    Path("little.json").write_text(json.dumps(design_table(changes)))
    return ["run", "little.json", "--cache", str(cache), "--device", "cpu", *more]


def test_a_study_is_run_shown_and_found_again(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words(LEARNT, study_cache))
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    assert lines[0] == "Must a model look both ways to fill masks?"
    ended = [line for line in lines if line.startswith("runs ")]
    assert ended[0].startswith("runs   1/6  full, seed 1: ")
    assert " bits per byte (pseudo.test)" in ended[0]
    assert ended[0].endswith(" left")
    assert not ended[-1].endswith(" left")
    assert "\x1b" not in told.out
    assert lines[-6].split() == ["arm", "rate", "seed", "1", "seed", "2", "seed", "3", "mean"]
    assert lines[-3] == "bits per byte of pseudo.test, lower is better; runs/studies/little"
    assert lines[-2] == f"seal: {study_seal(existing_study(here / 'runs', 'little'))}"
    assert lines[-1] == "for the verdict and a page: paribus report little"
    locked = "the plan is locked; its seal is "
    (noted,) = [line for line in lines if line.startswith(locked)]
    assert lines[-2].removeprefix("seal: ").startswith(noted.removeprefix(locked))
    again = ask(*words(LEARNT, study_cache))
    assert again.status == 0
    assert "runs: 6 of 6 runs are there already" in again.out
    assert again.out.splitlines()[-4:] == lines[-4:]
    assert (
        len(
            pb.run(
                design_table(LEARNT),
                name="little",
                execution=Execution(Workspace(cache=study_cache, device="cpu")),
            )
        )
        == 6
    )


def test_shards_wait_with_75_until_all_is_there(ask, here: Path, study_cache: Path) -> None:
    first = ask(*words(SHORT, study_cache, "--shard", "1/2"))
    assert first.status == 75
    assert first.err.splitlines()[-1].endswith(
        "runs of other shards are not done; run this command again when they are"
    )
    assert ask(*words(SHORT, study_cache, "--shard", "2/2")).status == 0
    assert ask(*words(SHORT, study_cache, "--shard", "1/2")).status == 0


def test_a_run_that_failed_by_the_machine_has_status_4_and_is_made_the_next_time(
    ask, here: Path, study_cache: Path
) -> None:
    assert ask(*words(SHORT, study_cache)).status == 0
    cell = existing_study(Path("runs"), "little").read_cells()[0]
    shutil.rmtree(Path("runs") / cell.run)
    (Path("runs") / cell.run).mkdir()
    (Path("runs") / cell.run / "stray").touch()
    told = ask(*words(SHORT, study_cache))
    assert told.status == 4
    assert f"error: {cell.arm}, seed {cell.seed}: " in told.err
    assert "failed" in told.out
    table = pb.run(
        design_table(SHORT),
        name="little",
        execution=Execution(Workspace(cache=study_cache, device="cpu")),
    )
    assert [row["outcome"] for row in table].count("open") == 1
    (Path("runs") / cell.run / "stray").unlink()
    assert ask(*words(SHORT, study_cache)).status == 0


def test_runs_that_learnt_nothing_are_shown_as_such(ask, here: Path, study_cache: Path) -> None:
    high = {
        "factor": "training.optimizer.rate",
        "arms.causal.training": {"optimizer": {"rate": 1e30}},
        "arms.causal.architecture.mask": "full",
    }
    told = ask(*words(SHORT | high, study_cache))
    assert told.status == 0, told.err
    assert next(line for line in told.out.splitlines() if line.startswith("causal ")).split() == [
        "causal",
        "1e+30",
        "diverged",
        "diverged",
        "diverged",
        "–",
        "(0",
        "of",
        "3)",
    ]
    assert (
        "undertrained: the loss was finite and had not risen, but the score is still worse"
        in told.out
    )
    assert (
        "runs   1/6  full, seed 1: undertrained: not trained long enough, still worse" in told.out
    )
    unlearnt = {
        "base.objective": "last_token",
        "primary.measure": {"kind": "halves", "n_items": 3, "max_bytes": 16},
    }
    told = ask(
        *words(
            SHORT
            | {"arms.causal": None, "arms.twin": {"architecture": {"mask": "full"}}}
            | unlearnt,
            study_cache,
            "--name",
            "unlearnt",
        )
    )
    assert told.status == 0, told.err
    assert (
        "runs   1/3  twin, seed 1: undertrained: not trained long enough, still worse" in told.out
    )


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--jobs", "0", "--jobs is 0; use 1 or more"),
        ("--on", "moon", "--on is 'moon'; use one of local, ray, slurm"),
        ("--slurm", "time=9", "--slurm goes with --on slurm, and --on is local; leave it out"),
        ("--ray-address", "a:1", "--ray-address goes with --on ray, and --on is local; leave it"),
        ("--shard", "3/2", "--shard is '3/2'; write I/N with I from 1 to N, such as 2/8"),
        ("--shard", "two", "--shard is 'two'; write I/N with I from 1 to N, such as 2/8"),
        (
            "--name",
            "../evil",
            "the study name is '../evil', which cannot be the name of a folder; use up to 100"
            " letters",
        ),
        (
            "--name",
            "",
            "the study name is '', which cannot be the name of a folder; use up to 100 letters",
        ),
        ("--cache", "little.json", "--cache is little.json, which is a file; name a folder"),
        ("--shard", "0/2", "--shard is '0/2'; write I/N with I from 1 to N, such as 2/8"),
    ],
)
def test_a_slip_in_an_option_is_named(
    ask, here: Path, study_cache: Path, option: str, value: str, said: str
) -> None:
    told = ask(*words(SHORT, study_cache, option, value))
    assert told.status == 2
    assert said in told.err
    assert not Path("runs").exists()


def test_an_option_of_another_place_is_refused(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words(SHORT, study_cache, "--on", "ray", "--no-mps"))
    assert told.status == 2
    assert "--no-mps goes with --on local, and --on is ray; leave it out" in told.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("array=0-9", "--slurm array: each run is one task of an array"),
        ("comment=a\nb", "--slurm comment is 'a\\nb'; give one line without quotes"),
    ],
)
def test_an_option_that_sbatch_must_not_get_is_refused(
    ask, here: Path, study_cache: Path, option: str, said: str
) -> None:
    told = ask(*words(SHORT, study_cache, "--on", "slurm", "--slurm", option))
    assert told.status == 2
    assert said in told.err
    assert not Path("runs").exists()


def test_a_machine_without_slurm_is_said_so_before_anything_is_planned(
    ask, here: Path, study_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here))
    told = ask(*words(SHORT, study_cache, "--on", "slurm"))
    assert told.status == 1
    assert "--on slurm needs " in told.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_before_the_first_run_has_status_75_too(
    ask, here: Path, study_cache: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(
        "paribus.design.plan.prepare_corpus", lambda *_, **__: signal.raise_signal(number)
    )
    told = ask(*words(SHORT, study_cache))
    assert (told.status, told.err) == (75, "note: interrupted; the same command resumes\n")
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert ask(*words(SHORT, study_cache, "--shard", "1/9")).status == 75


def test_a_confound_stops_a_run_before_it_begins(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words({"arms.causal.training": {"warmup": 3}}, study_cache))
    assert told.status == 3
    assert "training.warmup is 0 in full" in told.err
    assert not Path("runs").exists()


def test_a_study_begun_under_another_environment_says_so(
    ask, here: Path, finished_home: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, "runs")
    kept = existing_study(Path("runs"), "little")
    for path in Path("runs").glob("*/environment.json"):
        elsewhere = path.read_text().replace('"n_threads": ', '"n_threads": 10')
        write_listed_file(path.parent, path.name, elsewhere.encode())
    shutil.rmtree(kept.root / kept.read_cells()[0].run)
    told = ask(*words(None, study_cache))
    assert told.status == 1
    assert "some of its runs were made under another environment: n_threads was 10" in told.err
    assert "--accept-environment" in told.err
    assert ask(*words(None, study_cache, "--accept-environment")).status == 0


def test_a_changed_design_is_told_by_run_and_by_report(
    ask, here: Path, finished_home: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, "runs")
    said = "primary.margin 0.5 → 0.25"
    told = ask(*words({"primary.margin": 0.25}, study_cache))
    assert told.status == 0, told.err
    (line,) = (line for line in told.out.splitlines() if line.startswith("not as planned: "))
    assert line.endswith(f"; running this one is recorded as a change: design; {said}")
    assert "not as planned" not in ask(*words({"primary.margin": 0.25}, study_cache)).out
    told = ask("report", "little", "--format", "csv")
    assert f"not as planned: design changed after the first result: {said}\n" in told.out


def test_help_says_how_many_threads_a_run_has(ask) -> None:
    told = " ".join(ask("run", "--help").out.split())
    assert (
        "a single run uses all threads of the processor, and several use one thread each." in told
    )
