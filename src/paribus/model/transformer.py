"""The one transformer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.masks import DocumentsSoFar, Full, Rule, appendable, keeps_source, leaves
from paribus.model.batch_checks import (
    require_documents_on_both_sides,
    require_length,
    require_side_fits,
    require_source,
    require_valid_batch,
)
from paribus.model.cache import StackPass
from paribus.model.dropout import DropoutKey
from paribus.model.experts import ExpertLoad
from paribus.model.forward import ExpertCompute, Forward, Observer, Part
from paribus.model.kernels import KernelChoice
from paribus.model.linear import JoinedWeights
from paribus.model.lookup import look_up
from paribus.model.memoised_property import memoised_property
from paribus.model.output_head import OutputHead
from paribus.model.reading import (
    Cache,
    CachedStates,
    SourceGrowth,
    appended_places,
    empty_cache,
    places_to_read,
    require_growth,
    source_growth,
    source_views,
    texts_of,
    tokens_at,
)
from paribus.model.rows_pass import RowsPass
from paribus.model.slots import IntArray, query_layout
from paribus.model.source_keys import CachedSource, SourceKeys, grow_source, source_seen_by
from paribus.model.stack import HiddenStates, TransformerStack
from paribus.model.steady_pass import SteadyPass
from paribus.spec import Architecture, resolve


class ModelOutput(NamedTuple):
    """Logits of every token at every position, and what each expert layer's router did."""

    logits_BTV: Tensor
    loads: dict[str, ExpertLoad]


class Transformer(nn.Module):
    """Any architecture paribus knows, built from its spec; a forward pass changes no state.

    `kernel` and `compute` choose how attention and experts are computed, never what.
    """

    def __init__(
        self,
        architecture: Architecture,
        kernel: KernelChoice = "auto",
        compute: ExpertCompute = "grouped",
    ):
        super().__init__()
        self.architecture, self.spec = architecture, resolve(architecture)
        spec = self.spec
        self.embedding = _empty_embedding(spec.n_vocab, spec.d_model)
        n_segments = spec.embedding.n_segments
        if n_segments:
            self.segments = _empty_embedding(n_segments, spec.d_model)
        else:
            self.segments = None
        self.stack = TransformerStack(spec, spec.stack, "stack", kernel, compute)
        if spec.encoder is None:
            encoder = None
        else:
            main = self.stack if spec.is_one_stack else None
            encoder = TransformerStack(spec, spec.encoder, "encoder", kernel, compute, main)
        self.encoder = encoder
        self.head = OutputHead(spec)

    def forward(
        self,
        batch: Batch | Tensor,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
    ) -> ModelOutput:
        """Logits for every position; dropout is drawn where a key is given, and off without.

        An observer sees the activations of every layer, and changes none.
        """
        hidden = self.hidden_states(batch, dropout_key, observer)
        return ModelOutput(self.logits(hidden.states_BTD), hidden.loads)

    def hidden_states(
        self,
        batch: Batch | Tensor,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
        left_out: Collection[Part] = (),
    ) -> HiddenStates:
        """The output of the last layer, below the output head. Parts that are left out are so in
        every block.
        """
        batch = Batch.of(batch) if isinstance(batch, Tensor) else batch
        require_valid_batch(batch, self.architecture, self.spec)
        if dropout_key is not None and dropout_key.rows_B is None:
            dropout_key = replace(dropout_key, rows_B=batch.rows_B)
        forward = Forward(dropout_key=dropout_key, observer=observer, left_out=frozenset(left_out))
        source, loads = None, {}
        if self.encoder is not None and batch.source is not None:
            encoder_out = self._encode(self.encoder, batch.source, forward)
            source, loads = (encoder_out.states_BTD, batch.source.layout), encoder_out.loads
            if batch.source_rows_B is not None:
                keys = self.stack.source_keys(*source, forward)
                source = SourceKeys(keys, batch.source.layout).share_rows(batch.source_rows_B)
        out = self.stack(self.embed(batch), batch.layout, self.stack.layers, source, forward)
        return HiddenStates(out.states_BTD, {**loads, **out.loads})

    def read(
        self,
        batch: Batch,
        cache: Cache | None = None,
        reserve: int = 0,
        observer: Observer | None = None,
    ) -> CachedStates:
        """Read texts of which a cache may hold a part, and keep what a continuation needs.

        `batch` has each text from its beginning, padded on the right. `cache` is that of the same
        texts and sources before they grew. Only tokens that are new or whose keys changed go
        through the model. A source that is left out is that of the cache. Buffers have room for
        `reserve` tokens.
        """
        texts = texts_of(batch)
        require_documents_on_both_sides(batch)
        require_side_fits(batch, self.architecture, self.spec)
        cache = cache or Cache(empty_cache(self.spec.stack, texts.n_sequences))
        forward = Forward(observer=observer, weights=cache.weights)
        require_source(batch.source or cache.source, self.spec)
        stack, views, source_places_BS = cache.stack, None, None
        require_growth(stack.texts, texts, "text", least=1)
        if batch.source is not None:
            growth = self._source_growth(batch.source, cache.source)
            if cache.source is not None:
                cross = [block.cross for block in self.spec.stack.layers]
                views = source_views(cross, cache, texts, growth)
            source = self._read_source(batch.source, cache.source, growth, forward)
            cache, source_places_BS = replace(cache, source=source), growth.places_BS
        places_BT = places_to_read(stack.rules, stack.texts, texts, views)
        stack_pass = StackPass(stack, places_BT, texts, batch.tokens_BT.device, reserve)
        out = self._read_pass(tokens_at(batch, places_BT), places_BT, stack_pass, cache, forward)
        if out.cache.stack.has_much_to_free:
            out = out._replace(cache=replace(out.cache, stack=out.cache.stack.compact()))
        return out._replace(source_places_BS=source_places_BS)

    def append(self, tokens_BT: Tensor, cache: Cache) -> CachedStates:
        """Read tokens behind each text of a cache. Prefixes stay where they are."""
        if not self.is_appendable:
            raise UnsupportedError(
                f"the mask {self.architecture.mask} changes earlier keys when a text grows; give"
                " the whole text to read()"
            )
        if tokens_BT.shape[1] == 0:
            raise SpecError("append was given no token; give at least one for each text")
        places_BT, texts = appended_places(cache.stack.texts, tokens_BT.shape[1])
        require_length(max(texts.lengths), self.spec)
        stack_pass = StackPass(cache.stack, places_BT, texts, tokens_BT.device)
        forward = Forward(weights=cache.weights)
        return self._read_pass(tokens_BT, places_BT, stack_pass, cache, forward)

    def read_rows(self, tokens_BT: Tensor, rows_pass: RowsPass) -> Tensor:
        """Read tokens behind texts that share rows, which get their keys: the states, [B, T, D]."""
        assert self.is_appendable
        require_length(int(rows_pass.places_BT.max()) + 1, self.spec)
        forward = Forward(cache=rows_pass, weights=rows_pass.weights)
        batch = Batch(tokens_BT, rows_pass.queries)
        require_source(rows_pass.source, self.spec)
        embedded_BTD, source = self.embed(batch), rows_pass.source
        out = self.stack(embedded_BTD, batch.layout, self.stack.layers, source, forward)
        rows_pass.finish()
        return out.states_BTD

    def step(
        self,
        tokens_B1: Tensor,
        steady: SteadyPass,
        source: SourceKeys | None,
        weights: JoinedWeights,
    ) -> Tensor:
        """The states of one more token behind each text, [B, 1, D], read into the buffers of
        `steady`. Whoever calls it minds the lengths.
        """
        forward, batch = Forward(cache=steady, weights=weights), Batch(tokens_B1, steady.queries)
        embedded = self.embed(batch)
        out = self.stack(embedded, batch.layout, self.stack.layers, source, forward)
        steady.advance()
        return out.states_BTD

    def read_source(self, source: Batch, weights: JoinedWeights) -> SourceKeys:
        """What the layers of a decoder attend to of a source."""
        growth = self._source_growth(source, None)
        return self._read_source(source, None, growth, Forward(weights=weights))

    @memoised_property
    def is_appendable(self) -> bool:
        """Do all keys of a text stay valid when tokens are appended to it?"""
        return appendable(self.spec.stack.masks)

    @memoised_property
    def _sees_documents_so_far(self) -> bool:
        """Does every layer see all of a source, or all of it up to the document of a token?"""
        seen: set[Rule] = set()
        for block in self.spec.stack.layers:
            seen |= leaves(block.cross) if block.cross is not None else set()
        return seen <= {Full(), DocumentsSoFar()}

    def _read_pass(
        self,
        tokens_BT: Tensor,
        places_BT: IntArray,
        stack_pass: StackPass,
        cache: Cache,
        forward: Forward,
    ) -> CachedStates:
        forward, batch = replace(forward, cache=stack_pass), Batch(tokens_BT, stack_pass.queries)
        source = cache.source
        if source is not None and self._sees_documents_so_far:
            source = source_seen_by(source, stack_pass.texts, places_BT)
        out = self.stack(self.embed(batch), batch.layout, self.stack.layers, source, forward)
        return CachedStates(out.states_BTD, places_BT, replace(cache, stack=stack_pass.finish()))

    def _source_growth(self, source: Batch, cached: CachedSource | None) -> SourceGrowth:
        assert self.spec.encoder is not None
        require_side_fits(source, self.architecture, self.spec)
        texts = texts_of(source)
        if cached is None:
            old = empty_cache(self.spec.encoder, texts.n_sequences).texts
        else:
            old = cached.texts
        return source_growth(self.spec.encoder.masks, old, texts)

    def _read_source(
        self, source: Batch, old: CachedSource | None, growth: SourceGrowth, forward: Forward
    ) -> CachedSource:
        """What each layer attends to of sources that grew; only what changed is encoded."""
        assert self.encoder is not None
        places_BS, texts, device = growth.places_BS, growth.texts, source.tokens_BT.device
        if old is not None and places_BS.shape[1] == 0:
            return old
        masks, tokens_BS = self.encoder.stack.masks, tokens_at(source, places_BS)
        kept = old.encoder if old else None
        kept = kept or empty_cache(self.encoder.stack, texts.n_sequences)
        if keeps_source(masks):
            encoder_pass = StackPass(kept, places_BS, texts, device)
            own, layout = replace(forward, cache=encoder_pass), encoder_pass.queries
            states_BSD = self._encode(self.encoder, Batch(tokens_BS, layout), own).states_BTD
            kept = encoder_pass.finish()
        else:
            if growth.is_whole and places_BS.shape[1] == source.layout.length:
                layout = source.layout
            else:
                layout = query_layout(places_BS, texts, device)
            states_BSD = self._encode(self.encoder, Batch(tokens_BS, layout), forward).states_BTD
            kept = replace(kept, texts=texts)
        new_keys = self.stack.source_keys(states_BSD, layout, forward)
        return grow_source(old, kept, places_BS, new_keys)

    def text_states(
        self,
        batch: Batch,
        dropout_key: DropoutKey | None = None,
        observer: Observer | None = None,
        left_out: Collection[Part] = (),
    ) -> HiddenStates:
        """The states of a text that is only read: those of the encoder where there is one, and
        then its decoder computes nothing.
        """
        if self.encoder is None:
            return self.hidden_states(batch, dropout_key, observer, left_out)
        require_side_fits(batch, self.architecture, self.spec)
        if dropout_key is not None and dropout_key.rows_B is None:
            dropout_key = replace(dropout_key, rows_B=batch.rows_B)
        forward = Forward(dropout_key=dropout_key, observer=observer, left_out=frozenset(left_out))
        return self._encode(self.encoder, batch, forward)

    def _encode(self, encoder: TransformerStack, batch: Batch, forward: Forward) -> HiddenStates:
        """The encoder's states of a text; it may have the blocks of the main stack."""
        if self.spec.shared:
            blocks = self.stack.layers
        else:
            blocks = encoder.layers
        return encoder(self.embed(batch), batch.layout, blocks, None, forward)

    @property
    def dropout_sites(self) -> tuple[str, ...]:
        """Where dropout is drawn: each embedding, and each branch of each layer."""
        stacks = {"stack": self.spec.stack, "encoder": self.spec.encoder}
        sites: list[str] = []
        for name, stack in stacks.items():
            layers = () if stack is None else stack.layers
            sites += [f"{name}.embedding"] if layers else []
            for number in range(len(layers)):
                sites += [
                    f"{name}.layers.{number}.{branch}"
                    for branch in ("attention", "cross", "feed_forward")
                ]
        return tuple(sites)

    def logits(self, states_BTD: Tensor, weights: JoinedWeights | None = None) -> Tensor:
        """The logits of every token. `weights` are those of a cache: with them a few states are
        faster, after the first time.
        """
        return self.head(states_BTD, self.embedding.weight, weights)

    def head_inputs(self, states_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the output head multiplies: transformed states, the table [V, D] and the bias; a
        loss may take them in chunks.
        """
        if self.head.weight is None:
            table = self.embedding.weight
        else:
            table = self.head.weight
        return self.head.transformed(states_BTD), table, self.head.bias

    def embed(self, batch: Batch) -> Tensor:
        scale = float(self.spec.embedding.scale)
        embedded = look_up(batch.tokens_BT, self.embedding.weight)
        embedded = embedded if scale == 1.0 else embedded * scale
        if self.segments is None:
            return embedded
        if batch.segments_BT is None:
            segments = torch.zeros_like(batch.tokens_BT)
        else:
            segments = batch.segments_BT
        return embedded + look_up(segments, self.segments.weight)


def _empty_embedding(n_rows: int, d_model: int) -> nn.Embedding:
    """A table that holds nothing yet: to draw numbers for it, which nobody uses, torch would load
    its compiler.
    """
    return nn.Embedding(n_rows, d_model, _weight=torch.empty(n_rows, d_model))
