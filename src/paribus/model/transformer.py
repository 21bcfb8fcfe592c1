"""The one transformer."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.batch import Batch, BatchLayout
from paribus.errors import SpecError, UnsupportedError
from paribus.masks import Rule, SameDocument, leaves
from paribus.model.attention import AttentionContext
from paribus.model.block import CrossSource, TransformerBlock
from paribus.model.dropout import DropoutKey, dropout
from paribus.model.experts import ExpertLoad
from paribus.model.feed_forward import apply_activation
from paribus.model.forward import ExpertCompute, Forward, Observer
from paribus.model.kernels import AttentionMask, KernelChoice
from paribus.model.lookup import look_up
from paribus.model.norm import Norm
from paribus.model.positions import Positions
from paribus.spec import Architecture, Latent, ResolvedArchitecture, Stack, resolve


class ModelOutput(NamedTuple):
    """Logits of every token at every position, and what each expert layer's router did."""

    logits_BTV: Tensor
    loads: dict[str, ExpertLoad]


class HiddenStates(NamedTuple):
    """The last layer's output, not yet logits."""

    states_BTD: Tensor
    loads: dict[str, ExpertLoad]


class TransformerStack(nn.Module):
    """Blocks from the bottom up, with the positions and norms around them."""

    def __init__(
        self,
        spec: ResolvedArchitecture,
        stack: Stack,
        name: str,
        kernel: KernelChoice,
        compute: ExpertCompute,
    ):
        super().__init__()
        self.spec, self.stack, self.name = spec, stack, name
        self.kernel: KernelChoice = kernel
        self.compute: ExpertCompute = compute
        self.positions = Positions(stack, spec.max_length, spec.d_model)
        if spec.embedding.norm:
            self.embedding_norm = Norm(spec.d_model, spec.norm)
        else:
            self.embedding_norm = None
        own_blocks = name == "stack" or not spec.shared
        self.layers = nn.ModuleList(
            TransformerBlock(spec, block) for block in stack.layers if own_blocks
        )
        if spec.placement != "post":
            self.final_norm = Norm(spec.d_model, spec.norm)
        else:
            self.final_norm = None

    def forward(
        self,
        embedded_BTD: Tensor,
        layout: BatchLayout,
        blocks: nn.ModuleList,
        source: tuple[Tensor, BatchLayout] | None,
        forward: Forward,
    ) -> HiddenStates:
        forward = replace(forward, stack=self.name, kernel=self.kernel, compute=self.compute)
        hidden = self._embed_positions(embedded_BTD, layout, forward.dropout_key)
        contexts, cross_contexts = (
            self._contexts(layout, hidden),
            self._cross_contexts(layout, source, hidden),
        )
        loads: dict[str, ExpertLoad] = {}
        for number, (spec, block) in enumerate(zip(self.stack.layers, blocks, strict=True)):
            cross_source = None
            if source is not None and spec.cross is not None:
                cross_source = CrossSource(cross_contexts[spec.cross], source[0])
            here = forward.in_layer(number)
            hidden, load = block(hidden, contexts[spec.mask], cross_source, here)
            if load is not None:
                loads[here.path] = load
        return HiddenStates(hidden if self.final_norm is None else self.final_norm(hidden), loads)

    def _embed_positions(
        self, embedded_BTD: Tensor, layout: BatchLayout, dropout_key: DropoutKey | None
    ) -> Tensor:
        position_embeddings = self.positions.position_embeddings(
            layout, self.spec.d_model, embedded_BTD
        )
        hidden = embedded_BTD if position_embeddings is None else embedded_BTD + position_embeddings
        if self.embedding_norm is not None:
            hidden = self.embedding_norm(hidden)
        return dropout(
            _to_autocast_dtype(hidden), self.spec.dropout, dropout_key, f"{self.name}.embedding"
        )

    def _contexts(self, layout: BatchLayout, like: Tensor) -> dict[Rule, AttentionContext]:
        """One for each rule of the stack, shared by the layers that have it."""
        attention = self.stack.layers[0].attention
        if isinstance(attention, Latent):
            width = attention.d_rotary
        else:
            width = attention.d_head
        assert width is not None
        rotation = self.positions.rotation(layout, width, like.device)
        bias = self.positions.score_bias(layout, layout, like.device)
        rules = dict.fromkeys(block.mask for block in self.stack.layers)
        contexts: dict[Rule, AttentionContext] = {}
        for rule in rules:
            mask = AttentionMask.of(rule, layout, layout, attention.n_heads, like.device)
            contexts[rule] = AttentionContext(mask, rotation, bias)
        return contexts

    def _cross_contexts(
        self, layout: BatchLayout, source: tuple[Tensor, BatchLayout] | None, like: Tensor
    ) -> dict[Rule, AttentionContext]:
        if source is None:
            return {}
        n_heads = self.stack.layers[0].attention.n_heads
        contexts: dict[Rule, AttentionContext] = {}
        for block in self.stack.layers:
            if block.cross is None or block.cross in contexts:
                continue
            mask = AttentionMask.of(block.cross, layout, source[1], n_heads, like.device)
            contexts[block.cross] = AttentionContext(mask, None, None)
        return contexts


def _to_autocast_dtype(hidden: Tensor) -> Tensor:
    """In autocast's precision where it is on: the stream between blocks is the most there is to
    read and write.
    """
    kind = hidden.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return hidden
    return hidden.to(torch.get_autocast_dtype(kind))


class OutputHead(nn.Module):
    """From states to logits; a tied head borrows the embedding's table."""

    def __init__(self, spec: ResolvedArchitecture):
        super().__init__()
        self.spec = spec.head
        self.scale = float(spec.head.scale)
        has_transform = spec.head.transform is not None
        if has_transform:
            self.transform = nn.Linear(spec.d_model, spec.d_model)
        else:
            self.transform = None
        self.norm = Norm(spec.d_model, spec.norm) if has_transform else None
        self.weight: nn.Parameter | None
        self.bias: nn.Parameter | None
        if spec.head.tied:
            table = None
        else:
            table = nn.Parameter(torch.empty(spec.n_vocab, spec.d_model))
        self.register_parameter("weight", table)
        self.register_parameter(
            "bias", nn.Parameter(torch.empty(spec.n_vocab)) if spec.head.bias else None
        )

    def forward(self, states_BTD: Tensor, embedding_VD: Tensor) -> Tensor:
        return F.linear(
            self.transformed(states_BTD),
            embedding_VD if self.weight is None else self.weight,
            self.bias,
        )

    def transformed(self, states_BTD: Tensor) -> Tensor:
        """The states as they are multiplied with the output table."""
        if self.transform is not None and self.norm is not None and self.spec.transform is not None:
            states_BTD = self.norm(
                apply_activation(self.transform(states_BTD), self.spec.transform)
            )
        if self.scale == 1.0:
            return states_BTD
        return states_BTD * self.scale


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
        masks = [rule for stack in spec.stacks for rule in stack.masks]
        self.separates_documents = any(SameDocument() in leaves(rule) for rule in masks)
        self.embedding = nn.Embedding(spec.n_vocab, spec.d_model)
        n_segments = spec.embedding.n_segments
        if n_segments:
            self.segments = nn.Embedding(n_segments, spec.d_model)
        else:
            self.segments = None
        self.stack = TransformerStack(spec, spec.stack, "stack", kernel, compute)
        if spec.encoder is None:
            encoder = None
        else:
            encoder = TransformerStack(spec, spec.encoder, "encoder", kernel, compute)
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
    ) -> HiddenStates:
        """The output of the last layer, below the output head."""
        batch = Batch.of(batch) if isinstance(batch, Tensor) else batch
        self._require_valid_batch(batch)
        if dropout_key is not None and dropout_key.rows_B is None:
            dropout_key = replace(dropout_key, rows_B=batch.rows_B)
        forward = Forward(dropout_key=dropout_key, observer=observer)
        source, loads = None, {}
        if self.encoder is not None and batch.source is not None:
            if self.spec.shared:
                blocks = self.stack.layers
            else:
                blocks = self.encoder.layers
            encoder_out = self.encoder(
                self._embed(batch.source), batch.source.layout, blocks, None, forward
            )
            source, loads = (encoder_out.states_BTD, batch.source.layout), encoder_out.loads
        out = self.stack(self._embed(batch), batch.layout, self.stack.layers, source, forward)
        return HiddenStates(out.states_BTD, {**loads, **out.loads})

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

    def logits(self, states_BTD: Tensor) -> Tensor:
        """The logits of every token."""
        return self.head(states_BTD, self.embedding.weight)

    def head_inputs(self, states_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the output head multiplies: transformed states, the table [V, D] and the bias; a
        loss may take them in chunks.
        """
        if self.head.weight is None:
            table = self.embedding.weight
        else:
            table = self.head.weight
        return self.head.transformed(states_BTD), table, self.head.bias

    def _embed(self, batch: Batch) -> Tensor:
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

    def _require_valid_batch(self, batch: Batch) -> None:
        if (batch.source is None) != (self.encoder is None):
            raise SpecError(
                "batch.source is missing, but the model has an encoder; give Batch.of(tokens,"
                " source=…)"
                if batch.source is None
                else "batch.source is given, but the model has no encoder; leave it out"
            )
        with_documents = [
            side
            for side in (batch, batch.source)
            if side is not None and side.layout.documents_BT is not None
        ]
        if with_documents and not self.separates_documents:
            raise SpecError(
                f"batch has documents_BT, but the mask {self.architecture.mask} does not keep"
                " documents apart; add '& same_document' to it, or leave them out"
            )
        if batch.source is not None and (batch.layout.documents_BT is None) != (
            batch.source.layout.documents_BT is None
        ):
            raise SpecError(
                "batch and batch.source must both have documents_BT, or neither; one of them has"
                " none"
            )
        for side in (batch, batch.source):
            if side is None:
                continue
            end = side.layout.start + side.layout.length
            if end > self.spec.max_length:
                raise UnsupportedError(
                    f"the batch reaches position {end}, past max_length {self.spec.max_length}; cut"
                    " it there"
                )
            if side.segments_BT is not None and self.segments is None:
                raise SpecError(
                    "batch.segments_BT is given, but embedding.n_segments is 0; leave it out"
                )
