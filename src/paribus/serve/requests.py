"""What clients of OpenAI send, read strictly: every field is obeyed, or neutral, or refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from paribus.corpus.conversations import Turn
from paribus.generate.settings import MAX_STOP_LETTERS, MAX_STOP_STRINGS
from paribus.serve.http_errors import RequestError, unsupported_parameter

MAX_CHOICES = 128
MAX_PROMPTS = 2048
MAX_LIKELIEST = 20
MAX_SEED = 2**63 - 1
# The values at which fields of OpenAI that are not obeyed ask for nothing. None always does; `...`
# stands for any value, because the field is a note to the server and changes no answer.
ANY = ...
NEUTRAL_VALUES: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "dimensions": (),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "metadata": (ANY,),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_cache_key": (ANY,),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": ("none",),
    "response_format": ({"type": "text"},),
    "safety_identifier": (ANY,),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "user": (ANY,),
    "verbosity": (),
    "web_search_options": (),
}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(_Body):
    """What a stream says beside the answer."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class TextPart(_Body):
    """A part of a message; only text can be read."""

    type: Literal["text"]
    text: str


class ChatMessage(_Body):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None
    name: None = None
    refusal: None = None
    audio: None = None
    annotations: list[Any] | None = None
    function_call: None = None
    tool_calls: list[Any] | None = Field(None, max_length=0)

    @property
    def turn(self) -> Turn:
        """The message as a model reads it; a developer speaks as the system."""
        role = "system" if self.role == "developer" else self.role
        if self.content is None:
            return Turn(role, "")
        if isinstance(self.content, str):
            return Turn(role, self.content)
        return Turn(role, "".join(part.text for part in self.content))


class _Answered(_Body):
    """What completions and chat have in common."""

    model: str
    max_tokens: int | None = Field(None, ge=1, le=1 << 30)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=0, le=MAX_SEED)
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)

    frequency_penalty: Any = None
    logit_bias: Any = None
    presence_penalty: Any = None
    user: Any = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The stop strings; RequestError where there are too many, or one is empty."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stop) > MAX_STOP_STRINGS:
            raise RequestError(
                400,
                f"stop has {len(stop):,} strings; use at most {MAX_STOP_STRINGS}",
                "invalid_value",
                "stop",
            )
        for place, one in enumerate(stop):
            if not 1 <= len(one) <= MAX_STOP_LETTERS:
                raise RequestError(
                    400,
                    f"stop.{place} has {len(one):,} letters; use 1 to {MAX_STOP_LETTERS:,}",
                    "invalid_value",
                    "stop",
                )
        return tuple(stop)

    @property
    def includes_usage(self) -> bool:
        """Does a stream end with what was used?"""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class CompletionRequest(_Answered):
    """A text to go on from: `/v1/completions`."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: int | None = Field(None, ge=0, le=MAX_LIKELIEST)

    best_of: Any = None
    echo: Any = None
    suffix: Any = None

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """Each text, or its tokens."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if prompt and isinstance(prompt[0], int):
            return [prompt]  # type: ignore[list-item]
        return prompt  # type: ignore[return-value]


class ChatRequest(_Answered):
    """A conversation to answer: `/v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1, le=1 << 30)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LIKELIEST)

    audio: Any = None
    function_call: Any = None
    functions: Any = None
    metadata: Any = None
    modalities: Any = None
    moderation: Any = None
    parallel_tool_calls: Any = None
    prediction: Any = None
    prompt_cache_key: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    reasoning_effort: Any = None
    response_format: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    store: Any = None
    tool_choice: Any = None
    tools: Any = None
    verbosity: Any = None
    web_search_options: Any = None


class EmbeddingRequest(_Body):
    """Texts to represent: `/v1/embeddings`."""

    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = None

    dimensions: Any = None
    user: Any = None


class FillMaskRequest(_Body):
    """A text with masks: `/fill-mask`."""

    model: str
    text: str
    n_candidates: int = Field(5, ge=1, le=100)


def require_neutral(request: BaseModel) -> None:
    """RequestError for a field of OpenAI that asks for what is not done here."""
    for name, values in NEUTRAL_VALUES.items():
        value = getattr(request, name, None)
        if value is None or ANY in values:
            continue
        if not any((type(value) is not bool and value == one) or value is one for one in values):
            raise unsupported_parameter(name, value, _advice(values))


def _advice(values: tuple[Any, ...]) -> str:
    if not values:
        return "leave it out"
    return "leave it out, or use " + " or ".join(repr(one) for one in values)
