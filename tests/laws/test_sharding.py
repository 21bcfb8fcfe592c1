"""Sharding is invisible within rounding: two gloo processes that share out the weights by FSDP2
learn as one process does, and leave the same files.

Gradients, losses, checkpoints and resumption are compared, through the command line.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from rank_processes import Job, Result, checkpoint_tensors, require_same_runs, run_rows, train_all
from safetensors.torch import load_file

from paribus.cli import main

SPEC = """
objective = "{objective}"

[architecture]
preset = "{preset}"
n_layers = 2
d_model = 34
n_vocab = 513
dropout = 0.1
{more}

[corpus]
sources = [{{ kind = "copy", form = "{form}", n_documents = 600, max_length = 24 }}]

[training]
n_steps = {n_steps}
n_sequences = 8
n_micro_batches = 4
length = 48
row_every = 1
valid_every = 4
valid_batches = 1
checkpoint_every = 4
warmup = 2
"""
LABELS = """
[architecture]
preset = "t5"
n_layers = 2
d_model = 34
n_vocab = 513
attention = { n_heads = 2 }
encoder = { n_layers = 1 }

[corpus]
sources = [{ kind = "copy", form = "pairs", n_documents = 600, max_length = 24 }]

[training]
n_steps = 8
n_sequences = 4
length = 64
row_every = 1
valid_every = 4
valid_batches = 1
checkpoint_every = 8

[[stages]]
kind = "pretrain"
objective = "seq2seq"

[[stages]]
kind = "tune"
objective = { kind = "labels", n_labels = 3 }
corpus = { sources = [{ kind = "labelled", paths = "labelled.csv" }], test = 0.1 }
"""
# rows that two ranks cannot share equally, and a single one
UNEVEN = "feed_forward = { d_ff = 67 }\nembedding = { n_segments = 1 }"
HEADS = "attention = { n_heads = 2 }"
EXPERTS = (
    "attention = { n_heads = 2, d_latent = 16, d_query_latent = 16, d_content = 8, d_rotary = 8,"
    " d_value = 16 }\nfeed_forward = { n_experts = 7, n_active = 2, d_expert = 16, n_dense_layers ="
    " 1, d_ff = 33, router = { n_groups = 1, n_active_groups = 1 } }"
)
TIED = "one table for input and output"
CASES = {
    TIED: ("gpt2", "causal", f"{HEADS}\n{UNEVEN}"),
    "a head of its own": (
        "llama",
        "causal",
        "attention = { n_heads = 2, n_kv_heads = 1, d_head = 18 }\nfeed_forward = { d_ff = 67 }",
    ),
    "experts": ("deepseek-v3", "causal", EXPERTS),
    "an encoder": ("t5", "seq2seq", f"{HEADS}\nencoder = {{ n_layers = 1 }}"),
    "shared blocks": ("encdec-shared", "seq2seq", f"{HEADS}\nencoder = {{ n_layers = 2 }}"),
}
N_STEPS = {TIED: 20, "experts": 20}  # of other cases, which take their time too, 8
CHAIN = "a chain with a head of labels"
STOPPED, STOP_AFTER = "stopped", 5  # of 20 steps, between two checkpoints
FIRST = {"n_steps": "1", "checkpoint_every": "1", "valid_every": "1", "optimizer.clip": "false"}
DIVERGING = {
    "held-out loss": {"optimizer.rate": "1e30", "warmup": "0", "valid_every": "1"},
    "weight": {"optimizer.rate": "1e38", "warmup": "0", "valid_every": "1"},
    "gradient": {"optimizer.rate": "1e30", "warmup": "0"},
}
DIVERGED = {
    "held-out loss": "the held-out loss after step 0 is not finite",
    "weight": " is not finite after step 0",
    "gradient": "the gradient of step 1 is not finite, on global batch 1; the state before it is",
}
REFUSED = {
    "muon": "training.optimizer is muon, which needs whole matrices, and with --fsdp a rank holds",
    "adafactor": "training.optimizer is adafactor, which needs whole matrices",
}


def settings(changes: dict[str, str]) -> list[str]:
    """Changes of the training as words of a command."""
    words: list[str] = []
    for field, value in changes.items():
        words += ["--set", f"training.{field}={value}"]
    return words


def jobs(home: Path, *options: str) -> dict[str, Job]:
    """What one process and two ranks both do: every run, the first step of each, and a run that
    is interrupted.
    """
    by_name: dict[str, Job] = {}
    for name in (*CASES, CHAIN):
        by_name[name] = Job([str(home / f"{name}.toml"), *options])
    for name in CASES:
        by_name[f"first {name}"] = Job([*by_name[name].words, *settings(FIRST)])
    by_name[STOPPED] = Job(by_name[TIED].words, stop_after=STOP_AFTER)
    return by_name


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all specs and runs."""
    folder = tmp_path_factory.mktemp("sharding")
    for name, (preset, objective, more) in CASES.items():
        form = "pairs" if objective == "seq2seq" else "text"
        text = SPEC.format(
            preset=preset, objective=objective, more=more, form=form, n_steps=N_STEPS.get(name, 8)
        )
        (folder / f"{name}.toml").write_text(text)
    (folder / f"{CHAIN}.toml").write_text(LABELS)
    lines = [f"{number} is a number,{number % 3}" for number in range(600)]
    (folder / "labelled.csv").write_text("\n".join(["text,label", *lines]))
    return folder


@pytest.fixture(scope="module")
def alone(home: Path) -> dict[str, list[Result]]:
    """Every run as one process makes it."""
    return train_all(1, home / "one", jobs(home))


@pytest.fixture(scope="module")
def sharded(home: Path, alone: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """Every run as two ranks make it that share out the weights, interrupted runs that they
    resume, and what they refuse.
    """
    by_name = jobs(home, "--fsdp")
    words = by_name[TIED].words
    by_name["resumed"] = Job(words, begins_with=home / "two" / STOPPED)
    accepting = [*words, "--accept-environment"]
    by_name["was alone"] = Job(accepting, begins_with=home / "one" / STOPPED)
    for fault, changes in DIVERGING.items():
        by_name[fault] = Job([*words, *settings(changes)])
    for kind in REFUSED:
        by_name[kind] = Job([*words, *settings({"optimizer.kind": kind})])
    return train_all(2, home / "two", by_name)


def nats(folder: Path) -> torch.Tensor:
    return torch.tensor([row["nats"] for row in run_rows(folder)], dtype=torch.float64)


def require_close_runs(one: Path, two: Path, n_steps: int) -> None:
    """Two runs that differ by rounding alone, after every one of their steps."""
    assert len(nats(one)) == n_steps
    torch.testing.assert_close(nats(two), nats(one), atol=1e-5, rtol=0)
    changing = {"nats", "gradient_norm", "valid_nats", "gap"}
    for mine, theirs in zip(run_rows(one), run_rows(two), strict=True):
        assert mine.keys() == theirs.keys() - {"environment_changed"}
        assert all(mine[name] == theirs[name] for name in mine.keys() - changing)
        if "valid_nats" in mine:
            assert mine["valid_nats"] == pytest.approx(theirs["valid_nats"], abs=1e-5)
    mine, theirs = checkpoint_tensors(one), checkpoint_tensors(two)
    assert list(mine) == list(theirs)
    for name, tensor in mine.items():
        assert (tensor.shape, tensor.dtype) == (theirs[name].shape, theirs[name].dtype)
        torch.testing.assert_close(theirs[name], tensor, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_the_first_step_are_those_of_one_process(
    name: str, home: Path, alone: dict[str, list[Result]], sharded: dict[str, list[Result]]
) -> None:
    # after one step AdamW keeps 1 - beta1 of the gradient, which is not clipped here
    one, two = (
        checkpoint_tensors(home / side / f"first {name}" / "run") for side in ("one", "two")
    )
    gradients = {name: tensor for name, tensor in one.items() if name.startswith("exp_avg.")}
    whole = torch.cat([tensor.flatten() for tensor in gradients.values()]).norm()
    assert whole > 0
    for place, gradient in gradients.items():
        # the biases of keys have none but rounding
        size = max(gradient.norm(), 1e-4 * whole)
        assert (two[place] - gradient).norm() / size < 1e-6, place


@pytest.mark.parametrize("name", CASES)
def test_ranks_that_share_out_the_weights_learn_as_one_process(
    name: str, home: Path, alone: dict[str, list[Result]], sharded: dict[str, list[Result]]
) -> None:
    (one,), (first, second) = alone[name], sharded[name]
    assert (one.status, first.status, second.status) == (0, 0, 0)
    n_steps = N_STEPS.get(name, 8)
    assert first.out.splitlines()[-1].startswith(f"{n_steps} steps: ")
    assert second.out == ""  # the rank that leads speaks for all
    two = home / "two" / name / "run"
    require_close_runs(home / "one" / name / "run", two, n_steps)
    environment = json.loads((two / "environment.json").read_text())[0]
    assert environment["device"] == "2 × cpu, sharded"


def test_ranks_that_share_out_the_weights_train_a_chain_with_a_head(
    home: Path, alone: dict[str, list[Result]], sharded: dict[str, list[Result]]
) -> None:
    assert [result.status for result in sharded[CHAIN]] == [0, 0]
    stages = sorted(path.name for path in (home / "one" / CHAIN).iterdir())
    assert stages == sorted(path.name for path in (home / "two" / CHAIN).iterdir())
    assert len(stages) == 2
    for stage in stages:
        require_close_runs(home / "one" / CHAIN / stage, home / "two" / CHAIN / stage, 8)
    one, two = (
        load_file(newest_checkpoint(home / side / CHAIN / "run") / "label-head.safetensors")
        for side in ("one", "two")
    )
    assert one.keys() == two.keys()
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)


def newest_checkpoint(run: Path) -> Path:
    return sorted((run / "checkpoints").iterdir())[-1]


def test_a_sharded_run_that_is_interrupted_resumes_bit_for_bit(
    home: Path, sharded: dict[str, list[Result]]
) -> None:
    assert [result.status for result in sharded[STOPPED]] == [143, 143]
    # ranks stop together, at the step after the signal
    assert f"step {STOP_AFTER + 1} of {N_STEPS[TIED]} is saved" in sharded[STOPPED][0].out
    assert [result.status for result in sharded["resumed"]] == [0, 0]
    require_same_runs(home / "two" / TIED / "run", home / "two" / "resumed" / "run")


def test_a_sharded_run_resumes_in_one_process_if_that_is_accepted(
    home: Path, sharded: dict[str, list[Result]], capfd: pytest.CaptureFixture[str]
) -> None:
    runs = home / "here"
    shutil.copytree(home / "two" / STOPPED, runs)
    words = ["train", str(home / f"{TIED}.toml"), "--name", "run", "--runs", str(runs)]
    words += ["--cache", str(home / "cache"), "--device", "cpu"]
    assert main(words) == 1
    assert "2 × cpu, sharded" in capfd.readouterr().err
    assert main([*words, "--accept-environment"]) == 0
    assert f"it resumes at step {STOP_AFTER + 2} of {N_STEPS[TIED]}" in capfd.readouterr().out
    require_close_runs(home / "one" / TIED / "run", runs / "run", N_STEPS[TIED])


def test_a_run_of_one_process_resumes_sharded_if_that_is_accepted(
    home: Path, sharded: dict[str, list[Result]]
) -> None:
    assert [result.status for result in sharded["was alone"]] == [0, 0]
    two = home / "two" / "was alone" / "run"
    require_close_runs(home / "one" / TIED / "run", two, N_STEPS[TIED])


@pytest.mark.parametrize("fault", DIVERGING)
def test_sharded_ranks_whose_run_diverges_stop_together(
    fault: str, sharded: dict[str, list[Result]]
) -> None:
    assert [result.status for result in sharded[fault]] == [1, 1]
    for result in sharded[fault]:
        assert DIVERGED[fault] in result.err
        assert "Traceback" not in result.err


@pytest.mark.parametrize("kind", REFUSED)
def test_optimizers_of_whole_matrices_are_refused(
    kind: str, sharded: dict[str, list[Result]]
) -> None:
    for result in sharded[kind]:
        assert result.status == 2
        assert REFUSED[kind] in result.err
