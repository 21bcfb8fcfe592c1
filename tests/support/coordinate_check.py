"""How far block outputs, scores and logits move from initialisation, by width."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.model import Transformer, build
from paribus.objectives import Problem, pose_problem
from paribus.spec import load
from paribus.spec.objectives import CausalLM
from paribus.spec.training import AdamW, Constant, Training
from paribus.train.learner import Learner

N_LAYERS, D_HEAD, LENGTH, N_ROWS, N_STEPS = 4, 32, 16, 4, 10
# A small rate, so that what a step changes is linear in it: a large first step has terms of second
# order that weigh more where models are narrow. Few words, because learning has about as many
# directions as there are words, and those have to be few beside the narrowest width.
N_TEXT, RATE = 7, 1e-4
VOCABULARY = Vocabulary(N_TEXT, torch.tensor([1] * N_TEXT + [0] * N_SPECIAL_TOKENS))
LOGITS = "logits"
PLACES = ("block_output", "attention_scores", LOGITS)
Changes = dict[tuple[int, str], float]  # by step and place


class Coordinates:
    """An observer that keeps block outputs and scores of all layers."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], Tensor] = {}

    def wants(self, name: str, layer: int) -> bool:
        return name.removeprefix("stack.") in PLACES

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.seen[name.removeprefix("stack."), layer] = value.detach().clone()


def text_batch(k: int) -> TextBatch:
    generator = torch.Generator().manual_seed(k)
    half = torch.randint(N_TEXT, (N_ROWS, LENGTH // 2), generator=generator)
    tokens = torch.cat([half, half], 1)
    zeros = torch.zeros_like(tokens)
    return TextBatch(k, torch.arange(N_ROWS), tokens, zeros, zeros)


def coordinates(model: Transformer, problem: Problem) -> dict[tuple[str, int], Tensor]:
    """Block outputs and scores of each layer, and logits."""
    observer = Coordinates()
    with torch.no_grad():
        logits = model(problem.inputs, observer=observer).logits_BTV
    return {**observer.seen, (LOGITS, 0): logits}


def build_model(init: Mapping[str, Any], width: int, seed: int) -> Transformer:
    changes = {
        "n_layers": N_LAYERS,
        "d_model": width,
        "attention.n_heads": width // D_HEAD,
        "n_vocab": VOCABULARY.size,
        "max_length": LENGTH,
        "dropout": 0.0,
        "init": dict(init),
    }
    return build(load("gpt2", changes=changes), seed=seed)


def log_changes(init: Mapping[str, Any], width: int, seed: int, n_steps: int) -> Changes:
    """The log of the rms change from initialisation after each of the first steps, on the text
    that is learnt: its mean over layers.
    """
    model = build_model(init, width, seed)
    training = Training(
        n_steps=100,
        n_sequences=N_ROWS,
        length=LENGTH,
        optimizer=AdamW(rate=RATE),
        schedule=Constant(),
    )
    learner = Learner(model, training, VOCABULARY)
    problem = pose_problem(CausalLM(), text_batch(seed), VOCABULARY, 1, False, False)
    first = coordinates(model, problem)
    changes: Changes = {}
    for step in range(1, n_steps + 1):
        learner.step(step - 1, [problem])
        logs: dict[str, list[float]] = {}
        for (place, layer), now in coordinates(model, problem).items():
            change = (now - first[place, layer]).square().mean().sqrt().item()
            logs.setdefault(place, []).append(math.log(change))
        for place, own in logs.items():
            changes[step, place] = sum(own) / len(own)
    return changes


def width_slopes(
    init: Mapping[str, Any], widths: Sequence[int], seeds: Sequence[int], n_steps: int = N_STEPS
) -> Changes:
    """The slope of the log rms change on log width by least squares over all seeds."""
    columns = [log_changes(init, width, seed, n_steps) for width in widths for seed in seeds]
    logs = torch.tensor([math.log(width) for width in widths for _ in seeds], dtype=torch.float64)
    centred = logs - logs.mean()
    slopes: Changes = {}
    for key in columns[0]:
        values = torch.tensor([column[key] for column in columns], dtype=torch.float64)
        slopes[key] = ((centred * values).sum() / centred.square().sum()).item()
    return slopes
