"""Held-out texts as an objective poses them in training."""

from __future__ import annotations

import torch

from paribus.batch import TextBatch
from paribus.errors import SpecError
from paribus.objectives import Problem, pose_problem, separates_documents
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.spec.objectives import Objective, components_of

ON_TEXT = ("causal", "reverse", "prefix", "continuation", "spans", "masked", "last_token")


def require_running_text(objective: Objective) -> None:
    """SpecError where an objective asks nothing of running text."""
    kinds = [component.objective.kind for component in components_of(objective)]
    if not set(kinds) <= set(ON_TEXT):
        raise SpecError(
            f"objective.kind is {objective.kind!r}, which is posed of pairs or of labels, but this"
            " probe reads running text; probe the stage before it"
        )


def text_batch(subject: ProbedModel, texts: ProbeTexts, k: int = 0) -> TextBatch:
    """Texts as rows of step k, a document each. What the objective itself puts before a text is
    left out.
    """
    tokens_BT = texts.tokens_BT[:, len(subject.layout.question_begin) :]
    nothing_BT = torch.zeros_like(tokens_BT)
    return TextBatch(
        k=k,
        rows_B=torch.arange(len(tokens_BT)),
        tokens_BT=tokens_BT,
        documents_BT=nothing_BT,
        sentences_BT=nothing_BT,
    )


def posed_texts(
    subject: ProbedModel, texts: ProbeTexts, objective: Objective, seed: int, k: int = 0
) -> Problem:
    """What an objective asks of texts as if they were step k of training."""
    problem = pose_problem(
        objective,
        text_batch(subject, texts, k),
        subject.layout.vocabulary,
        seed,
        has_encoder=subject.spec.encoder is not None,
        separates_documents=separates_documents(subject.spec),
    )
    return problem.to(subject.device)
