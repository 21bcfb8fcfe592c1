"""How a request of lm-evaluation-harness is laid before a model: as its training laid text, or as
lm-eval's own `hf` model would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Protocol

from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from paribus.errors import SpecError
from paribus.evaluate.run import trained_window
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.objectives.answering import answering_component
from paribus.objectives.framing import (
    Ids,
    ItemLayout,
    LaidItem,
    item_layout,
    lay_item,
    plain_layout,
)

FramingName = Literal["trained", "plain"]
FRAMINGS: tuple[FramingName, ...] = ("trained", "plain")
MAX_SHOWN = 40  # letters of a continuation in a message
N_REMEMBERED = 2**12  # texts: the options of a question share its context

Encode = Callable[[str], Sequence[int]]


class RequestFraming(Protocol):
    """What lies before a model for each kind of request."""

    @property
    def scoring(self) -> ItemLayout:
        """The layout of items that are scored."""
        ...

    @property
    def generation(self) -> ItemLayout:
        """The layout of contexts that are continued."""
        ...

    def lay_pair(self, context: str, continuation: str) -> LaidItem:
        """A continuation to be scored after its context."""
        ...

    def lay_windows(self, text: str) -> Iterator[LaidItem]:
        """A text of any length in pieces, each token scored once."""
        ...

    def context_tokens(self, context: str, n_tokens: int) -> Ids:
        """A context that is to be continued by up to `n_tokens`."""
        ...


def open_framing(name: str, checkpoint: LoadedCheckpoint) -> RequestFraming:
    """The framing of this name for a checkpoint; SpecError with the reason where it has none."""
    component = answering_component(checkpoint.objective(), "likelihood")
    spec, vocabulary = checkpoint.spec, checkpoint.vocabulary
    encode = lru_cache(N_REMEMBERED)(checkpoint.tokenizer.encode)
    trained = item_layout(component, spec, vocabulary, trained_window(checkpoint))
    match name:
        case "trained":
            trained = replace(trained, in_turns=checkpoint.chat_template is not None)
            encode_prompt = lru_cache(N_REMEMBERED)(checkpoint.encode_prompt)
            return TrainedFraming(encode, encode_prompt, trained)
        case "plain":
            plain = plain_layout(spec, vocabulary, spec.max_length, trained.context_is_prefix)
            plain = replace(plain, bars_special_tokens=False)
            if plain.framing == "apart":
                scoring = plain
            else:
                scoring = replace(plain, window=plain.window + 1)
            encode_context = lru_cache(N_REMEMBERED)(checkpoint.encode_text)
            return PlainFraming(encode, encode_context, plain, scoring)
        case _:
            raise SpecError(f"framing is {name!r}; use {' or '.join(FRAMINGS)}")


@dataclass(frozen=True, eq=False)
class TrainedFraming:
    """Context and continuation as texts of their own, with the special tokens of training.

    Where nothing precedes a context in training and there is none, the end of a document stands
    for it. A model that was trained on conversations reads a context as the turn of a user.
    """

    encode: Encode
    encode_prompt: Encode
    scoring: ItemLayout

    @property
    def generation(self) -> ItemLayout:
        return self.scoring

    def lay_pair(self, context: str, continuation: str) -> LaidItem:
        context, continuation = _move_trailing_space(context, continuation)
        name = repr(continuation[:MAX_SHOWN])
        return self._lay(name, self._encode_context(context), self.encode(continuation))

    def lay_windows(self, text: str) -> Iterator[LaidItem]:
        layout = self.scoring
        longest = layout.window - len(layout.sentinel)
        if layout.framing != "apart":
            longest -= len(layout.mode_token) + len(layout.sentinel) + 1
        tokens = self.encode(text)
        later = replace(self, scoring=replace(layout, document_prefix=()))
        for number, (context, target) in enumerate(
            _windows(tokens, layout.vocabulary.bos, longest)
        ):
            if number == 0:
                yield self._lay("of a text", (), target)
            else:
                yield later._lay("of a text", context, target)

    def context_tokens(self, context: str, n_tokens: int) -> Ids:
        return self._or_end(self._encode_context(context))

    def _encode_context(self, context: str) -> Sequence[int]:
        if not context:
            return ()
        return self.encode_prompt(context)

    def _lay(self, name: str, context: Sequence[int], target: Sequence[int]) -> LaidItem:
        return lay_item(self.scoring, name, self._or_end(context), target)

    def _or_end(self, context: Sequence[int]) -> Ids:
        if context or self.scoring.document_prefix:
            return tuple(context)
        return (self.scoring.vocabulary.bos,)


@dataclass(frozen=True, eq=False)
class PlainFraming:
    """Context and continuation as lm-eval's `hf` model reads them: no token of ours is added, and
    a text that is too long loses its beginning.
    """

    encode: Encode
    encode_context: Encode  # with what an imported tokenizer always adds
    generation: ItemLayout
    scoring: ItemLayout  # in one sequence one token longer: the last of a target is not read

    def lay_pair(self, context: str, continuation: str) -> LaidItem:
        name = repr(continuation[:MAX_SHOWN])
        context, continuation = _move_trailing_space(context, continuation)
        if not context:
            tokens = self.encode(continuation)
            if tuple(tokens[:1]) == (self._prefix_token,):
                return lay_item(self.scoring, name, tokens[:1], tokens[1:])
            return lay_item(self.scoring, name, (self._prefix_token,), tokens)
        context_tokens = self.encode_context(context)
        if self.scoring.framing == "apart":
            target = self.encode(continuation)
        else:
            whole = self.encode_context(context + continuation)
            target = whole[len(context_tokens) :]
        return lay_item(self.scoring, name, context_tokens, target)

    def lay_windows(self, text: str) -> Iterator[LaidItem]:
        tokens = self.encode_context(text)
        for context, target in _windows(tokens, self._prefix_token, self.generation.window):
            yield lay_item(self.scoring, "of a text", context, target)

    def context_tokens(self, context: str, n_tokens: int) -> Ids:
        tokens = self.encode_context(context) or (self._prefix_token,)
        n_read = self.generation.window
        if self.generation.framing != "apart":
            n_read -= n_tokens
        if n_read < 1:
            raise SpecError(
                f"{n_tokens} new tokens are asked for, which leaves no room for a context in a"
                f" window of {self.generation.window}; set max_gen_toks below that"
            )
        return tuple(tokens[-n_read:])

    @property
    def _prefix_token(self) -> int:
        return self.generation.vocabulary.bos


def _move_trailing_space(context: str, continuation: str) -> tuple[str, str]:
    """Space at the end of a context belongs to the word that follows."""
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def _windows(tokens: Sequence[int], prefix_token: int, longest: int) -> Iterator[tuple[Ids, Ids]]:
    """lm-eval's windows over a text: a context and a target each, with as much context as fits
    before the last.
    """
    for window in get_rolling_token_windows(list(tokens), prefix_token, longest, context_len=1):
        context, target = make_disjoint_window(window)
        yield tuple(context), tuple(target)
