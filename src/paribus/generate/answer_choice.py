"""The next tokens of answers that have settings, places and draws of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paribus.generate.choosing import RowChoices, choose_tokens, row_choices, token_logprobs
from paribus.generate.running_answer import RunningAnswer
from paribus.generate.token_request import SaidToken


class AnswerChooser:
    """Chooses a token for each of some answers; what it prepares serves as long as they stay."""

    def __init__(self) -> None:
        self._answers: list[RunningAnswer] = []
        self._choices: RowChoices | None = None
        self._bar_BV = torch.empty(0)

    def choose(self, answers: Sequence[RunningAnswer], logits_BV: Tensor) -> list[SaidToken]:
        """The next token of each answer, with the log-probabilities that it asks for."""
        choices = self._prepare(answers, logits_BV.device)
        uniforms_B = seen_BV = None
        if choices.temperature_B is not None:
            draws = [one.next_draw() if one.sampling.temperature else 0.0 for one in answers]
            uniforms_B = torch.tensor(draws, dtype=torch.float64, device=logits_BV.device)
        if choices.repetition_penalty_B is not None:
            none_V = torch.zeros_like(self._bar_BV[0], dtype=torch.bool)
            seen = [none_V if one.seen_V is None else one.seen_V for one in answers]
            seen_BV = torch.stack(seen)
        token_B = choose_tokens(logits_BV + self._bar_BV, choices, uniforms_B, seen_BV)
        said = [SaidToken(token) for token in token_B.tolist()]
        return _with_logprobs(answers, logits_BV, token_B, said)

    def _prepare(self, answers: Sequence[RunningAnswer], device: torch.device) -> RowChoices:
        is_same = len(answers) == len(self._answers) and all(map(_is, answers, self._answers))
        if self._choices is None or not is_same:
            self._answers = list(answers)
            self._choices = row_choices([one.sampling for one in answers], device)
            self._bar_BV = torch.stack([one.bar_V for one in answers])
        return self._choices


def _is(one: RunningAnswer, other: RunningAnswer) -> bool:
    return one is other


def _with_logprobs(
    answers: Sequence[RunningAnswer], logits_BV: Tensor, token_B: Tensor, said: list[SaidToken]
) -> list[SaidToken]:
    """Tokens with their log-probabilities, where an answer asks for them."""
    numbers = [one.sampling.n_logprobs for one in answers]
    rows = [row for row, number in enumerate(numbers) if number is not None]
    if not rows:
        return said
    n_likeliest = max(number for number in numbers if number is not None)
    found = token_logprobs(logits_BV[rows], token_B[rows], n_likeliest)
    for row, logprob, ids, logprobs in zip(
        rows,
        found.said_B.tolist(),
        found.likeliest_BK.tolist(),
        found.logprobs_BK.tolist(),
        strict=True,
    ):
        likeliest = tuple(zip(ids, logprobs, strict=True))[: numbers[row]]
        said[row] = SaidToken(said[row].token, logprob, likeliest)
    return said
