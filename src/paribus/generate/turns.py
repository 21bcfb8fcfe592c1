"""Conversations held with models, turn by turn over a cache, with what each turn took.

All models read the same text. What a model would say is computed and passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.masks import SequenceLayout
from paribus.masks.source_growth import keeps_source
from paribus.model import Transformer
from paribus.model.linear import JoinedWeights
from paribus.model.reading import Cache, CachedStates, empty_cache
from paribus.runtime import torch_generator
from paribus.spec.conversation import (
    Conversation,
    Custom,
    TurnTexts,
    all_turn_texts,
    require_custom,
)
from paribus.spec.turn_price import require_fit, stack_places_read

MAX_TIMED_TOKENS = 8  # of an answer; the rest of it is read at once, which takes no time of users
DECODER_START = 0  # any token: a price does not depend on it
MIN_REPEATS = 1


@dataclass(frozen=True, eq=False)
class ConversationTokens:
    """What is said in a conversation: [turn, token]."""

    prompts_KU: Tensor
    answers_KA: Tensor

    def text(self, length: int) -> Tensor:
        """The first tokens of the whole conversation, [1, T]."""
        return torch.cat([self.prompts_KU, self.answers_KA], 1).flatten()[None, :length]


def draw_conversation(
    conversation: Conversation, n_vocab: int, seed: int = 1
) -> ConversationTokens:
    """A conversation of tokens that are drawn with equal probability."""
    generator = torch_generator(seed, "conversation")
    n_tokens = conversation.n_user + conversation.n_answer
    tokens_KT = torch.randint(n_vocab, (conversation.n_turns, n_tokens), generator=generator)
    return ConversationTokens(
        tokens_KT[:, : conversation.n_user], tokens_KT[:, conversation.n_user :]
    )


@dataclass(frozen=True, eq=False)
class TurnSpeaker:
    """A model, and how it holds a conversation."""

    model: Transformer
    custom: Custom


@dataclass(frozen=True)
class TurnCounts:
    """What a turn did: tokens that went through a stack before the first token of the answer,
    and bytes of the cache after the last one.
    """

    n_read: int
    cache_bytes: int


@dataclass(frozen=True)
class TurnSeconds:
    """How long a turn took: until the first token was chosen, and for each of some tokens after
    it.
    """

    first_token: float
    next_token: float | None  # None: an answer of one token


@dataclass(frozen=True)
class MeasuredTurns:
    """The turns of one speaker: what each did, and its times in every repeat."""

    counts: tuple[TurnCounts, ...]
    seconds: tuple[tuple[TurnSeconds, ...], ...]  # [repeat][turn]


def measure_turns(
    speakers: Sequence[TurnSpeaker], conversation: Conversation, n_repeats: int, seed: int = 1
) -> list[MeasuredTurns]:
    """One conversation held with each speaker, several times in turn, after once without a clock.

    Each repeat begins with another speaker, so that none always follows the same one.
    """
    if n_repeats < MIN_REPEATS:
        raise SpecError(f"n_repeats is {n_repeats}; use {MIN_REPEATS} or more")
    n_vocab = min(one.model.spec.n_vocab for one in speakers)
    tokens = draw_conversation(conversation, n_vocab, seed)
    readers = [ConversationReader(one, conversation, tokens) for one in speakers]
    counts = [reader.count_turns() for reader in readers]
    for reader in readers:
        reader.time_turns()  # what is compiled or cached on the way is not there at the first
    seconds: list[list[tuple[TurnSeconds, ...]]] = [[] for _ in readers]
    for repeat in range(n_repeats):
        for place in range(len(readers)):
            number = (place + repeat) % len(readers)
            seconds[number].append(readers[number].time_turns())
    measured = []
    for own_counts, own_seconds in zip(counts, seconds, strict=True):
        measured.append(MeasuredTurns(own_counts, tuple(own_seconds)))
    return measured


@dataclass(frozen=True, eq=False)
class _TurnPlan:
    """The texts of a turn, and what of the cache before it is of use."""

    texts: TurnTexts
    reads_all: bool
    appends: bool


class ConversationReader:
    """Reads one conversation with a speaker, from its first turn, as often as it is asked to."""

    def __init__(
        self, speaker: TurnSpeaker, conversation: Conversation, tokens: ConversationTokens
    ):
        model, custom = speaker.model, speaker.custom
        require_custom(model.spec, custom)
        require_fit(model.spec, custom, conversation)
        self._model, self._custom, self._conversation = model, custom, conversation
        self._device = model.embedding.weight.device
        self._answers_KA = tokens.answers_KA.to(self._device)
        self._prompts_1T = tokens.prompts_KU.flatten()[None].to(self._device)
        starts_K1 = torch.full_like(self._answers_KA[:, :1], DECODER_START)
        self._started_1T = torch.cat([starts_K1, self._answers_KA], 1).flatten()[None]
        self._text_1T = tokens.text(conversation.length).to(self._device)
        self._weights = JoinedWeights()  # joined once for all conversations, as a server would
        self._plans = [self._plan(texts) for texts in all_turn_texts(conversation, custom)]

    @torch.no_grad()
    def count_turns(self) -> tuple[TurnCounts, ...]:
        """What each turn reads and leaves in the cache."""
        cache, counts = None, []
        for plan in self._plans:
            counter = _TokenCounter()
            out = self._read_prompt(plan, cache, counter)
            cache = self._read_answer(plan, out.cache, n_timed=0)
            counts.append(TurnCounts(counter.n_tokens, cache.n_bytes))
        return tuple(counts)

    @torch.no_grad()
    def time_turns(self) -> tuple[TurnSeconds, ...]:
        """How long each turn takes."""
        cache, seconds = None, []
        for plan in self._plans:
            self._synchronise()
            start = perf_counter()
            out = self._read_prompt(plan, cache)
            self._choose(out)
            first_token = perf_counter() - start
            n_timed = min(MAX_TIMED_TOKENS, self._conversation.n_answer - 1)
            start = perf_counter()
            answer = self._answers_KA[plan.texts.turn - 1]
            now = out.cache
            for place in range(n_timed):
                out = self._model.append(answer[None, place : place + 1], now)
                self._choose(out)
                now = out.cache
            next_token = None
            if n_timed:
                next_token = (perf_counter() - start) / n_timed
            cache = self._read_answer(plan, now, n_timed)
            seconds.append(TurnSeconds(first_token, next_token))
        return tuple(seconds)

    def _plan(self, texts: TurnTexts) -> _TurnPlan:
        is_read = stack_places_read(self._model.spec, texts)
        n_before = texts.before.length
        is_tail = not is_read[:n_before].any() and texts.before.prefix == texts.prompt.prefix
        return _TurnPlan(
            texts, reads_all=bool(is_read.all()), appends=n_before > 0 and bool(is_tail)
        )

    def _read_prompt(
        self, plan: _TurnPlan, cache: Cache | None, counter: _TokenCounter | None = None
    ) -> CachedStates:
        """Read what stands before the answer of a turn."""
        texts = plan.texts
        if self._model.encoder is not None:
            return self._read_beside_source(texts, cache, counter)
        text_1T = self._text_1T[:, : texts.prompt.length]
        if plan.appends and counter is None:
            assert cache is not None
            return self._model.append(text_1T[:, texts.before.length :], cache)
        batch = Batch.of(text_1T, prefix=texts.prompt.prefix)
        if cache is None or plan.reads_all:
            cache = self._empty_cache()
        return self._model.read(batch, cache, self._conversation.length, counter)

    def _empty_cache(self) -> Cache:
        """A cache of one text that holds nothing of it yet."""
        return Cache(empty_cache(self._model.spec.stack, 1), weights=self._weights)

    def _read_beside_source(
        self, texts: TurnTexts, cache: Cache | None, counter: _TokenCounter | None
    ) -> CachedStates:
        assert self._model.spec.encoder is not None
        if self._custom == "encode each turn":
            text, source = self._started_1T, self._prompts_1T
        else:
            text, source = self._started_1T, self._text_1T
            if cache is not None and keeps_source(self._model.spec.encoder.masks):
                cache = cache.without_text()
            else:
                cache = None
        batch = Batch.of(
            text[:, : texts.prompt.length],
            documents_BT=self._documents(texts.prompt),
            source=Batch.of(
                source[:, : texts.source.length],
                prefix=texts.source.prefix,
                documents_BT=self._documents(texts.source),
                positions_BT=self._positions(texts.source),
            ),
        )
        reserve = min(self._conversation.length, self._model.spec.max_length)
        return self._model.read(batch, cache or self._empty_cache(), reserve, counter)

    def _documents(self, layout: SequenceLayout) -> Tensor | None:
        if layout.documents is None:
            return None
        return torch.from_numpy(layout.documents)[None].to(self._device)

    def _positions(self, layout: SequenceLayout) -> Tensor | None:
        """Positions that begin anew with each document: it is encoded as if alone."""
        if layout.documents is None:
            return None
        _, first = np.unique(layout.documents, return_index=True)
        places = np.arange(layout.length) - first[layout.documents]
        return torch.from_numpy(places)[None].to(self._device)

    def _read_answer(self, plan: _TurnPlan, cache: Cache, n_timed: int) -> Cache:
        """The cache at the end of a turn: the rest of the answer but its last token is read, and
        keys that nobody needs are freed.
        """
        answer = self._answers_KA[plan.texts.turn - 1]
        rest = answer[None, n_timed:-1]
        if rest.shape[1]:
            cache = self._model.append(rest, cache).cache
        assert cache.lengths == (plan.texts.end.length,)
        source = cache.source
        if source is not None and source.encoder is not None:
            source = replace(source, encoder=source.encoder.compact())
        return replace(cache, stack=cache.stack.compact(), source=source)

    def _choose(self, out: CachedStates) -> int:
        """The likeliest token; to know it here is to wait for it."""
        return int(self._model.logits(out.states_BTD[:, -1]).argmax(-1).item())

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


class _TokenCounter:
    """Counts the tokens that go into the first layer of each stack."""

    def __init__(self) -> None:
        self.n_tokens = 0

    def wants(self, name: str, layer: int) -> bool:
        return layer == 0 and name.endswith(".attention_input")

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.n_tokens += value.shape[1]
