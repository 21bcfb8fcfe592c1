"""A tiny thing to learn: the second half of each row repeats the first."""

import torch

from paribus.batch import N_SENTINELS, Reading, Vocabulary
from paribus.model import Transformer, build
from paribus.objectives import Problem, keeps_documents, pose
from paribus.spec.objectives import Objective
from paribus.spec.training import Training
from paribus.train.learner import Learner
from tiny import tiny

N_TEXT = 11
WORDS = Vocabulary(N_TEXT, torch.tensor([2] * N_TEXT + [0] * (7 + N_SENTINELS)))


def reading(k: int, n_rows: int = 8, length: int = 20) -> Reading:
    half = torch.randint(N_TEXT, (n_rows, length // 2), generator=torch.Generator().manual_seed(k))
    tokens = torch.cat([half, half], 1)
    return Reading(k, torch.arange(n_rows), tokens, torch.zeros_like(tokens), torch.zeros_like(tokens))


def part(whole: Reading, first: int, last: int) -> Reading:
    rows = slice(first, last)
    return Reading(
        whole.k, whole.rows_B[rows], whole.tokens_BT[rows], whole.documents_BT[rows], whole.sentences_BT[rows],
        None if whole.real_BT is None else whole.real_BT[rows],
        None if whole.targets_from_B is None else whole.targets_from_B[rows],
    )  # fmt: skip


def student(preset: str, changes: dict[str, object] | None = None, seed: int = 1) -> Transformer:
    return build(tiny(preset, {"n_vocab": WORDS.size, **(changes or {})}), seed=seed)


def learner(model: Transformer, n_steps: int = 50, n_parts: int = 1) -> Learner:
    return Learner(model, Training(n_steps=n_steps, n_sequences=8, length=20, n_parts=n_parts), WORDS)


def posed(objective: Objective, model: Transformer, text: Reading) -> Problem:
    return pose(objective, text, WORDS, 1, model.encoder is not None, keeps_documents(model.spec))
