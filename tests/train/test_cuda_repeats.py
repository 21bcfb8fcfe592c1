"""A seed fixes a run on CUDA: made twice, or killed and resumed, it is the same bit for bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_model import tiny_architecture
from torch import Tensor

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.model import Transformer, build
from paribus.objectives import Problem, pose_problem, require_permitted, separates_documents
from paribus.record.rows import CLOCK_FIELDS
from paribus.spec import Architecture, load, presets, resolve
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    Continuation,
    LastToken,
    MaskedLM,
    Objective,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SpanCorruption,
)
from paribus.spec.training import Training
from paribus.train.learner import Learner

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")
KILLED_RUN = Path(__file__).parents[1] / "support" / "killed_cuda_run.py"
N_TEXT, N_ROWS, LENGTH, N_STEPS = 61, 24, 96, 50
WORDS = Vocabulary(N_TEXT, torch.tensor([1] * N_TEXT + [0] * N_SPECIAL_TOKENS))
OBJECTIVES: dict[str, Objective] = {
    "causal": CausalLM(),
    "reverse": ReverseLM(),
    "prefix": PrefixLM(grid=4),
    "masked": MaskedLM(),
    "last_token": LastToken(grid=4),
    "spans": SpanCorruption(),
    "continuation": Continuation(),
    "seq2seq": Seq2Seq(),
    "ul2": UL2(),
}


def wide(preset: str) -> Architecture:
    """Two layers with widths that every fast kernel accepts."""
    spec = load(preset)
    changes: dict[str, object] = {
        "n_vocab": WORDS.size,
        "max_length": LENGTH + 8,
        "n_layers": 2,
        "d_model": 64,
        "dropout": 0.1,
    }
    if spec.encoder is not None:
        changes["encoder.n_layers"] = 2
    if spec.attention.kind == "latent":
        widths = ("d_content", "d_rotary", "d_value", "d_latent")
        changes |= {f"attention.{name}": 16 for name in widths}
    else:
        changes["attention.d_head"] = 16
    experts = spec.feed_forward.kind == "experts"
    changes["feed_forward.d_expert" if experts else "feed_forward.d_ff"] = 96
    return tiny_architecture(preset, changes)


def permitted(preset: str, objective: Objective) -> bool:
    try:
        require_permitted(objective, resolve(wide(preset)), LENGTH)
    except SpecError:
        return False
    return True


CASES = [
    (preset, name)
    for preset in presets()
    for name, own in OBJECTIVES.items()
    if permitted(preset, own)
]


def reading(k: int, pairs: bool) -> TextBatch:
    tokens = torch.randint(N_TEXT, (N_ROWS, LENGTH), generator=torch.Generator().manual_seed(k))
    rows, zeros = torch.arange(N_ROWS), torch.zeros_like(tokens)
    if not pairs:
        return TextBatch(k, rows, tokens, zeros, zeros)
    tokens[:, -4], tokens[:, -3:] = WORDS.eos, WORDS.pad
    real = (torch.arange(LENGTH) < LENGTH - 3).expand_as(tokens)
    return TextBatch(k, rows, tokens, zeros, zeros, real, torch.full((N_ROWS,), LENGTH // 2))


def posed(objective: Objective, model: Transformer, k: int) -> Problem:
    read = reading(k, isinstance(objective, Seq2Seq))
    return pose_problem(
        objective, read, WORDS, 1, model.encoder is not None, separates_documents(model.spec)
    ).pin_memory()


class Student:
    """A learner that can begin anew: compiled once, for both runs."""

    def __init__(self, preset: str, objective: Objective, deterministic: bool = True):
        self.objective, self.model = objective, build(wide(preset), seed=1, device=CUDA)
        training = Training(
            n_steps=N_STEPS,
            n_sequences=N_ROWS,
            length=LENGTH,
            warmup=5,
            z_loss=1e-4,
            deterministic=deterministic,
        )
        self.learner = Learner(self.model, training, WORDS)
        self.start = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def trained(self) -> dict[str, Tensor]:
        """Nats and gradient norm of every step from the start on, and the weights after the
        last.
        """
        self._begin_anew()
        told = []
        for k in range(N_STEPS):
            sums = self.learner.step(k, [posed(self.objective, self.model, k)])
            told.append(
                torch.stack([sums.nats_sum, sums.gradient_norm.double()])
            )  # a replay writes over the sums
        return {
            "steps": torch.stack(told),
            **{name: own.clone() for name, own in self.model.state_dict().items()},
        }

    @torch.no_grad()
    def _begin_anew(self) -> None:
        for name, tensor in self.model.state_dict().items():
            tensor.copy_(self.start[name])
        for state in self.learner.optimizer.state.values():
            for tensor in state.values():
                tensor.zero_()


@pytest.mark.parametrize(
    ("preset", "objective"), CASES, ids=[f"{preset}-{name}" for preset, name in CASES]
)
def test_a_run_made_twice_is_the_same(preset: str, objective: str) -> None:
    one = Student(preset, OBJECTIVES[objective])
    # the second replays from its first step on what the first launched
    first, second = (
        one.trained(),
        one.trained(),
    )
    assert first["steps"].isfinite().all()
    assert one.learner.graph_runner.graphs
    assert [name for name, tensor in first.items() if not tensor.equal(second[name])] == []


@pytest.mark.parametrize("preset", ["gpt2", "mixtral"])
def test_two_learners_of_one_seed_agree(preset: str) -> None:
    first, second = (Student(preset, CausalLM()).trained() for _ in range(2))
    assert [name for name, tensor in first.items() if not tensor.equal(second[name])] == []


def killed(home: Path, preset: str, at: int | None) -> int:
    """The exit status of a process that trains there and is killed after a step."""
    command = [sys.executable, str(KILLED_RUN), str(home), preset, str(-1 if at is None else at)]
    return subprocess.run(
        command, check=False, env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(home / "c")}
    ).returncode


def told(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in row.items() if name not in CLOCK_FIELDS} for row in rows
    ]


@pytest.mark.parametrize("preset", ["gpt2", "unilm"])
def test_a_run_killed_and_resumed_ends_equal(preset: str, tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    assert killed(whole, preset, None) == 0
    assert killed(torn, preset, 26) == -signal.SIGKILL
    assert killed(torn, preset, None) == 0
    assert told(torn / "run") == told(whole / "run")
    last = "checkpoints/step-000000039"
    left, right = (load_file(home / "run" / last / "weights.safetensors") for home in (whole, torn))
    assert all(tensor.equal(right[name]) for name, tensor in left.items())
