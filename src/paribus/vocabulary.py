"""Which ids are text and which are special tokens: ours, or those of an imported tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.spec.corpus import (
    END_OF_TURN,
    N_ROLE_TOKENS,
    N_SENTINELS,
    N_SPECIAL_TOKENS,
    ROLES,
)

_FIRST_SENTINEL = N_SPECIAL_TOKENS - N_ROLE_TOKENS - N_SENTINELS
_SENTINEL = "gap"


def sentinel_name(number: int) -> str:
    """What the special token of the n-th hidden span is called, counted from 0."""
    return f"{_SENTINEL} {number}"


@dataclass(frozen=True)
class TextFrame:
    """The ids that an imported tokenizer puts before and after every text."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


NO_FRAME = TextFrame()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Which numbers are text and which are signs: the tokenizer's ids come first, then ours in
    a fixed order.

    An imported model has no room for our special tokens: it has `own` ones among its ids, and
    asking for another is refused.
    """

    n_text: int
    bytes_V: Tensor  # how many bytes of text each id stands for; 0 for a sign
    # ids by our names: "pad", "begin", "end", "start", "mask", "gap 0", … as far as there are any
    own_special_tokens: Mapping[str, int] | None = None
    # how the texts were framed that a model was trained on elsewhere; None: as they are here
    frame: TextFrame | None = None

    @property
    def pad(self) -> int:
        """What fills a row; nothing attends to it, so an imported model may lack one."""
        if self.own_special_tokens is not None and "pad" not in self.own_special_tokens:
            return self.own_special_tokens.get("end", 0)
        return self._special_token("pad", 0)

    @property
    def eos(self) -> int:
        """After every document, and after every answer."""
        return self._special_token("end", 1)

    @property
    def bos(self) -> int:
        """Before every document: the end of the one before it, or what an imported tokenizer
        has for it.
        """
        if self.own_special_tokens is None or "begin" not in self.own_special_tokens:
            return self.eos
        return self.own_special_tokens["begin"]

    @property
    def has_bos(self) -> bool:
        """Is there something to put before a document?"""
        own = self.own_special_tokens
        return own is None or "begin" in own or "end" in own

    @property
    def decoder_start(self) -> int:
        """What a decoder reads before its first token."""
        return self._special_token("start", 2)

    @property
    def mask(self) -> int:
        return self._special_token("mask", 3)

    @property
    def mode_tokens(self) -> dict[str, int]:
        """UL2's signs of what kind of denoising is asked."""
        return {mode: self._special_token(mode, 4 + place) for place, mode in enumerate("RSX")}

    def sentinel(self, number: int | Tensor) -> int | Tensor:
        """The special token of the n-th hidden span, counted from 0; of several spans, a tensor
        of their numbers. A number below 0, which stands before the first span, is as good as 0.
        """
        if self.own_special_tokens is None:
            return self.n_text + _FIRST_SENTINEL + number
        if isinstance(number, Tensor):
            ids = [self._special_token(sentinel_name(n), 0) for n in range(self.n_sentinels)]
            return torch.tensor(ids)[number.clamp(min=0)]
        return self._special_token(sentinel_name(number), 0)

    @property
    def n_sentinels(self) -> int:
        """How many hidden spans of one text can be told apart."""
        if self.own_special_tokens is None:
            return N_SENTINELS
        n_own = 0
        while sentinel_name(n_own) in self.own_special_tokens:
            n_own += 1
        return n_own

    @property
    def role_tokens(self) -> dict[str, int]:
        """What opens a turn of a conversation, by who speaks."""
        first = N_SPECIAL_TOKENS - N_ROLE_TOKENS
        return {role: self._special_token(role, first + place) for place, role in enumerate(ROLES)}

    @property
    def end_of_turn(self) -> int:
        return self._special_token(END_OF_TURN, N_SPECIAL_TOKENS - 1)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Every sign as it is written for people and other programs, in the order of their ids."""
        names = (
            "pad",
            "end",
            "start",
            "mask",
            *self.mode_tokens,
            *map(sentinel_name, range(N_SENTINELS)),
            *ROLES,
            END_OF_TURN,
        )
        return {f"‹{name}›": self.n_text + place for place, name in enumerate(names)}

    @property
    def size(self) -> int:
        """One more than the largest id. Ids that were added to an imported tokenizer's own, such as
        those of roles, lie after its text.
        """
        if self.own_special_tokens is None:
            return self.n_text + N_SPECIAL_TOKENS
        return max(self.n_text, *(number + 1 for number in self.own_special_tokens.values()), 0)

    def __post_init__(self) -> None:
        assert self.bytes_V.shape == (self.size,)

    def _special_token(self, name: str, offset: int) -> int:
        if self.own_special_tokens is None:
            return self.n_text + offset
        if name not in self.own_special_tokens:
            there = ", ".join(self._described_special_tokens()) or "none"
            raise UnsupportedError(
                f"the model was imported, and its tokenizer has no special token {name!r} (it has"
                f" {there}); use a model that was trained here"
            )
        return self.own_special_tokens[name]

    @property
    def named_special_tokens(self) -> dict[str, int]:
        """Every special token by its plain name, ours or an imported tokenizer's own."""
        if self.own_special_tokens is not None:
            return dict(self.own_special_tokens)
        return {name.strip("‹›"): number for name, number in self.special_tokens.items()}

    def _described_special_tokens(self) -> list[str]:
        """The names of an imported tokenizer's own special tokens, its sentinels as one."""
        names = []
        for name in self.own_special_tokens or ():
            if not name.startswith(_SENTINEL):
                names.append(name)
        if self.n_sentinels:
            names.append(f"{self.n_sentinels} sentinels")
        return names


def vocabulary_with_roles(vocabulary: Vocabulary) -> Vocabulary:
    """A vocabulary with special tokens of roles and of the end of a turn, which are added after
    all ids where an imported tokenizer lacks them.
    """
    own = vocabulary.own_special_tokens
    if own is None:
        return vocabulary
    ids = dict(own)
    n_ids = vocabulary.size
    for name in (*ROLES, END_OF_TURN):
        if name not in ids:
            ids[name] = n_ids
            n_ids += 1
    added = vocabulary.bytes_V.new_zeros(n_ids - vocabulary.size)
    bytes_V = torch.cat([vocabulary.bytes_V, added])
    return replace(vocabulary, bytes_V=bytes_V, own_special_tokens=ids)
