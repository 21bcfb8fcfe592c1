"""Requests to models: what is asked of the engine follows from them, or they are refused."""

from __future__ import annotations

import secrets

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from paribus.generate import Sampling
from paribus.serve.exchange import AskedAnswers, Exchange
from paribus.serve.gate import Gate
from paribus.serve.guard import SALT
from paribus.serve.http_errors import RequestError
from paribus.serve.metrics import Metrics
from paribus.serve.requests import ChatRequest, CompletionRequest, require_neutral
from paribus.serve.responses import ResponseHead
from paribus.serve.served_model import Context, ServedModel
from paribus.serve.spoken_answer import Question

DEFAULT_TOKENS = 16  # of a completion that does not say how many, as OpenAI has it
SEED_BITS = 63


class Answering:
    """Answers texts and conversations with the models of a server."""

    def __init__(self, gate: Gate, metrics: Metrics):
        self.gate, self.metrics = gate, metrics

    async def complete(
        self, served: ServedModel, body: CompletionRequest, request: Request
    ) -> Response:
        """Go on from texts."""
        require_neutral(body)
        max_tokens, prompts = body.max_tokens or DEFAULT_TOKENS, body.prompts
        if not prompts:
            raise RequestError(400, "prompt is empty; give a text", "invalid_value", "prompt")
        self.gate.require_possible(len(prompts) * (body.n or 1))
        question = Question(sampling_of(body, body.logprobs), salt=request.scope[SALT])

        def read_prompts() -> list[Context]:
            return [served.text_context(prompt, max_tokens) for prompt in prompts]

        asked = AskedAnswers(
            served=served,
            head=ResponseHead(
                served.name, "text_completion", body.logprobs is not None, served.speaker.decoder
            ),
            contexts=await run_in_threadpool(read_prompts),
            question=question,
            n_samples=body.n or 1,
            includes_usage=body.includes_usage,
        )
        return await self._answer(asked, bool(body.stream), request)

    async def chat(self, served: ServedModel, body: ChatRequest, request: Request) -> Response:
        """Answer a conversation."""
        require_neutral(body)
        _require_one_length(body)
        turns = tuple(message.turn for message in body.messages)
        salt: bytes = request.scope[SALT]
        question = Question(sampling_of(body, _n_chat_logprobs(body)), salt=salt)
        max_tokens = body.max_completion_tokens or body.max_tokens
        asked = AskedAnswers(
            served=served,
            head=ResponseHead(
                served.name, "chat.completion", bool(body.logprobs), served.speaker.decoder
            ),
            contexts=[await run_in_threadpool(served.chat_context, turns, max_tokens, salt)],
            question=question,
            n_samples=body.n or 1,
            includes_usage=body.includes_usage,
            turns=turns,
        )
        return await self._answer(asked, bool(body.stream), request)

    async def _answer(self, asked: AskedAnswers, is_streamed: bool, request: Request) -> Response:
        exchange = Exchange(asked, self.gate, self.metrics)
        if is_streamed:
            return exchange.stream()
        return await exchange.whole(request)


def sampling_of(body: CompletionRequest | ChatRequest, n_logprobs: int | None) -> Sampling:
    """How tokens are drawn, with OpenAI's defaults. Without a seed, each request has its own."""
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed
    return Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=seed,
        stop=body.stop_strings,
        n_logprobs=n_logprobs,
    )


def _require_one_length(body: ChatRequest) -> None:
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise RequestError(
            400,
            "max_tokens and max_completion_tokens are both given; use the latter",
            "invalid_value",
            "max_tokens",
        )


def _n_chat_logprobs(body: ChatRequest) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs is not None:
        raise RequestError(
            400, "top_logprobs needs logprobs; set it to true", "invalid_value", "top_logprobs"
        )
    return None
