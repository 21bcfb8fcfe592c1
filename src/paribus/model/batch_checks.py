"""What a model refuses to read, and why."""

from __future__ import annotations

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.model.source_keys import SourceKeys
from paribus.spec import Architecture, ResolvedArchitecture


def require_valid_batch(
    batch: Batch, architecture: Architecture, spec: ResolvedArchitecture
) -> None:
    """SpecError or UnsupportedError if a model cannot read a batch as a whole."""
    if (batch.source is None) != (spec.encoder is None):
        raise SpecError(
            "batch.source is missing, but the model has an encoder; give Batch.of(tokens, source=…)"
            if batch.source is None
            else "batch.source is given, but the model has no encoder; leave it out"
        )
    require_documents_on_both_sides(batch)
    for side in (batch, batch.source):
        if side is not None:
            require_side_fits(side, architecture, spec)


def require_source(source: Batch | SourceKeys | None, spec: ResolvedArchitecture) -> None:
    """SpecError if there is no source for an encoder, or one for none."""
    if (source is None) != (spec.encoder is None):
        raise SpecError(
            "the model has an encoder, but neither batch.source nor a cache with one is given;"
            " give Batch.of(tokens, source=…)"
            if source is None
            else "batch.source is given, but the model has no encoder; leave it out"
        )


def require_documents_on_both_sides(batch: Batch) -> None:
    """SpecError if a text has documents and its source none, or the other way round."""
    if batch.source is not None and (batch.layout.documents_BT is None) != (
        batch.source.layout.documents_BT is None
    ):
        raise SpecError(
            "batch and batch.source must both have documents_BT, or neither; one of them has none"
        )


def require_side_fits(side: Batch, architecture: Architecture, spec: ResolvedArchitecture) -> None:
    """What holds for each sequence that a stack reads, whether a text or its source."""
    if side.layout.documents_BT is not None and not spec.asks_for_documents:
        raise SpecError(
            f"batch has documents_BT, but the mask {architecture.mask} does not keep documents"
            " apart; add '& same_document' to it, or leave them out"
        )
    require_length(side.layout.start + side.layout.length, spec)
    if side.segments_BT is not None and not spec.embedding.n_segments:
        raise SpecError("batch.segments_BT is given, but embedding.n_segments is 0; leave it out")


def require_length(end: int, spec: ResolvedArchitecture) -> None:
    """UnsupportedError if a text ends past the longest that a model reads."""
    if end > spec.max_length:
        raise UnsupportedError(
            f"the batch reaches position {end}, past max_length {spec.max_length}; cut it there"
        )
