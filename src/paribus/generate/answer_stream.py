"""Logits for what follows some contexts, token after token, each context read once where its mask
lets a cache stay valid.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.generate.answer_batch import answer_batch
from paribus.generate.answer_steps import AnswerSteps
from paribus.generate.captured_steps import CapturedSteps
from paribus.generate.model_steps import MIN_TOKENS, can_prepare, joined_weights
from paribus.model import Transformer
from paribus.model.reading import Cache, CachedStates, empty_cache
from paribus.objectives.framing import ItemLayout

BEFORE_RECORDING = 4  # tokens: who takes rows away, as beams do, has done so by then


def can_cache(model: Transformer, layout: ItemLayout) -> bool:
    """Do keys stay valid while an answer grows? Not where it is filled in place: each token is
    seen by all.
    """
    return layout.framing != "in place" and model.is_appendable


class AnswerStream:
    """Contexts that a model answers at once. Rows leave when their window is full.

    `inputs_BT` are contexts as `layout` lays them, padded on the right; `lengths_B` says how
    long each is, None that no row is padded.
    """

    def __init__(
        self,
        model: Transformer,
        layout: ItemLayout,
        inputs_BT: Tensor,
        lengths_B: Tensor | None,
        n_tokens: int,
    ):
        assert can_cache(model, layout)
        self._model, self._layout = model, layout
        self._n_rows, self._n_said = len(inputs_BT), 0
        self._rows = list(range(self._n_rows))  # those that are still read, by their numbers
        opening = torch.tensor(layout.opening, dtype=inputs_BT.dtype, device=inputs_BT.device)
        batch = answer_batch(layout, inputs_BT, lengths_B, opening.expand(self._n_rows, -1))
        reserve = min(batch.layout.length + n_tokens, model.spec.max_length)
        empty = empty_cache(model.spec.stack, self._n_rows)
        cache = Cache(empty, weights=joined_weights(model))
        self._read = model.read(batch, cache, reserve=reserve)
        self._n_tokens, self._longest = n_tokens, min(reserve, layout.window)
        self._steps: AnswerSteps | CapturedSteps | None = None

    def logits(self, said_BT: Tensor, parents_B: Tensor | None = None) -> Tensor:
        """Logits for the place after what was said so far, [B, V], in float32; anything for rows
        whose window is full.

        Each call has one token more than the one before. `parents_B` are the rows of that call
        that each row continues; None: its own.
        """
        if parents_B is not None:
            self._select(parents_B.tolist())
        if said_BT.shape[1] > self._n_said:
            self._n_said = said_BT.shape[1]
            if self._steps is None and parents_B is None and self._may_record():
                self._steps = self._prepared_steps()
            if self._steps is not None:
                return self._steps.logits(said_BT[:, -1]).float()
            self._append(said_BT[:, -1])
        states_BD = self._last_states(self._read)
        logits_BV = self._model.logits(states_BD, self._read.cache.weights).float()
        if len(self._rows) == self._n_rows:
            return logits_BV
        whole = logits_BV.new_zeros((self._n_rows, logits_BV.shape[1]))
        whole[self._rows] = logits_BV
        return whole

    @property
    def cache(self) -> Cache:
        """What was read so far: all that was said but its last token."""
        return self._read.cache

    def can_prepare(self) -> bool:
        """Are many tokens still to be said, and is a step of this model one that can be
        prepared?
        """
        is_worth_it = self._n_tokens - self._n_said >= MIN_TOKENS
        return is_worth_it and can_prepare(self._model, self._longest)

    def _may_record(self) -> bool:
        """Is it worth it, in rows that nobody takes away?"""
        if self._n_said < BEFORE_RECORDING or len(self._rows) < self._n_rows:
            return False
        return self.can_prepare()

    def _prepared_steps(self) -> AnswerSteps | CapturedSteps:
        if self._model.embedding.weight.device.type == "cuda":
            return CapturedSteps(self._model, self._read.cache)
        return AnswerSteps(self._model, self._read.cache)

    def _select(self, parents: list[int]) -> None:
        """Go on with some rows, each any number of times."""
        assert self._steps is None
        assert len(self._rows) == self._n_rows
        self._n_rows = len(parents)
        if parents != self._rows:
            self._read = self._read._replace(cache=self._read.cache.select_rows(parents))
        self._rows = list(range(self._n_rows))

    def _append(self, token_B: Tensor) -> None:
        """Read what was said; of rows that left, it is passed over."""
        self._rows, cache = self._rows_with_room(self._read.cache)
        if not self._rows:
            return
        if len(self._rows) < self._n_rows:
            token_B = token_B[self._rows]
        self._read = self._model.append(token_B[:, None], cache)

    def _rows_with_room(self, cache: Cache) -> tuple[list[int], Cache]:
        stay = []
        for place, length in enumerate(cache.lengths):
            if length < self._layout.window:
                stay.append(place)
        if len(stay) == len(self._rows):
            return self._rows, cache
        return [self._rows[place] for place in stay], cache.select_rows(stay)

    def _last_states(self, out: CachedStates) -> Tensor:
        """The state of the last token of each row."""
        if out.states_BTD.shape[1] == 1:
            return out.states_BTD[:, 0]
        places = torch.from_numpy(out.places_BT).to(out.states_BTD.device)
        rows = torch.arange(len(places), device=places.device)
        return out.states_BTD[rows, places.argmax(1)]
