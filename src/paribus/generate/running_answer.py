"""A request that an engine works on: its text so far, its blocks, and what it may say."""

from __future__ import annotations

import numpy as np
import torch

from paribus.generate.answer_handle import AnswerHandle
from paribus.generate.answer_stream import can_cache
from paribus.generate.block_keys import BlockChain, chain_root, has_prefix_rules, source_name
from paribus.generate.block_pool import KeysByLayer
from paribus.generate.choosing import draw_uniforms
from paribus.generate.requests import DRAWS_AHEAD, token_bar, tokens_read
from paribus.generate.token_request import SaidToken
from paribus.model import Transformer
from paribus.objectives.framing import Ids


class RunningAnswer:
    """An answer on its way. `text` is what the stack that answers reads: context and answer, or in
    an encoder-decoder the answer alone, beside its source. Where each turn is encoded alone, it is
    all answers, beside a source for each turn.
    """

    def __init__(self, handle: AnswerHandle, model: Transformer, weights: bytes):
        request = handle.request
        layout, salt = request.layout, request.salt
        self.handle, self.layout, self.sampling = handle, layout, request.sampling
        self.is_cacheable = can_cache(model, layout)
        self.sources: tuple[Ids, ...] = ()
        self.source_starts: list[int] = []  # from which place of the text on each is seen
        self.source_keys: list[KeysByLayer] = []  # once they are read
        self.n_sources_seen = 0  # by the tokens that are read next
        prefix = 0
        if layout.framing == "apart":
            turns = layout.encoded_turns(request.inputs)
            self.sources, self.source_starts = turns.sources, turns.text_starts
            self.text = [*turns.text(layout.vocabulary.decoder_start), *layout.opening]
        else:
            self.text = [*request.inputs, *layout.opening]
            if layout.framing == "together" and has_prefix_rules(model):
                prefix = len(request.inputs)
        self.prefix, self.n_context = prefix, len(self.text)
        self.source_names = [source_name(weights, salt, source) for source in self.sources]
        first = self.source_names[0] if self.sources else b""
        later = dict(zip(self.source_starts[1:], self.source_names[1:], strict=True))
        self.chain = BlockChain(chain_root(weights, salt, self.text[:prefix], first), later)
        self.chain.extend(self.text)
        self._prepare_choice(model)

    def _prepare_choice(self, model: Transformer) -> None:
        n_vocab, device = model.spec.n_vocab, model.embedding.weight.device
        self.bar_V = token_bar(self.layout, n_vocab, device)
        self._draws = np.empty(0)
        self.seen_V: torch.Tensor | None = None
        if self.sampling.repetition_penalty != 1:
            inputs_1T = torch.tensor([self.handle.request.inputs], device=device)
            self.seen_V = tokens_read(self.layout, inputs_1T, None, n_vocab)[0]

    @property
    def n_said(self) -> int:
        return len(self.text) - self.n_context

    def sources_at(self, place: int) -> int:
        """How many sources the token at a place of the text sees."""
        return sum(start <= place for start in self.source_starts)

    def n_until_next_source(self, place: int) -> int:
        """How many tokens from a place on see the same sources, as far as there are any."""
        later = [start for start in self.source_starts if start > place]
        return min(later, default=len(self.text)) - place

    def next_draw(self) -> float:
        """The uniform draw of the place that is said next; only in order."""
        column = self.n_said % DRAWS_AHEAD
        if column == 0:
            n_places = min(DRAWS_AHEAD, self.sampling.n_tokens - self.n_said)
            stream = self.handle.request.stream
            self._draws = draw_uniforms([stream], n_places, self.n_said)[0]
        return float(self._draws[column])

    def say(self, next_token: SaidToken) -> None:
        """Say a token, and finish where nothing may follow it."""
        handle, request, token = self.handle, self.handle.request, next_token.token
        if token in self.layout.end_tokens:
            handle.end_token = token
            handle.finish("stop")
            return
        self.text.append(token)
        if self.seen_V is not None:
            self.seen_V[token] = True
        handle.push(next_token)
        if request.is_done is not None and request.is_done(tuple(self.text[self.n_context :])):
            handle.finish("stop")
        elif self.n_said == self.sampling.n_tokens or self._n_positions > self.layout.window:
            handle.finish("length")

    @property
    def _n_positions(self) -> int:
        """How many positions are read before the next token is said."""
        if self.layout.framing == "in place":
            return len(self.text) + 1  # the mask that is to be filled
        return len(self.text)
