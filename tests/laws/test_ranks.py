"""Ranks are invisible: two gloo processes under DDP are, bit for bit, one that works through
the same two parts.

Rows, weights and the optimizer's memory are compared, through the command line, over objectives and
an expert model.
"""

import json
from pathlib import Path

import pytest
from rank_processes import Job, Result, require_same_runs, train_all

from paribus.errors import SpecError
from paribus.spec.training import Training
from paribus.train.ranks import Ranks

SPEC = """
objective = "{objective}"

[architecture]
preset = "{preset}"
n_layers = 2
d_model = 32
dropout = 0.1
{more}

[corpus]
sources = [{{ kind = "copy", form = "{form}", n_documents = 600, max_length = 24 }}]

[training]
n_steps = 12
n_sequences = 6
n_micro_batches = 2
length = 48
row_every = 3
valid_every = 6
valid_batches = 1
checkpoint_every = 5
warmup = 5
"""
CHAIN = """
[architecture]
preset = "gpt2"
n_layers = 2
d_model = 32
attention = {{ n_heads = 2 }}

[corpus]
sources = [{{ kind = "copy", form = "text", n_documents = 600, max_length = 24 }}]

[training]
n_steps = 6
n_sequences = 4
n_micro_batches = 2
length = 64
row_every = 3
valid_every = 3
valid_batches = 1
checkpoint_every = 6

[[stages]]
kind = "pretrain"
{stages}
"""
INSTRUCT = """
[[stages]]
kind = "instruct"
objective = "seq2seq"
corpus.sources = [{ kind = "copy", form = "conversations", n_documents = 600, max_length = 24 }]
"""
PREFER = """
[[stages]]
kind = "prefer"
objective = "preference"
corpus.sources = [{ kind = "copy", form = "preferences", n_documents = 600, max_length = 24 }]
"""
LABELS = """
[[stages]]
kind = "tune"
objective = { kind = "labels", n_labels = 4 }
corpus = { sources = [{ kind = "labelled", paths = "labelled.csv" }], test = 0.1 }
"""
CHAINS = {"preferences": INSTRUCT + PREFER, "a head": LABELS}
HEADS = "attention = { n_heads = 2 }"
EXPERTS = (
    "attention = { n_heads = 2, d_latent = 16, d_query_latent = 16, d_content = 8, d_rotary = 8,"
    " d_value = 16 }\nfeed_forward = { n_experts = 8, n_active = 2, d_expert = 16, n_dense_layers ="
    " 1, d_ff = 32, router = { n_groups = 1, n_active_groups = 1 } }"
)
CASES = [
    ("gpt2", "causal", HEADS),
    ("deepseek-v3", "causal", EXPERTS),
    ("unilm", "prefix", HEADS),
    ("t5", "seq2seq", f"{HEADS}\nencoder = {{ n_layers = 1 }}"),
]
DIVERGING = {
    "1e30": "the held-out loss after step 0 is not finite",
    "1e38": " is not finite after step 0",
}


def specs() -> dict[str, str]:
    """Every run that is trained, by its name."""
    texts = {}
    for preset, objective, more in CASES:
        form = "pairs" if objective == "seq2seq" else "text"
        texts[preset] = SPEC.format(preset=preset, objective=objective, more=more, form=form)
    for name, stages in CHAINS.items():
        texts[name] = CHAIN.format(stages=stages)
    return texts


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all specs and runs."""
    folder = tmp_path_factory.mktemp("ranks")
    for name, text in specs().items():
        (folder / f"{name}.toml").write_text(text)
    lines = [f"{number} is a number,{number % 4}" for number in range(600)]
    (folder / "labelled.csv").write_text("\n".join(["text,label", *lines]))
    return folder


@pytest.fixture(scope="module")
def alone(home: Path) -> dict[str, list[Result]]:
    """Every run as one process makes it."""
    return train_all(1, home / "one", {name: Job([str(home / f"{name}.toml")]) for name in specs()})


@pytest.fixture(scope="module")
def together(home: Path, alone: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """Every run as two ranks make it, and those that diverge."""
    jobs = {name: Job([str(home / f"{name}.toml")]) for name in specs()}
    for rate in DIVERGING:
        words = [
            str(home / "gpt2.toml"),
            "--set",
            f"training.optimizer.rate={rate}",
            "--set",
            "training.warmup=0",
            "--set",
            "training.valid_every=1",
        ]
        jobs[rate] = Job(words)
    return train_all(2, home / "two", jobs)


@pytest.mark.parametrize("preset", [preset for preset, *_ in CASES])
def test_two_ranks_are_one_process_with_two_parts(
    preset: str, home: Path, alone: dict[str, list[Result]], together: dict[str, list[Result]]
) -> None:
    (one,), (first, second) = alone[preset], together[preset]
    assert (one.status, first.status, second.status) == (0, 0, 0)
    assert one.out.splitlines()[-1].startswith("12 steps: ")
    assert first.out.splitlines()[-1].startswith("12 steps: ")
    assert second.out == ""  # the rank that leads speaks for all
    two = home / "two" / preset / "run"
    require_same_runs(home / "one" / preset / "run", two)
    assert json.loads((two / "environment.json").read_text())[0]["device"] == "2 × cpu"


@pytest.mark.parametrize("name", CHAINS)
def test_two_ranks_train_a_chain_as_one_process_does(
    name: str, home: Path, alone: dict[str, list[Result]], together: dict[str, list[Result]]
) -> None:
    (one,), (first, second) = alone[name], together[name]
    assert (one.status, first.status, second.status) == (0, 0, 0)
    assert second.out == ""
    stages = sorted(path.name for path in (home / "one" / name).iterdir())
    assert stages == sorted(path.name for path in (home / "two" / name).iterdir())
    assert len(stages) == 1 + CHAINS[name].count("[[stages]]")
    for stage in stages:
        require_same_runs(home / "one" / name / stage, home / "two" / name / stage)


@pytest.mark.parametrize("rate", DIVERGING)
def test_ranks_whose_run_diverges_stop_together(
    rate: str, together: dict[str, list[Result]]
) -> None:
    results = together[rate]
    assert [result.status for result in results] == [1, 1]
    for result in results:
        assert DIVERGING[rate] in result.err
        assert "Traceback" not in result.err
    assert [result.out == "" for result in results] == [False, True]


def test_ranks_share_a_batch_in_equal_parts_no_larger_than_asked() -> None:
    training = Training(n_steps=1, n_sequences=24, n_micro_batches=3)
    assert [Ranks(0, size).n_micro_batches(training) for size in (1, 2, 4, 24)] == [3, 4, 4, 24]
    with pytest.raises(
        SpecError,
        match="n_sequences is 24, which 5 ranks cannot share equally; use a multiple of 5",
    ):
        Ranks(0, 5).n_micro_batches(training)
