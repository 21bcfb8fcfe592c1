"""A tiny thing to learn: the second half of each row repeats the first."""

import torch
from tiny_model import tiny_architecture

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.model import Transformer, build
from paribus.objectives import Problem, pose_problem, separates_documents
from paribus.spec.objectives import Objective
from paribus.spec.training import Training
from paribus.train.learner import Learner

N_TEXT = 11
VOCABULARY = Vocabulary(N_TEXT, torch.tensor([2] * N_TEXT + [0] * N_SPECIAL_TOKENS))


def copy_batch(k: int, n_rows: int = 8, length: int = 20) -> TextBatch:
    half = torch.randint(N_TEXT, (n_rows, length // 2), generator=torch.Generator().manual_seed(k))
    tokens = torch.cat([half, half], 1)
    return TextBatch(
        k, torch.arange(n_rows), tokens, torch.zeros_like(tokens), torch.zeros_like(tokens)
    )


def slice_batch(text: TextBatch, first: int, last: int) -> TextBatch:
    rows = slice(first, last)
    return TextBatch(
        text.k,
        text.rows_B[rows],
        text.tokens_BT[rows],
        text.documents_BT[rows],
        text.sentences_BT[rows],
        None if text.real_BT is None else text.real_BT[rows],
        None if text.target_starts_B is None else text.target_starts_B[rows],
    )


def tiny_copy_model(
    preset: str, changes: dict[str, object] | None = None, seed: int = 1
) -> Transformer:
    return build(
        tiny_architecture(preset, {"n_vocab": VOCABULARY.size, **(changes or {})}), seed=seed
    )


def copy_learner(model: Transformer, n_steps: int = 50, n_micro_batches: int = 1) -> Learner:
    return Learner(
        model,
        Training(n_steps=n_steps, n_sequences=8, length=20, n_micro_batches=n_micro_batches),
        VOCABULARY,
    )


def pose_copy_task(objective: Objective, model: Transformer, text: TextBatch) -> Problem:
    return pose_problem(
        objective, text, VOCABULARY, 1, model.encoder is not None, separates_documents(model.spec)
    )
