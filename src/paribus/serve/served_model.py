"""A speaker with its engine, and what it remembers of conversations: what the routes ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.conversations import ASSISTANT, Turn
from paribus.generate.engine import Engine
from paribus.generate.masked_text import MASK_WORDS, MaskCandidate, text_candidates
from paribus.objectives.framing import ItemLayout, lay_context
from paribus.serve.http_errors import RequestError
from paribus.serve.speaker import Speaker, answer_room
from paribus.serve.taught import example_prompts, taught_words
from paribus.serve.turn_memory import TurnMemory
from paribus.spec.price import cache_across_turns, count_parameters


@dataclass(frozen=True, eq=False)
class Context:
    """What is to be answered: tokens, how they are laid, and how many may follow."""

    tokens: list[int]
    layout: ItemLayout
    n_tokens: int


@dataclass(frozen=True, eq=False)
class Representations:
    """A vector for each text, [texts, D], and how many of its tokens did not fit."""

    vectors: NDArray[np.float32]
    n_truncated: Sequence[int]


Representer = Callable[[Speaker, Sequence[str]], Representations]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model behind a server. Its engine is stepped by a thread of its own."""

    speaker: Speaker
    engine: Engine
    representer: Representer | None = None  # who makes vectors of texts
    memory: TurnMemory = field(default_factory=TurnMemory)
    created: int = field(default_factory=lambda: int(time.time()))
    _lock: Lock = field(default_factory=Lock)  # of what is computed outside of the engine

    @property
    def name(self) -> str:
        return self.speaker.name

    @cached_property
    def card(self) -> dict[str, Any]:
        """The model as `/v1/models` lists it, with what the page shows of it."""
        spec = self.speaker.model.spec
        prompts = example_prompts(self.speaker.checkpoint.stage)
        return {
            "id": self.name,
            "object": "model",
            "created": self.created,
            "owned_by": "paribus",
            "max_model_len": self.speaker.window,
            "parameters": count_parameters(spec).total,
            "architecture": _architecture_words(self.speaker),
            "cache_within_answer": self.speaker.model.is_appendable,
            "cache_across_turns": cache_across_turns(spec),
            "can_chat": self.speaker.can_chat,
            "fills_masks": self.speaker.fills_masks,
            "taught": taught_words(self.speaker.checkpoint.stage),
            "prompts": [prompt.text for prompt in prompts],
            "follow_ups": {prompt.text: list(prompt.follow_ups) for prompt in prompts},
        }

    def close(self) -> None:
        """Take no more requests, and end when those there are have ended."""
        self.engine.close(drain=True)
        if self.speaker.template is not None:
            self.speaker.template.process.close()

    def text_context(self, prompt: str | Sequence[int], max_tokens: int | None) -> Context:
        """A text to go on from, or its tokens."""
        self._require_speech()
        if isinstance(prompt, str):
            tokenizer = self.speaker.checkpoint.tokenizer
            self._require_room([prompt], tokenizer.least_tokens(prompt), "prompt")
            if not tokenizer.encode(prompt):
                raise RequestError(400, "prompt is empty; give a text", "invalid_value", "prompt")
            tokens = self.speaker.text_tokens(prompt)
        else:
            tokens = self._require_tokens(prompt)
        return self._fitting(tokens, self.speaker.layout, max_tokens, "prompt")

    def chat_context(self, turns: Sequence[Turn], max_tokens: int | None, salt: bytes) -> Context:
        """A conversation to answer."""
        self._require_speech()
        if not self.speaker.can_chat:
            raise RequestError(
                400,
                f"{self.name!r} was not trained on conversations and has no chat template; use"
                " /v1/completions, or a run with a stage of the kind 'instruct'",
                "unsupported_model",
                "model",
            )
        texts = [turn.content for turn in turns]
        self._require_room(texts, len(turns), "messages")  # each has a token of its own
        for place, turn in enumerate(turns):
            if not turn.content and turn.role != ASSISTANT:
                param = f"messages.{place}.content"
                raise RequestError(400, f"{param} is empty; give a text", "invalid_value", param)
        contents = self.memory.recall(turns, salt)
        least_tokens, n_least = self.speaker.checkpoint.tokenizer.least_tokens, 0
        for text, ids in zip(texts, contents, strict=True):
            n_least += least_tokens(text) if ids is None else len(ids)
        self._require_room(texts, n_least, "messages")
        tokens = self.speaker.chat_tokens(turns, contents)
        return self._fitting(tokens, self.speaker.chat_layout, max_tokens, "messages")

    def representations(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
        """A vector for each text, and the tokens of all; RequestError where one does not fit."""
        if self.representer is None:
            raise RequestError(404, "this server gives no embeddings; use another one")
        tokenizer = self.speaker.checkpoint.tokenizer
        n_tokens: list[int] = []
        for place, text in enumerate(texts):
            self._require_room([text], tokenizer.least_tokens(text), f"input.{place}")
            n_tokens.append(len(tokenizer.encode(text)))
            if not n_tokens[-1]:
                message = f"input.{place} is empty; give a text"
                raise RequestError(400, message, "invalid_value", "input")
        with self._lock:
            found = self.representer(self.speaker, texts)
        if max(found.n_truncated):
            raise self._too_long(max(n_tokens), self.speaker.window, "input")
        return found.vectors, sum(n_tokens)

    def mask_candidates(
        self, text: str, n_candidates: int
    ) -> tuple[tuple[MaskCandidate, ...], ...]:
        """The likeliest tokens for each mask of a text."""
        objective = self.speaker.checkpoint.objective()
        pieces = [piece.removesuffix(" ") for piece in MASK_WORDS.split(text)]
        n_least = self.speaker.checkpoint.tokenizer.least_tokens("".join(pieces))
        self._require_room([text], n_least + len(pieces) - 1, "text")
        with self._lock:
            return text_candidates(
                self.speaker.model, objective, self.speaker.decoder, text, n_candidates
            )

    def _require_speech(self) -> None:
        if self.speaker.fills_masks:
            raise RequestError(
                400,
                f"{self.name!r} fills masks and does not say what comes next; use /fill-mask",
                "unsupported_model",
                "model",
            )

    def _require_room(self, texts: Sequence[str], n_least: int, param: str) -> None:
        """RequestError for texts of which at least so many tokens can be told before they are
        encoded, which of a long text takes seconds.
        """
        if n_least > self.speaker.window:
            n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
            raise RequestError(
                400,
                f"{param}: a prompt of {n_bytes:,} bytes, which are at least {n_least:,} tokens,"
                f" is given, but the window of {self.name!r} has {self.speaker.window:,}; send"
                " less",
                "context_length_exceeded",
                param.partition(".")[0],
            )

    def _require_tokens(self, tokens: Sequence[int]) -> list[int]:
        n_ids = self.speaker.checkpoint.vocabulary.size
        if len(tokens) > self.speaker.window:
            raise self._too_long(len(tokens), self.speaker.window, "prompt")
        if not tokens:
            raise RequestError(400, "prompt is empty; give a text", "invalid_value", "prompt")
        if min(tokens) < 0 or max(tokens) >= n_ids:
            raise RequestError(
                400,
                f"prompt has a token outside of 0 to {n_ids - 1}; leave it out",
                "invalid_value",
                "prompt",
            )
        return list(tokens)

    def _fitting(
        self, tokens: list[int], layout: ItemLayout, max_tokens: int | None, param: str
    ) -> Context:
        laid = lay_context(layout, tokens, 1)
        room = answer_room(layout, laid.inputs)
        n_tokens = room if max_tokens is None else max_tokens
        if laid.n_truncated or n_tokens > room:
            n_asked = 1 if max_tokens is None else max_tokens
            if not laid.n_truncated:
                param = "max_tokens"
            raise self._too_long(len(laid.inputs) + laid.n_truncated, layout.window, param, n_asked)
        return Context(tokens, layout, n_tokens)

    def _too_long(
        self, n_prompt: int, window: int, param: str, n_answer: int | None = None
    ) -> RequestError:
        answer = ""
        if n_answer is not None:
            answer = f" and an answer of {n_answer:,}"
        return RequestError(
            400,
            f"{param}: a prompt of {n_prompt:,} tokens{answer} is asked for, but the window of"
            f" {self.name!r} has {window:,}; send less",
            "context_length_exceeded",
            param,
        )


def _architecture_words(speaker: Speaker) -> str:
    """What kind of architecture it is, and its mask."""
    spec = speaker.model.spec
    if spec.encoder is not None:
        return "encoder-decoder"
    return f"one stack, {speaker.model.architecture.mask}"
