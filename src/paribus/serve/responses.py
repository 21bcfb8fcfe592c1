"""Answers in the shapes of OpenAI, whole and in chunks."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paribus.generate import TextDecoder
from paribus.generate.token_request import SaidToken
from paribus.serve.spoken_answer import SpokenAnswer, SpokenPiece

LEAST_LOGPROB = -9999.0  # what stands for a probability of 0, which JSON cannot write


@dataclass(frozen=True)
class ResponseHead:
    """What all chunks of a response have in common."""

    model: str
    kind: str  # "text_completion" or "chat.completion"
    has_logprobs: bool
    decoder: TextDecoder
    id: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def is_chat(self) -> bool:
        return self.kind == "chat.completion"

    def whole(
        self, choices: list[dict[str, Any]], answers: Sequence[SpokenAnswer]
    ) -> dict[str, Any]:
        """A response that is not streamed."""
        return {**self._head(self.kind), "choices": choices, **usage(answers)}

    def choice(self, number: int, answer: SpokenAnswer, piece: SpokenPiece) -> dict[str, Any]:
        """One whole answer."""
        content: dict[str, Any] = {"text": piece.text}
        if self.is_chat:
            content = {"message": {"role": "assistant", "content": piece.text, "refusal": None}}
        return {
            "index": number,
            **content,
            "logprobs": self._logprobs(piece.tokens),
            "finish_reason": answer.finish_reason,
        }

    def opening_chunk(self, number: int) -> dict[str, Any]:
        """What opens an answer of a conversation: who speaks."""
        return self._chunk(number, {"delta": {"role": "assistant", "content": ""}}, None, None)

    def piece_chunk(self, number: int, piece: SpokenPiece, n_before: int) -> dict[str, Any]:
        """A piece of an answer, after so many letters."""
        content: dict[str, Any] = {"text": piece.text}
        if self.is_chat:
            content = {"delta": {"content": piece.text}}
        logprobs = self._logprobs(piece.tokens, n_before)
        return self._chunk(number, content, logprobs, None)

    def closing_chunk(self, number: int, answer: SpokenAnswer) -> dict[str, Any]:
        """What ends an answer: why."""
        content: dict[str, Any] = {"delta": {}} if self.is_chat else {"text": ""}
        return self._chunk(number, content, None, answer.finish_reason)

    def usage_chunk(self, answers: Sequence[SpokenAnswer]) -> dict[str, Any]:
        """What was used, after all answers."""
        return {**self._head(self._chunk_kind), "choices": [], **usage(answers)}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.is_chat else self.kind

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(
        self,
        number: int,
        content: dict[str, Any],
        logprobs: dict[str, Any] | None,
        finish_reason: str | None,
    ) -> dict[str, Any]:
        choice = {
            "index": number,
            **content,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return {**self._head(self._chunk_kind), "choices": [choice]}

    def _logprobs(self, tokens: Sequence[SaidToken], n_before: int = 0) -> dict[str, Any] | None:
        if not self.has_logprobs:
            return None
        if self.is_chat:
            return {"content": [self._chat_logprob(one) for one in tokens], "refusal": None}
        return self._text_logprobs(tokens, n_before)

    def _chat_logprob(self, said: SaidToken) -> dict[str, Any]:
        likeliest = [self._token_logprob(token, value) for token, value in said.likeliest]
        return {**self._token_logprob(said.token, said.logprob), "top_logprobs": likeliest}

    def _token_logprob(self, token: int, logprob: float | None) -> dict[str, Any]:
        text = self.decoder.token_text(token)
        return {"token": text, "logprob": _finite(logprob), "bytes": list(text.encode())}

    def _text_logprobs(self, tokens: Sequence[SaidToken], n_before: int) -> dict[str, Any]:
        texts = [self.decoder.token_text(one.token) for one in tokens]
        offsets, likeliest = [], []
        for text, said in zip(texts, tokens, strict=True):
            offsets.append(n_before)
            n_before += len(text)
            own = {}
            for token, value in said.likeliest:
                own[self.decoder.token_text(token)] = _finite(value)
            likeliest.append(own)
        return {
            "tokens": texts,
            "token_logprobs": [_finite(one.logprob) for one in tokens],
            "top_logprobs": likeliest,
            "text_offset": offsets,
        }


def usage(answers: Sequence[SpokenAnswer]) -> dict[str, Any]:
    """Tokens and seconds of a response. A prompt counts once, however many answers it has."""
    firsts = [answer for answer in answers if answer.question.sample == 0]
    n_prompt = sum(answer.n_inputs for answer in firsts)
    n_said = sum(len(answer.tokens) for answer in answers)
    times = [answer.times for answer in firsts]
    return {
        "usage": {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_said,
            "total_tokens": n_prompt + n_said,
            "prompt_tokens_details": {"cached_tokens": sum(one.n_cached for one in times)},
        },
        "timings": {  # ours: clients of OpenAI pass over it
            "read_tokens": sum(one.n_read for one in times),
            "seconds_queued": times[0].seconds_queued,
            "seconds_to_first_token": times[0].seconds_to_first_token,
        },
    }


def event(table: dict[str, Any]) -> bytes:
    """A chunk as a line of server-sent events."""
    return b"data: " + json.dumps(table, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


DONE = b"data: [DONE]\n\n"


def _finite(logprob: float | None) -> float | None:
    if logprob is None or math.isfinite(logprob):
        return logprob
    return LEAST_LOGPROB
