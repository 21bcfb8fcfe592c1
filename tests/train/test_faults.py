"""What befalls a run while it trains: it says so, loses nothing, and ends as if it had not been."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from train_shell import (
    PROGRAM,
    TrainShell,
    TriggerPage,
    assert_same_run,
    checkpoint_steps,
    newest_tensors,
    rows_without_seconds,
    step_line,
)

from paribus.corpus import prepare_corpus
from paribus.spec.run import load_run
from paribus.train.loop import train
from paribus.watcher import Watcher
from paribus.workspace import Workspace

LAST = "step-000000009"


@pytest.fixture(scope="session")
def stopped(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped after its tenth step, with checkpoints of steps 3, 7
    and 9.
    """
    shell = TrainShell(tmp_path_factory.mktemp("stopped"), texts)
    shell.write_spec(keep_last=3)
    answer = shell.train(
        page=TriggerPage(step_line(10), lambda: signal.raise_signal(signal.SIGTERM))
    )
    assert answer.status == 143
    assert checkpoint_steps(shell.home / "run") == [3, 7, 9]
    return shell.home / "run"


@pytest.fixture
def resumable(shell: TrainShell, stopped: Path) -> TrainShell:
    """A shell that has a copy of it."""
    shell.write_spec(keep_last=3)
    shutil.copytree(stopped, shell.home / "run")
    return shell


STATUSES = [
    (signal.SIGTERM, 143),
    (signal.SIGINT, 130),
    (signal.SIGUSR1, 138),
    (signal.SIGUSR2, 140),
]


@pytest.mark.parametrize(("number", "status"), STATUSES)
def test_a_run_stopped_by_a_signal_goes_on_as_if_it_had_not_been(
    shell: TrainShell, whole: Path, number: int, status: int
) -> None:
    shell.write_spec()
    answer = shell.train(page=TriggerPage(step_line(6), lambda: signal.raise_signal(number)))
    assert answer.status == status
    assert answer.out.endswith(
        "note: interrupted: step 6 of 12 is saved; the same command resumes\n"
    )
    assert "Traceback" not in answer.err
    assert shell.train_or_fail().out.startswith(f"note: it resumes at step 7 of 12\n{step_line(7)}")
    assert_same_run(shell.home / "run", whole)


@pytest.mark.parametrize("stops", [(40,), (10, 40, 45), (30, 59)])
def test_which_checkpoints_are_kept_does_not_depend_on_interruptions(
    texts: Path, tmp_path: Path, stops: tuple[int, ...]
) -> None:
    kept = []
    for name, own in (("disturbed", stops), ("undisturbed", ())):
        (tmp_path / name).mkdir()
        shell = TrainShell(tmp_path / name, texts)
        shell.write_spec(n_steps=60, checkpoint_every=30, valid_every=15, keep_last=2)
        for stop in own:
            page = TriggerPage(step_line(stop), lambda: signal.raise_signal(signal.SIGTERM))
            assert shell.train(page=page).status == 143
            assert checkpoint_steps(shell.home / "run")[-1] == stop - 1
        shell.train_or_fail()
        kept.append(checkpoint_steps(shell.home / "run"))
    assert kept == [[29, 59], [29, 59]]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


DAMAGES: list[tuple[str, Callable[[Path], None], str]] = [
    ("weights.safetensors", flip, "weights.safetensors is not what was written (sha256 differs)"),
    ("learning.safetensors", flip, "learning.safetensors is not what was written (sha256 differs)"),
    ("manifest.json", flip, f"{LAST}/"),  # what it says depends on where the byte stands
    ("weights.safetensors", halve, " were written; use another checkpoint"),
    ("manifest.json", halve, "manifest.json is not JSON"),
    ("tokenizer.json", Path.unlink, "tokenizer.json is missing"),
    (".", empty, "manifest.json cannot be read: No such file or directory"),
]


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGES)
def test_a_damaged_checkpoint_is_skipped_and_the_one_before_it_used(
    resumable: TrainShell, whole: Path, name: str, damage: Callable[[Path], None], reason: str
) -> None:
    run = resumable.home / "run"
    damage(run / "checkpoints" / LAST / name)
    said, *others = resumable.train_or_fail().out.splitlines()
    assert said.startswith(f"note: {LAST} is skipped: ")
    assert reason in said
    assert others[:2] == [
        "note: it resumes at step 9 of 12",
        "note: 2 rows of later steps were cut",
    ]
    assert others[2].startswith(step_line(9))
    assert_same_run(run, whole)
    assert checkpoint_steps(run) == [3, 7, 11]


def test_when_no_checkpoint_is_left_the_run_begins_again_and_says_so(
    resumable: TrainShell, whole: Path
) -> None:
    run = resumable.home / "run"
    for place in (run / "checkpoints").iterdir():
        flip(place / "weights.safetensors")
    answer = resumable.train_or_fail()
    for step in (3, 7, 9):
        assert f"note: step-{step:09} is skipped: " in answer.out
    again = (
        "note: no checkpoint is left: it begins again at step 1 of 12\nnote: 10 rows of later steps"
        " were cut\n"
    )
    assert f"{again}{step_line(1)}" in answer.out
    assert_same_run(run, whole)


def test_a_torn_last_row_is_dropped_and_said_so(resumable: TrainShell, whole: Path) -> None:
    with (resumable.home / "run/rows.jsonl").open("a") as rows:
        rows.write('{"step": 10, "nats": 5.')
    assert "note: a torn line was dropped\n" in resumable.train_or_fail().out
    assert_same_run(resumable.home / "run", whole)


def test_a_damaged_row_is_refused_with_its_line_and_nothing_is_changed(
    resumable: TrainShell,
) -> None:
    rows = resumable.home / "run/rows.jsonl"
    rows.write_text(rows.read_text().replace('{"step": 4,', '{"step": 4'))
    before = rows.read_bytes()
    refused = resumable.train()
    assert refused.status == 1
    assert f"error: {rows}, line 5 is not JSON: " in refused.err
    assert refused.err.endswith("; restore the file, or remove that line\n")
    assert rows.read_bytes() == before
    assert checkpoint_steps(resumable.home / "run") == [3, 7, 9]


def test_a_second_process_is_turned_away_and_the_first_is_unharmed(
    shell: TrainShell, whole: Path
) -> None:
    shell.write_spec()
    answers: list[subprocess.CompletedProcess[str]] = []

    def second() -> None:
        command = [sys.executable, "-c", PROGRAM, *shell.arguments()]
        answers.append(subprocess.run(command, capture_output=True, text=True, check=False))

    first = shell.train(page=TriggerPage(step_line(6), second))
    assert first.status == 0
    assert (answers[0].returncode, answers[0].stdout) == (1, "")
    said = f"error: {shell.home / 'run'} is in use by process {os.getpid()} on "
    assert answers[0].stderr.startswith(said)
    assert answers[0].stderr.endswith("; wait for it, stop it, or choose another run\n")
    assert_same_run(shell.home / "run", whole)


def test_another_number_of_threads_is_refused_unless_accepted_and_then_marked(
    resumable: TrainShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_threads, given = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads + 1))
    torch.set_num_threads(n_threads + 1)
    try:
        refused = resumable.train()
        accepted = resumable.train_or_fail("--accept-environment")
    finally:
        torch.set_num_threads(n_threads)
    changed = (
        f"n_threads was {n_threads}, is {n_threads + 1}; omp_num_threads was {given}, is"
        f" {n_threads + 1}"
    )
    assert (refused.status, refused.out) == (1, "")
    assert (
        f"run was made under another environment: {changed}; resume under the former one, or give"
        in refused.err
    )
    assert step_line(11) in accepted.out.splitlines()[1]
    marks = [row.get("environment_changed") for row in rows_without_seconds(resumable.home / "run")]
    assert marks == [None] * 10 + [["n_threads", "omp_num_threads"]] * 2


def test_a_gradient_that_is_not_finite_stops_every_attempt_at_the_same_batch(
    shell: TrainShell,
) -> None:
    shell.write_spec(row_every=3, optimizer={"rate": 1e30})
    said = (
        f"error: {shell.home / 'run'}: the gradient of step 1 is not finite, on global batch 1; the"
        " state before it"
    )
    for _ in range(2):
        answer = shell.train()
        assert (answer.status, step_line(1) in answer.out) == (1, False)
        assert answer.err.splitlines()[-1].startswith(said)
        assert checkpoint_steps(shell.home / "run") == [0]
        assert rows_without_seconds(shell.home / "run") == []
        assert (
            newest_tensors(shell.home / "run")["pending.target_count"].item() == 4 * 31
        )  # those of step 0 alone
    assert (shell.home / "run/state").read_text().startswith("failed: DivergedError: ")


def test_held_out_nats_that_are_not_finite_are_shown_and_recorded_and_end_the_run(
    shell: TrainShell,
) -> None:
    shell.write_spec(valid_every=1, optimizer={"rate": 1e30})
    for _ in range(2):
        answer = shell.train()
        assert answer.status == 1
        assert "valid nan  gap nan" in answer.out
        said = (
            "the held-out loss after step 0 is not finite: nan; there is no checkpoint; lower the"
            " rate"
        )
        assert answer.err == f"error: {shell.home / 'run'}: {said}\n"
        (first,) = rows_without_seconds(shell.home / "run")
        assert first["valid_nats"] is None
        assert first["nonfinite"] == {"valid_nats": "nan", "gap": "nan"}
        assert checkpoint_steps(shell.home / "run") == []
        assert (
            shell.home / "run/state"
        ).read_text() == f"failed: DivergedError: {shell.home / 'run'}: {said}\n"
    assert answer.out.startswith(
        "note: no checkpoint is left: it begins again at step 1 of 12\nnote: 1 row of"
    )


@pytest.mark.parametrize(
    "every", [{"valid_every": 1}, {"checkpoint_every": 1}, {"row_every": 5, "checkpoint_every": 9}]
)
def test_weights_that_are_not_finite_end_the_run_and_are_never_saved(
    shell: TrainShell, every: dict[str, int]
) -> None:
    shell.write_spec(**{"valid_every": 100, **every}, optimizer={"rate": 1e38, "decay": 1e3})
    answer = shell.train()
    assert answer.status == 1
    said = (
        "the weight embedding.weight is not finite after step 0; there is no checkpoint; lower the"
        " rate"
    )
    assert answer.err == f"error: {shell.home / 'run'}: {said}\n"
    assert checkpoint_steps(shell.home / "run") == []
    assert (shell.home / "run/state").read_text().startswith("failed: DivergedError: ")


# A bias that moves by 2e38 a step leaves float32 with the second one, and no gradient hangs on it.
LEAPING = (
    "architecture={ preset = 'deepseek-v3', n_layers = 2, d_model = 32, attention = { n_heads = 2,"
    " d_latent = 16, d_query_latent = 16, d_content = 8, d_rotary = 8, d_value = 16 }, feed_forward"
    " = { n_experts = 8, n_active = 2, d_expert = 16, n_dense_layers = 1, d_ff = 32, router = {"
    " n_groups = 1, n_active_groups = 1, bias_rate = 2e38 } } }"
)


def test_of_a_run_whose_weights_break_the_newest_good_checkpoint_is_named_and_stays(
    shell: TrainShell,
) -> None:
    shell.write_spec(checkpoint_every=1)
    for _ in range(2):
        answer = shell.train("--set", LEAPING)
        assert answer.status == 1
        assert (
            "router.selection_bias is not finite after step 1; the newest good checkpoint is"
            " step-000" in answer.err
        )
        assert checkpoint_steps(shell.home / "run") == [0]
        assert all(
            tensor.isfinite().all() for tensor in newest_tensors(shell.home / "run").values()
        )
    assert answer.out.startswith(
        f"note: it resumes at step 2 of 12\nnote: 1 row of a later step was cut\n{step_line(2)}"
    )


class NoteListener(Watcher):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_that_was_told_nothing_speaks_to_nobody_and_its_notes_are_kept(
    resumable: TrainShell,
) -> None:
    spec = load_run(resumable.home / "run.json")
    text = prepare_corpus(spec.stages[0].corpus, resumable.cache, False)
    out, err, listener = io.StringIO(), io.StringIO(), NoteListener()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        done = train(spec, text, Workspace(resumable.home, device="cpu"), name="run")
        again = train(
            spec, text, Workspace(resumable.home, device="cpu"), name="run", watcher=listener
        )
    assert (out.getvalue(), err.getvalue()) == ("", "")
    assert done.notes == ("it resumes at step 11 of 12",)
    assert again.notes == ("it was finished before; nothing was done",)
    assert listener.notes == [*again.notes]


def test_a_run_killed_between_its_last_checkpoint_and_its_end_has_nothing_left_to_do(
    shell: TrainShell, whole: Path
) -> None:
    shell.write_spec()
    shutil.copytree(whole, shell.home / "run")
    (shell.home / "run/state").write_text("running\n")
    assert (
        shell.train_or_fail().out
        == f"note: its 12 steps were done before\n12 steps: {shell.home / 'run'}\n"
    )
    assert_same_run(shell.home / "run", whole)
