"""Requests of lm-evaluation-harness for text: what they ask, and answers to many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.models.utils import normalize_gen_kwargs

from paribus.errors import UnsupportedError
from paribus.evaluate.lm_eval.framings import RequestFraming
from paribus.evaluate.tasks.target_scores import MAX_BATCH_POSITIONS
from paribus.generate import Sampling, generate_answers
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model import Transformer
from paribus.objectives.framing import Ids

N_TOKENS = 256  # where a task does not say, as in lm-eval's own models
# Settings of other models that change nothing at these values.
NEUTRAL_SETTINGS: dict[str, tuple[Any, ...]] = {
    "top_p": (1, None),
    "top_k": (0, None),
    "num_beams": (1, None),
    "repetition_penalty": (1, None),
    "do_sample": (True, False, None),
}


@dataclass(frozen=True)
class TextRequest:
    """A context's tokens, and how it is to be continued."""

    context: Ids
    n_tokens: int
    temperature: float
    until: tuple[str, ...]

    @property
    def manner(self) -> tuple[int, float, tuple[str, ...]]:
        """What requests that are answered together have in common."""
        return self.n_tokens, self.temperature, self.until


def text_request(framing: RequestFraming, context: str, settings: Mapping[str, Any]) -> TextRequest:
    """A request as lm-eval states it; UnsupportedError for a setting that nothing here obeys."""
    values: dict[str, Any] = {**normalize_gen_kwargs(dict(settings), N_TOKENS)}
    n_tokens, until = int(values.pop("max_gen_toks")), values.pop("until")
    temperature = float(values.pop("temperature", 0.0))
    for name, value in values.items():
        if value not in NEUTRAL_SETTINGS.get(name, ()):
            raise UnsupportedError(
                f"generation_kwargs.{name} is {value!r}, which is not supported; use until,"
                " max_gen_toks, do_sample and temperature"
            )
    ends = tuple(term for term in until if term)
    return TextRequest(framing.context_tokens(context, n_tokens), n_tokens, temperature, ends)


@dataclass(frozen=True, eq=False)
class TextGenerator:
    """A model that continues contexts, so many sequences at a time, or as many as it reads at
    ease.
    """

    model: Transformer
    checkpoint: LoadedCheckpoint
    framing: RequestFraming
    n_sequences: int | None = None

    def texts(self, requests: Sequence[TextRequest]) -> list[str]:
        """The text that follows each context, up to the first of its `until`."""
        texts = [""] * len(requests)
        for numbers in self._batches(requests):
            first = requests[numbers[0]]
            answers = generate_answers(
                self.model,
                self.framing.generation,
                [requests[number].context for number in numbers],
                Sampling(first.n_tokens, first.temperature, seed=numbers[0]),
                is_done=self._stop(first.until),
            )
            for number, answer in zip(numbers, answers, strict=True):
                texts[number] = _before_any(self._decode(answer.tokens), first.until)
        return texts

    def _batches(self, requests: Sequence[TextRequest]) -> Iterator[list[int]]:
        """Numbers of requests that are answered together: alike in manner, and in length.

        Where tokens are drawn each is by itself, so that its draws do not depend on the others.
        """
        order = sorted(
            range(len(requests)),
            key=lambda number: (requests[number].manner, len(requests[number].context)),
        )
        batch: list[int] = []
        for number in order:
            if batch and not self._fits(requests[batch[0]], requests[number], len(batch) + 1):
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    def _fits(self, first: TextRequest, longest: TextRequest, n_sequences: int) -> bool:
        if first.manner != longest.manner or first.temperature > 0:
            return False
        if self.n_sequences is not None:
            return n_sequences <= self.n_sequences
        device = self.model.embedding.weight.device.type
        n_positions = (len(longest.context) + longest.n_tokens) * n_sequences
        return n_positions <= MAX_BATCH_POSITIONS.get(device, 2**14)

    def _stop(self, until: Sequence[str]) -> Callable[[Ids], bool] | None:
        if not until:
            return None
        return lambda tokens: _before_any(text := self._decode(tokens), until) != text

    def _decode(self, tokens: Ids) -> str:
        """The text of tokens, without special ones."""
        vocabulary = self.checkpoint.vocabulary
        special = set((vocabulary.own_special_tokens or {}).values())
        text_tokens = []
        for token in tokens:
            if token < vocabulary.n_text and token not in special:
                text_tokens.append(token)
        return self.checkpoint.tokenizer.decode(text_tokens)


def _before_any(text: str, ends: Sequence[str]) -> str:
    """A text up to the first of several ends."""
    for end in ends:
        text = text.split(end)[0]
    return text
