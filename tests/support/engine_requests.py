"""Requests to an engine over a tiny model, and what the model answers without one."""

import torch
from byte_models import VOCABULARY, byte_model

from paribus.generate import AnswerHandle, Engine, Sampling, TokenRequest, continuation
from paribus.generate.choosing import RowStream
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, generation_layout, lay_context
from paribus.spec.objectives import Objective

TEXTS = ["the other day", "a", "where were we, and who was there", "once upon a time", "oh"]
BUDGET = 2**20


def model_and_layout(
    preset: str, objective: Objective, window: int = 83
) -> tuple[Transformer, ItemLayout]:
    model = byte_model(preset).double()
    return model, generation_layout(objective, model.spec, VOCABULARY, window)


def request_of(
    layout: ItemLayout, text: str, sampling: Sampling, row: int = 0, salt: bytes = b""
) -> TokenRequest:
    inputs = lay_context(layout, list(text.encode()), sampling.n_tokens).inputs
    stream = RowStream(sampling.seed, row)
    return TokenRequest(inputs=inputs, layout=layout, sampling=sampling, stream=stream, salt=salt)


def answer_alone(model: Transformer, request: TokenRequest) -> Ids:
    """What the model says when it makes one text, without an engine; it is the first row."""
    inputs = torch.tensor([request.inputs])
    said = continuation(model, request.layout, inputs, request.sampling)
    tokens = said.tokens_BT[0, : said.lengths_B[0]].tolist()
    return tuple(token for token in tokens if token not in request.layout.end_tokens)


def tokens_of(handle: AnswerHandle) -> Ids:
    return tuple(one.token for one in handle.said_tokens)


def drain(engine: Engine) -> None:
    for _ in range(1000):
        if engine.is_idle:
            return
        engine.step()
    raise AssertionError("the engine goes on and on")


def last_handle(engine: Engine, request: TokenRequest) -> AnswerHandle:
    handle = engine.submit(request)
    drain(engine)
    return handle


def context_request(
    layout: ItemLayout, inputs: Ids, n_tokens: int = 5, salt: bytes = b""
) -> TokenRequest:
    return TokenRequest(
        inputs=inputs,
        layout=layout,
        sampling=Sampling(n_tokens=n_tokens),
        stream=RowStream(0),
        salt=salt,
    )
