"""What a run counts of itself: tokens without padding, and apart from them the positions that
are computed.
"""

import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from train_shell import TrainShell, TriggerPage, rows_without_seconds, step_line

from paribus.cli import main
from paribus.corpus import prepare_corpus
from paribus.spec.run import load_run
from paribus.train import training_state
from paribus.train.learner import Learner

N_STEPS, N_SEQUENCES, LENGTH = 12, 4, 32
PAIRS = {"kind": "copy", "form": "pairs", "n_documents": 500, "min_length": 3, "max_length": 12}
ENCODER = {"encoder": {"n_layers": 1}, "mask": "causal"}


def write(
    shell: TrainShell, objective: str = "seq2seq", encoder: bool = False, **training: Any
) -> dict[str, Any]:
    """The table of a run on pairs, or of another objective on running text, written where the
    shell finds it.
    """
    corpus = {"sources": [PAIRS]} if objective == "seq2seq" else {}
    path = shell.write_spec(corpus, **training)
    table = json.loads(path.read_text())
    table["objective"] = objective
    table["architecture"] |= ENCODER if encoder else {}
    path.write_text(json.dumps(table))
    return table


def tokens_of_text(table: dict[str, Any], cache: Path, n_steps: int) -> int:
    """Tokens that a person would count in the batches themselves."""
    stage = load_run(table).stages[0]
    built = prepare_corpus(stage.corpus, cache, show_progress=False)
    batches = [built.text_batch("train", 1, k, N_SEQUENCES, LENGTH) for k in range(n_steps)]
    return sum(int((batch.tokens_BT != built.vocabulary.pad).sum()) for batch in batches)


@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("n_micro_batches", [1, 4])
def test_rows_of_pairs_count_text_alike_in_one_stack_and_in_two(
    shell: TrainShell, encoder: bool, n_micro_batches: int
) -> None:
    table = write(shell, encoder=encoder, n_micro_batches=n_micro_batches)
    shell.train_or_fail()
    rows = rows_without_seconds(shell.home / "run")
    assert [row["tokens_read"] for row in rows] == [
        tokens_of_text(table, shell.cache, n + 1) for n in range(N_STEPS)
    ]
    computed = N_SEQUENCES * LENGTH * (2 if encoder else 1)
    assert [row["positions_computed"] for row in rows] == [
        computed * (n + 1) for n in range(N_STEPS)
    ]
    assert rows[-1]["tokens_read"] < 0.8 * N_STEPS * N_SEQUENCES * LENGTH


@pytest.mark.parametrize("objective", ["causal", "prefix", "spans"])
def test_running_text_has_no_padding(shell: TrainShell, objective: str) -> None:
    write(shell, objective)
    shell.train_or_fail()
    last = rows_without_seconds(shell.home / "run")[-1]
    assert last["tokens_read"] == last["positions_computed"] > 0


def test_a_run_on_pairs_that_was_stopped_counts_on(shell: TrainShell) -> None:
    table = write(shell)
    answer = shell.train(
        page=TriggerPage(step_line(6), lambda: signal.raise_signal(signal.SIGTERM))
    )
    assert answer.status == 143
    shell.train_or_fail()
    last = rows_without_seconds(shell.home / "run")[-1]
    assert last["tokens_read"] == tokens_of_text(table, shell.cache, N_STEPS)
    assert last["positions_computed"] == N_STEPS * N_SEQUENCES * LENGTH


def as_once_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints as they were before positions were counted: five numbers, and tokens with
    padding.
    """
    read = training_state.load_training_state

    def older(folder: Path, learner: Learner) -> dict[str, Tensor]:
        found = read(folder, learner)
        return {**found, "counters": found["counters"][:5]}

    monkeypatch.setattr(training_state, "load_training_state", older)


def stopped(shell: TrainShell, objective: str) -> None:
    write(shell, objective)
    page = TriggerPage(step_line(6), lambda: signal.raise_signal(signal.SIGTERM))
    assert shell.train(page=page).status == 143


def test_an_older_checkpoint_on_running_text_goes_on(
    shell: TrainShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(shell, "causal")
    as_once_saved(monkeypatch)
    shell.train_or_fail()
    last = rows_without_seconds(shell.home / "run")[-1]
    assert last["tokens_read"] == last["positions_computed"] == N_STEPS * N_SEQUENCES * LENGTH


def test_an_older_checkpoint_on_pairs_is_refused_for_its_count(
    shell: TrainShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(shell, "seq2seq")
    as_once_saved(monkeypatch)
    answer = shell.train(page=io.StringIO())
    assert answer.status == 1
    said = (
        "step-000000005 was saved when tokens_read still counted padding, and the rows of one run"
        " have one count; "
    )
    assert (
        f"{said}train it from its start, in another folder by --runs or under another --name"
        in " ".join(answer.err.split())
    )


@pytest.mark.gpu
def test_a_replayed_step_counts_as_a_launched_one(shell: TrainShell) -> None:
    table = write(shell, encoder=True)
    words = ["cuda" if word == "cpu" else word for word in shell.arguments()]
    assert main(words) == 0
    assert torch.cuda.is_available()
    assert rows_without_seconds(shell.home / "run")[-1]["tokens_read"] == tokens_of_text(
        table, shell.cache, N_STEPS
    )
