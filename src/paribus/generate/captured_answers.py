"""Answers that a CUDA device says on its own: a graph lets each row say a token and notes it.

The host replays it, sends draws ahead, and now and then looks whether all rows are finished. It
never waits for a token.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from paribus.generate.captured_steps import (
    capture,
    copy_tensors,
    load_tensors,
    n_steady_slots,
    sized_shape,
    steady_tensors,
    take_graph,
    weights_held,
)
from paribus.generate.choosing import choose_tokens, draw_uniforms
from paribus.generate.model_steps import model_steps, step_of
from paribus.generate.recording import Step
from paribus.generate.requests import TokenChooser
from paribus.generate.said_rows import SaidRows
from paribus.generate.step_tensors import StepShape, StepTensors
from paribus.model import Transformer
from paribus.model.reading import Cache

AT_ONCE = 16  # tokens after which the host looks at the rows
MIN_PLACES = 64


def say_rest(
    model: Transformer, cache: Cache, rows: SaidRows, chooser: TokenChooser, seen_BV: Tensor | None
) -> None:
    """Let rows whose last token is not read yet say the rest of their answers."""
    longest = max(cache.lengths) + rows.n_places - rows.n_said + 1
    tensors = steady_tensors(model, cache, n_steady_slots(longest, model))
    n_places = MIN_PLACES
    while n_places < rows.n_places:
        n_places *= 2
    begun = _BegunAnswers(tensors, rows, chooser, seen_BV)
    steps = model_steps(model, cache.weights)

    def make() -> CapturedAnswers:
        held, step = weights_held(model, steps.weights), step_of(model, tensors, steps.weights)
        return CapturedAnswers(step, held, begun, n_places)

    answers, release = take_graph(rows, steps, ("answers", n_places, *begun.shape()), make)
    answers.run(begun)
    release()


class _BegunAnswers(NamedTuple):
    """Rows that have said something, and how they go on."""

    tensors: StepTensors
    rows: SaidRows
    chooser: TokenChooser
    seen_BV: Tensor | None

    def shape(self) -> StepShape:
        """What a graph depends on."""
        settings = _settings(self.rows, self.chooser)
        return (self.seen_BV is None, *settings, *sized_shape(self.tensors))


def _settings(rows: SaidRows, chooser: TokenChooser) -> StepShape:
    """What a graph knows of the choice of tokens."""
    settings: list[object] = [rows.pad, rows.ends]
    for one in chooser.requests.samplings:
        settings.append((one.temperature, one.top_k, one.top_p, one.min_p, one.repetition_penalty))
    return tuple(settings)


class CapturedAnswers:
    """A graph, and the buffers of the rows that it knows. One answer at a time may use it."""

    def __init__(self, step: Step, held: object, like: _BegunAnswers, n_places: int):
        """Rows like these, with at most `n_places` tokens, may use it. `held` are the weights that
        `step` reads.
        """
        tensors, rows, chooser, seen_BV = like
        n_rows, device = tensors.n_texts, rows.lengths_B.device
        self._tensors, self._held = copy_tensors(tensors.flat()), held
        self._bar_V, self._choices = chooser.bar_V.clone(), chooser.choices
        self._ends, self._pad = rows.ends, rows.pad
        self._token_B1 = torch.zeros(n_rows, 1, dtype=torch.int64, device=device)
        self._place_1 = torch.zeros(1, dtype=torch.int64, device=device)
        self._said_BT = torch.zeros(n_rows, n_places, dtype=torch.int64, device=device)
        self._draws_BT = torch.zeros(n_rows, n_places, dtype=torch.float64, device=device)
        self._lengths_B = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self._limits_B = torch.full_like(self._lengths_B, n_places)
        self._is_finished_B = torch.zeros(n_rows, dtype=torch.bool, device=device)
        self._seen_BV = None if seen_BV is None else seen_BV.clone()
        self._tensors[0].zero_()  # what is written now is overwritten when rows come
        self._graph = capture(lambda: self._say(step(self._token_B1, *self._tensors)))

    def run(self, begun: _BegunAnswers) -> None:
        """Let rows say the rest."""
        self._load(begun)
        rows, chooser = begun.rows, begun.chooser
        place, looks = rows.n_said, list[_Look]()
        while place < rows.n_places:
            n_now = min(AT_ONCE, rows.n_places - place)
            if self._choices.temperature_B is not None:
                drawn_BT = torch.from_numpy(draw_uniforms(chooser.requests.streams, n_now, place))
                self._draws_BT[:, place : place + n_now] = drawn_BT.pin_memory().to(
                    self._draws_BT.device, non_blocking=True
                )
            for _ in range(n_now):
                self._graph.replay()
            place += n_now
            looks.append(_Look(self._is_finished_B))
            if len(looks) > 1 and looks[-2].is_over():
                break
        rows.take(self._said_BT, self._lengths_B)

    def _load(self, begun: _BegunAnswers) -> None:
        tensors, rows, chooser, seen_BV = begun
        load_tensors(self._tensors, tensors.flat())
        self._bar_V.copy_(chooser.bar_V)
        self._token_B1.copy_(rows.said_BT[:, -1:])
        self._said_BT[:, : rows.n_said] = rows.said_BT
        self._place_1.fill_(rows.n_said)
        self._lengths_B.copy_(rows.lengths_B)
        self._limits_B.copy_(rows.limits_B)
        self._is_finished_B.copy_(rows.is_finished_B)
        if seen_BV is not None and self._seen_BV is not None:
            self._seen_BV.copy_(seen_BV)

    def _say(self, logits_BV: Tensor) -> None:
        """One token of each row. A row that is finished says padding."""
        place_B1 = self._place_1.expand(len(self._token_B1), 1)
        draws_B = self._draws_BT.gather(1, place_B1)[:, 0]
        allowed_BV = logits_BV.float() + self._bar_V
        token_B = choose_tokens(allowed_BV, self._choices, draws_B, self._seen_BV)
        token_B = token_B.masked_fill(self._is_finished_B, self._pad)
        self._said_BT.scatter_(1, place_B1, token_B[:, None])
        if self._seen_BV is not None:
            self._seen_BV.scatter_(1, token_B[:, None], True)
        self._lengths_B.add_(~self._is_finished_B)
        for end in self._ends:
            self._is_finished_B.logical_or_(token_B == end)
        self._is_finished_B.logical_or_(self._lengths_B >= self._limits_B)
        self._token_B1.copy_(token_B[:, None])
        self._place_1.add_(1)


class _Look:
    """Whether all of some rows are finished, as the device finds it when it comes there."""

    def __init__(self, is_finished_B: Tensor):
        self._is_over = torch.empty(1, dtype=torch.bool, pin_memory=True)
        self._is_over.copy_(is_finished_B.all(), non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record()

    def is_over(self) -> bool:
        """Wait for the device, and look."""
        self._event.synchronize()
        return bool(self._is_over)
