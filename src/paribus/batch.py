"""The tensors with names that cross packages: what is read, and how it lies.

Shapes, here and everywhere: B sequences, T query positions, S key positions, D model width, H query heads,
G key/value heads, E head width, F feed-forward width, V vocabulary, L layers, N experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.errors import SpecError, UnsupportedError
from paribus.spec.corpus import N_SENTINELS as N_SENTINELS
from paribus.spec.corpus import N_SIGNS as N_SIGNS

Act = Callable[[Tensor], Tensor]


def acted(named: object, act: Act) -> dict[str, Tensor]:
    """Something done to each tensor among an object's own fields."""
    return {name: act(value) for name, value in vars(named).items() if isinstance(value, Tensor)}


def onto(device: torch.device) -> Act:
    """To a device; a CUDA device fetches from pinned memory by itself while the host goes on."""
    return lambda tensor: tensor.to(device, non_blocking=device.type == "cuda")


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the positions of a batch lie, and which prefix, document or padding they belong to."""

    n_sequences: int
    length: int
    start: int = 0  # place of the first position; above 0 when a cache holds what came before
    prefix: int | Tensor = 0  # length of the prefix: one for all sequences, or [B]
    documents_BT: Tensor | None = None  # None: one document
    real_BT: Tensor | None = None  # False where padding; None: no padding
    positions_BT: Tensor | None = None  # what position encodings read; None: the place in the sequence

    def mapped(self, act: Act) -> Layout:
        """The same layout with something done to each of its tensors."""
        return replace(self, **acted(self, act))

    def positions(self, device: torch.device) -> Tensor:
        """[T] or [B, T]."""
        if self.positions_BT is not None:
            return self.positions_BT
        return torch.arange(self.start, self.start + self.length, device=device)


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens to read, their layout, and for an encoder-decoder the source they are read beside."""

    tokens_BT: Tensor
    layout: Layout
    segments_BT: Tensor | None = None
    source: Batch | None = None
    rows_B: Tensor | None = None  # each sequence's number in the global batch; None: counted from 0

    @property
    def n_positions(self) -> int:
        """Positions that go through a stack, padding too; those of a source are added."""
        own = self.layout.n_sequences * self.layout.length
        return own if self.source is None else own + self.source.n_positions

    @property
    def n_tokens(self) -> int:
        """Positions that hold a token, and so no padding; the device is asked where there is any."""
        real = self.layout.real_BT
        own = self.layout.n_sequences * self.layout.length if real is None else int(real.sum())
        return own if self.source is None else own + self.source.n_tokens

    def mapped(self, act: Act) -> Batch:
        """The same batch with something done to each of its tensors."""
        source = None if self.source is None else self.source.mapped(act)
        return replace(self, layout=self.layout.mapped(act), source=source, **acted(self, act))

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return self.mapped(onto(device))

    @staticmethod
    def of(
        tokens_BT: Tensor,
        *,
        prefix: int | Tensor = 0,
        documents_BT: Tensor | None = None,
        real_BT: Tensor | None = None,
        positions_BT: Tensor | None = None,
        segments_BT: Tensor | None = None,
        source: Tensor | Batch | None = None,
        rows_B: Tensor | None = None,
    ) -> Batch:
        """A batch from its tokens; the layout's length follows from their shape.

        A source given as tokens is all prefix, which an encoder's mask may ask for; as a batch it says so itself.
        """
        if not isinstance(tokens_BT, Tensor) or tokens_BT.dim() != 2 or tokens_BT.is_floating_point():
            raise SpecError(f"tokens are {_brief(tokens_BT)}; give a tensor of whole numbers, [sequences, positions]")
        n_sequences, length = tokens_BT.shape
        laid = {
            "documents_BT": documents_BT,
            "real_BT": real_BT,
            "positions_BT": positions_BT,
            "segments_BT": segments_BT,
        }
        for name, tensor in laid.items():
            if tensor is not None and tensor.shape != tokens_BT.shape:
                raise SpecError(
                    f"{name} is {_brief(tensor)} beside tokens {_brief(tokens_BT)}; give one of their shape"
                )
        if real_BT is not None and real_BT.dtype != torch.bool:
            raise SpecError(f"real_BT holds {real_BT.dtype}; give torch.bool, True where there is a token")
        _check_prefix(prefix, n_sequences, length)
        layout = Layout(n_sequences, length, 0, prefix, documents_BT, real_BT, positions_BT)
        source = _source_of(source) if isinstance(source, Tensor) else source
        if source is not None and (source.source is not None or source.layout.n_sequences != n_sequences):
            raise SpecError(
                f"source has {source.layout.n_sequences} sequences beside {n_sequences}, or a source of its own; "
                f"give one sequence for each, without"
            )
        return Batch(tokens_BT, layout, segments_BT, source, rows_B)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Which numbers are text and which are signs: the tokenizer's ids come first, then ours in a fixed order.

    An imported model has no room for our signs: it has `own` ones among its ids, and asking for another is refused.
    """

    n_text: int
    bytes_V: Tensor  # how many bytes of text each id stands for; 0 for a sign
    own: Mapping[str, int] | None = None  # ids of "pad", "begin", "end", "start", "mask", as far as there are any

    @property
    def pad(self) -> int:
        return self._sign("pad", 0)

    @property
    def end(self) -> int:
        """After every document, and after every answer."""
        return self._sign("end", 1)

    @property
    def begin(self) -> int:
        """Before every document: the end of the one before it, or what an imported tokenizer has for it."""
        return self.end if self.own is None or "begin" not in self.own else self.own["begin"]

    @property
    def start(self) -> int:
        """What a decoder reads before its first word."""
        return self._sign("start", 2)

    @property
    def mask(self) -> int:
        return self._sign("mask", 3)

    @property
    def modes(self) -> dict[str, int]:
        """UL2's signs of what kind of denoising is asked."""
        return {mode: self._sign(mode, 4 + place) for place, mode in enumerate("RSX")}

    def sentinel(self, number: int | Tensor) -> int | Tensor:
        """The sign of the n-th gap, counted from 0."""
        return self._sign("gap", N_SIGNS - N_SENTINELS) + number

    @property
    def signs(self) -> dict[str, int]:
        """Every sign as it is written for people and other programs, in the order of their ids."""
        names = ("pad", "end", "start", "mask", *self.modes, *(f"gap {n}" for n in range(N_SENTINELS)))
        return {f"‹{name}›": self.n_text + place for place, name in enumerate(names)}

    @property
    def size(self) -> int:
        return self.n_text + (N_SIGNS if self.own is None else 0)

    def __post_init__(self) -> None:
        assert self.bytes_V.shape == (self.size,)

    def _sign(self, name: str, place: int) -> int:
        if self.own is None:
            return self.n_text + place
        if name not in self.own:
            there = ", ".join(self.own) or "none"
            raise UnsupportedError(
                f"the model was imported, and its tokenizer has no special token {name!r} (it has {there}); "
                f"use a model that was trained here"
            )
        return self.own[name]


@dataclass(frozen=True, eq=False)
class Reading:
    """A slice of global batch k: text as it was read, on the CPU, not yet a problem.

    Running text fills every row, document after document. A pair is one row: its source, its target, then padding.
    """

    k: int
    rows_B: Tensor  # each row's number in the global batch
    tokens_BT: Tensor
    documents_BT: Tensor  # numbered from 0 within each row
    sentences_BT: Tensor  # likewise
    real_BT: Tensor | None = None  # None: no padding
    targets_from_B: Tensor | None = None  # where the target of a pair begins; None: running text


def _source_of(tokens_BS: Tensor) -> Batch:
    source = Batch.of(tokens_BS)
    return replace(source, layout=replace(source.layout, prefix=source.layout.length))


def _check_prefix(prefix: int | Tensor, n_sequences: int, length: int) -> None:
    if isinstance(prefix, Tensor):
        if prefix.shape != (n_sequences,) or prefix.is_floating_point():
            raise SpecError(f"prefix is {_brief(prefix)}; give a whole number for each of {n_sequences} sequences")
    elif not isinstance(prefix, int) or not 0 <= prefix <= length:
        raise SpecError(f"prefix is {prefix!r} of length {length}; use 0 to {length}")


def _brief(given: object) -> str:
    return f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
