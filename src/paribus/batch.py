"""The tensors with names that cross packages: what is read, and how it lies.

Shapes, here and everywhere: B sequences, T query positions, S key positions, D model width, H query
heads, G key/value heads, E head width, F feed-forward width, V vocabulary, L layers, N experts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.errors import SpecError
from paribus.spec.corpus import N_SENTINELS as N_SENTINELS
from paribus.spec.corpus import N_SPECIAL_TOKENS as N_SPECIAL_TOKENS
from paribus.vocabulary import Vocabulary as Vocabulary

TensorFunction = Callable[[Tensor], Tensor]


def map_tensors(owner: object, function: TensorFunction) -> dict[str, Tensor]:
    """Something done to each tensor among an object's own fields."""
    return {
        name: function(value) for name, value in vars(owner).items() if isinstance(value, Tensor)
    }


def to_device(device: torch.device) -> TensorFunction:
    """To a device; a CUDA device fetches from pinned memory by itself while the host goes on."""
    return lambda tensor: tensor.to(device, non_blocking=device.type == "cuda")


@dataclass(frozen=True, eq=False)
class BatchLayout:
    """Where the positions of a batch lie, and which prefix, document or padding they belong to."""

    n_sequences: int
    length: int
    start: int = 0  # place of the first position; above 0 when a cache holds what came before
    prefix: int | Tensor = 0  # length of the prefix: one for all sequences, or [B]
    documents_BT: Tensor | None = None  # None: one document
    real_BT: Tensor | None = None  # False where padding; None: no padding
    positions_BT: Tensor | None = (
        None  # what position encodings read; None: the place in the sequence
    )
    places_BT: Tensor | None = None  # places in the sequence; None: from `start` on, one by one

    def map_tensors(self, function: TensorFunction) -> BatchLayout:
        """A layout with a function applied to each of its tensors."""
        return replace(self, **map_tensors(self, function))

    def select_rows(self, rows_B: Tensor) -> BatchLayout:
        """The layout of some of its sequences, in any order and any number of times each."""
        selected = self.map_tensors(lambda tensor: tensor[rows_B])
        return replace(selected, n_sequences=len(rows_B))

    def positions(self, device: torch.device) -> Tensor:
        """What position encodings read: [T] or [B, T]."""
        if self.positions_BT is not None:
            return self.positions_BT
        return self.places(device)

    def places(self, device: torch.device) -> Tensor:
        """Where each position stands in its sequence: [T] or [B, T]."""
        if self.places_BT is not None:
            return self.places_BT
        return torch.arange(self.start, self.start + self.length, device=device)


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens to read, their layout, and for an encoder-decoder the source they are read beside."""

    tokens_BT: Tensor
    layout: BatchLayout
    segments_BT: Tensor | None = None
    source: Batch | None = None
    rows_B: Tensor | None = None  # each sequence's number in the global batch; None: counted from 0
    source_rows_B: Tensor | None = (
        None  # the row of `source` that each sequence reads; None: its own
    )

    @property
    def n_positions(self) -> int:
        """Positions that go through a stack, padding too; those of a source are added."""
        own = self.layout.n_sequences * self.layout.length
        if self.source is None:
            return own
        return own + self.source.n_positions

    @property
    def n_tokens(self) -> int:
        """Positions that hold a token, and so no padding; the device is asked where there is
        any.
        """
        real = self.layout.real_BT
        if real is None:
            own = self.layout.n_sequences * self.layout.length
        else:
            own = int(real.sum())
        if self.source is None:
            return own
        return own + self.source.n_tokens

    def map_tensors(self, function: TensorFunction) -> Batch:
        """A batch with a function applied to each of its tensors."""
        if self.source is None:
            source = None
        else:
            source = self.source.map_tensors(function)
        return replace(
            self,
            layout=self.layout.map_tensors(function),
            source=source,
            **map_tensors(self, function),
        )

    def to(self, device: torch.device) -> Batch:
        """The batch on another device."""
        return self.map_tensors(to_device(device))

    @staticmethod
    def of(
        tokens_BT: Tensor,
        *,
        prefix: int | Tensor = 0,
        documents_BT: Tensor | None = None,
        real_BT: Tensor | None = None,
        positions_BT: Tensor | None = None,
        source: Tensor | Batch | None = None,
    ) -> Batch:
        """A batch from its tokens; the layout's length follows from their shape.

        A source given as tokens is all prefix, which an encoder's mask may ask for; as a batch it
        says so itself.
        """
        if (
            not isinstance(tokens_BT, Tensor)
            or tokens_BT.dim() != 2
            or tokens_BT.is_floating_point()
        ):
            raise SpecError(
                f"tokens are {_describe(tokens_BT)}; give a tensor of whole numbers, [sequences,"
                " positions]"
            )
        n_sequences, length = tokens_BT.shape
        _require_shape("documents_BT", documents_BT, tokens_BT)
        _require_shape("real_BT", real_BT, tokens_BT)
        _require_shape("positions_BT", positions_BT, tokens_BT)
        if real_BT is not None and real_BT.dtype != torch.bool:
            raise SpecError(
                f"real_BT holds {real_BT.dtype}; give torch.bool, True where there is a token"
            )
        _require_prefix(prefix, n_sequences, length)
        layout = BatchLayout(
            n_sequences=n_sequences,
            length=length,
            start=0,
            prefix=prefix,
            documents_BT=documents_BT,
            real_BT=real_BT,
            positions_BT=positions_BT,
        )
        source = _source_of(source) if isinstance(source, Tensor) else source
        if source is not None and (
            source.source is not None or source.layout.n_sequences != n_sequences
        ):
            raise SpecError(
                f"source has {source.layout.n_sequences} sequences beside {n_sequences}, or a"
                " source of its own; give one sequence for each, without"
            )
        return Batch(tokens_BT=tokens_BT, layout=layout, source=source)

    def with_segments(self, segments_BT: Tensor | None) -> Batch:
        """The batch with the segment that each token belongs to."""
        _require_shape("segments_BT", segments_BT, self.tokens_BT)
        return replace(self, segments_BT=segments_BT)

    def with_shared_source(self, source: Batch, source_rows_B: Tensor) -> Batch:
        """The batch beside sources that several sequences may read, each of them encoded once."""
        assert source.source is None
        assert source_rows_B.shape == (self.layout.n_sequences,)
        return replace(self, source=source, source_rows_B=source_rows_B)

    def with_rows(self, rows_B: Tensor) -> Batch:
        """The batch with each sequence's number in the global batch."""
        return replace(self, rows_B=rows_B)


@dataclass(frozen=True, eq=False)
class TextBatch:
    """A slice of global batch k: text as it was read, on the CPU, not yet a problem.

    Running text fills every row, document after document. A pair is one row: its source, its
    target, then padding. So is a labelled text, whose label is a number beside it.
    """

    k: int
    rows_B: Tensor  # each row's number in the global batch
    tokens_BT: Tensor
    documents_BT: Tensor  # numbered from 0 within each row
    sentences_BT: Tensor  # likewise
    real_BT: Tensor | None = None  # None: no padding
    target_starts_B: Tensor | None = None  # where the target of a pair begins; None: running text
    # a preference has its source again, with the rejected target; None: there is none
    rejected_BT: Tensor | None = None
    rejected_real_BT: Tensor | None = None
    # labels of texts, [B, 1], or of words at their last tokens, [B, T], -1 elsewhere
    labels_BM: Tensor | None = None


def _source_of(tokens_BS: Tensor) -> Batch:
    source = Batch.of(tokens_BS)
    return replace(source, layout=replace(source.layout, prefix=source.layout.length))


def _require_shape(name: str, tensor: Tensor | None, tokens_BT: Tensor) -> None:
    if tensor is not None and tensor.shape != tokens_BT.shape:
        raise SpecError(
            f"{name} is {_describe(tensor)} beside tokens {_describe(tokens_BT)}; give one of their"
            " shape"
        )


def _require_prefix(prefix: int | Tensor, n_sequences: int, length: int) -> None:
    if isinstance(prefix, Tensor):
        if prefix.shape != (n_sequences,) or prefix.is_floating_point():
            raise SpecError(
                f"prefix is {_describe(prefix)}; give a whole number for each of {n_sequences}"
                " sequences"
            )
    elif not isinstance(prefix, int) or not 0 <= prefix <= length:
        raise SpecError(f"prefix is {prefix!r} of length {length}; use 0 to {length}")


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__
