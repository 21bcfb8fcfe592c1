"""The server: routes in the shapes of OpenAI, behind a guard."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from paribus import __version__
from paribus.errors import ParibusError
from paribus.serve.access import Access
from paribus.serve.answering import Answering
from paribus.serve.exchange import engine_fault
from paribus.serve.gate import Gate
from paribus.serve.guard import HEALTH, Guard
from paribus.serve.http_errors import RequestError
from paribus.serve.metrics import CONTENT_TYPE, Metrics
from paribus.serve.page import add_page
from paribus.serve.requests import (
    MAX_PROMPTS,
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    FillMaskRequest,
    require_neutral,
)
from paribus.serve.served_model import ServedModel
from paribus.serve.validation import validation_error

MAX_BODY_BYTES = 4 << 20
MAX_OPEN = 256
MAX_CONNECTIONS = 1024


@dataclass(frozen=True)
class ServerLimits:
    """What a server takes at most."""

    max_body_bytes: int = MAX_BODY_BYTES
    max_open: int = MAX_OPEN  # answers that are made or wait
    max_connections: int = MAX_CONNECTIONS


def make_app(
    models: Sequence[ServedModel], access: Access, limits: ServerLimits | None = None
) -> Guard:
    """A server of models: an ASGI application. Its engines start and end with it."""
    limits = limits or ServerLimits()
    metrics = Metrics()
    by_name = {served.name: served for served in models}
    app = FastAPI(
        title="paribus",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan_of(models),
    )
    _add_error_handlers(app)
    _add_answer_routes(app, by_name, Answering(Gate(limits.max_open), metrics))
    _add_reading_routes(app, by_name)
    _add_state_routes(app, by_name, metrics)
    add_page(app)
    return Guard(app, access, limits.max_body_bytes, metrics)


def _lifespan_of(models: Sequence[ServedModel]) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for served in models:
            served.engine.start()
        try:
            yield
        finally:
            for served in models:
                await run_in_threadpool(served.close)

    return lifespan


def _add_answer_routes(app: FastAPI, models: dict[str, ServedModel], answering: Answering) -> None:
    @app.post("/v1/completions", response_model=None)
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """Go on from a text."""
        return await answering.complete(find_model(models, body.model), body, request)

    @app.post("/v1/chat/completions", response_model=None)
    async def chat_completions(body: ChatRequest, request: Request) -> Response:
        """Answer a conversation."""
        return await answering.chat(find_model(models, body.model), body, request)


def _add_reading_routes(app: FastAPI, models: dict[str, ServedModel]) -> None:
    @app.post("/v1/embeddings", response_model=None)
    async def embeddings(body: EmbeddingRequest) -> dict[str, Any]:
        """A vector for each text."""
        require_neutral(body)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if not 1 <= len(texts) <= MAX_PROMPTS:
            message = f"input has {len(texts):,} texts; give 1 to {MAX_PROMPTS:,}"
            raise RequestError(400, message, "invalid_value", "input")
        served = find_model(models, body.model)
        vectors, n_tokens = await run_in_threadpool(served.representations, texts)
        data = []
        for number, vector in enumerate(vectors):
            value: Any = vector.tolist()
            if body.encoding_format == "base64":
                value = base64.b64encode(vector.astype("<f4").tobytes()).decode()
            data.append({"object": "embedding", "index": number, "embedding": value})
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        return {"object": "list", "data": data, "model": served.name, "usage": usage}

    @app.post("/fill-mask", response_model=None)
    async def fill_mask(body: FillMaskRequest) -> dict[str, Any]:
        """The most likely tokens for each mask of a text."""
        served = find_model(models, body.model)
        masks = await run_in_threadpool(served.mask_candidates, body.text, body.n_candidates)
        return {
            "object": "list",
            "model": served.name,
            "data": [[vars(one) for one in candidates] for candidates in masks],
        }


def _add_state_routes(app: FastAPI, models: dict[str, ServedModel], metrics: Metrics) -> None:
    @app.get("/v1/models", response_model=None)
    async def list_models() -> dict[str, Any]:
        """All models."""
        return {"object": "list", "data": [served.card for served in models.values()]}

    @app.get("/v1/models/{model:path}", response_model=None)
    async def one_model(model: str) -> dict[str, Any]:
        """One model."""
        return find_model(models, model).card

    @app.get(HEALTH, response_model=None)
    async def health() -> dict[str, str]:
        """Is the server there?"""
        return {"status": "ok"}

    @app.get("/metrics", response_model=None)
    async def prometheus() -> Response:
        """Counts for Prometheus."""
        states = {name: served.engine.state for name, served in models.items()}
        return PlainTextResponse(metrics.text(states), media_type=CONTENT_TYPE)


def find_model(models: dict[str, ServedModel], name: str) -> ServedModel:
    """The model of a name; RequestError where there is none."""
    if name not in models:
        known = ", ".join(map(repr, models))
        message = f"model is {name!r:.100}, which is not served; use {known}"
        raise RequestError(404, message, "model_not_found", "model")
    return models[name]


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestError)
    async def refuse(_: Request, fault: RequestError) -> Response:
        return error_response(fault)

    @app.exception_handler(ParibusError)
    async def refuse_ours(_: Request, fault: ParibusError) -> Response:
        return error_response(engine_fault(fault))

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(_: Request, fault: RequestValidationError) -> Response:
        return error_response(validation_error(fault.errors()))

    @app.exception_handler(HTTPException)
    async def refuse_http(_: Request, fault: HTTPException) -> Response:
        return error_response(RequestError(fault.status_code, str(fault.detail)))

    @app.exception_handler(Exception)
    async def fail(_: Request, fault: Exception) -> Response:
        return error_response(engine_fault(fault))


def error_response(fault: RequestError) -> Response:
    """An error in the shape of OpenAI."""
    return JSONResponse(fault.body, fault.status, headers=fault.headers)
