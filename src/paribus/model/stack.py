"""A stack of blocks: the main one, or an encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from paribus.batch import BatchLayout
from paribus.masks import Rule
from paribus.model.attention import AttentionContext
from paribus.model.block import CrossSource, TransformerBlock
from paribus.model.cache import Keys
from paribus.model.dropout import dropout
from paribus.model.experts import ExpertLoad
from paribus.model.forward import ExpertCompute, Forward
from paribus.model.kernels import AttentionMask, KernelChoice
from paribus.model.norm import Norm
from paribus.model.positions import (
    Positions,
    Rotation,
    positions_after_source,
    source_positions,
)
from paribus.model.source_keys import SourceKeys
from paribus.spec import Latent, ResolvedArchitecture, Stack


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
        main: TransformerStack | None = None,
    ):
        """`main` is the stack whose parts an encoder has that is the same stack."""
        super().__init__()
        self.spec, self.stack, self.name = spec, stack, name
        self.kernel: KernelChoice = kernel
        self.compute: ExpertCompute = compute
        self.positions: Positions
        self.embedding_norm: Norm | None
        self.final_norm: Norm | None
        if main is not None:
            # as attributes alone: parameters have one name, that of the main stack
            for part in ("positions", "embedding_norm", "final_norm"):
                self.__dict__[part] = getattr(main, part)
            self.layers = nn.ModuleList()
            return
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
        source: tuple[Tensor, BatchLayout] | SourceKeys | None,
        forward: Forward,
    ) -> HiddenStates:
        forward = replace(forward, stack=self.name, kernel=self.kernel, compute=self.compute)
        hidden = self.embed_positions(embedded_BTD, layout, forward)
        contexts, cross_contexts = (
            self.contexts(layout, hidden, forward),
            self.cross_contexts(layout, source, hidden, forward),
        )
        merged_contexts: dict[tuple[Rule, Rule], AttentionContext] = {}
        loads: dict[str, ExpertLoad] = {}
        for number, (spec, block) in enumerate(zip(self.stack.layers, blocks, strict=True)):
            cross_source = None
            if source is not None and spec.cross is not None:
                own = source[0] if isinstance(source, tuple) else source.layers[number]
                context = cross_contexts[spec.cross]
                if spec.cross_form == "merged":
                    pair = (spec.mask, spec.cross)
                    if pair not in merged_contexts:
                        merged_contexts[pair] = _merged_context(contexts[spec.mask], context)
                    context = merged_contexts[pair]
                cross_source = CrossSource(context, own)
            here = forward.in_layer(number)
            hidden, load = block(hidden, contexts[spec.mask], cross_source, here)
            if load is not None:
                loads[here.path] = load
        states_BTD = hidden if self.final_norm is None else self.final_norm(hidden)
        forward.in_layer(len(blocks) - 1).observe("output", states_BTD)
        return HiddenStates(states_BTD, loads)

    def embed_positions(
        self, embedded_BTD: Tensor, layout: BatchLayout, forward: Forward
    ) -> Tensor:
        """What the first block reads."""
        position_embeddings = self.positions.position_embeddings(
            layout, self.spec.d_model, embedded_BTD
        )
        hidden = embedded_BTD if position_embeddings is None else embedded_BTD + position_embeddings
        if self.embedding_norm is not None:
            hidden = self.embedding_norm(hidden)
        hidden = _to_autocast_dtype(hidden)
        forward.observe("embedding", hidden)
        return dropout(hidden, self.spec.dropout, forward.dropout_key, f"{self.name}.embedding")

    def contexts(
        self, layout: BatchLayout, like: Tensor, forward: Forward
    ) -> dict[Rule, AttentionContext]:
        """One for each rule of the stack, shared by the layers that have it."""
        attention = self.stack.layers[0].attention
        rotation = self.positions.rotation(layout, self._rotary_width, like.device)
        rules = dict.fromkeys(block.mask for block in self.stack.layers)
        own_bias: Tensor | None = None
        if forward.cache is None:
            own_bias = self.positions.score_bias(layout, layout, like.device)
        biases: dict[BatchLayout, Tensor | None] = {}  # over what a cache holds
        contexts: dict[Rule, AttentionContext] = {}
        for rule in rules:
            parts = (rule,) if forward.cache is None else forward.cache.head_groups(rule)
            has_own_keys = forward.cache is not None and forward.cache.has_own_keys
            groups = []
            for number, part in enumerate(parts):
                if forward.cache is None:
                    # looked up in a dictionary, a layout would fix the split of compiled code
                    keys, bias = layout, own_bias
                else:
                    keys = forward.cache.key_layout(part)
                    if keys not in biases:
                        biases[keys] = self.positions.score_bias(layout, keys, like.device)
                    bias = biases[keys]
                n_heads = attention.n_heads // len(parts)
                if bias is not None and len(parts) > 1:
                    bias = bias[:, number * n_heads : (number + 1) * n_heads]
                mask = AttentionMask.of(
                    part, layout, keys, n_heads, like.device, has_own_keys, forward.is_reading
                )
                groups.append(AttentionContext(mask, rotation, bias))
            contexts[rule] = groups[0]
            if len(groups) > 1:
                contexts[rule] = replace(groups[0], groups=tuple(groups))
        return contexts

    def cross_contexts(
        self,
        layout: BatchLayout,
        source: tuple[Tensor, BatchLayout] | SourceKeys | None,
        like: Tensor,
        forward: Forward,
    ) -> dict[Rule, AttentionContext]:
        """One for each rule by which layers see a source."""
        if source is None:
            return {}
        keys = source[1] if isinstance(source, tuple) else source.layout
        n_heads = self.stack.layers[0].attention.n_heads
        contexts: dict[Rule, AttentionContext] = {}
        for block in self.stack.layers:
            if block.cross is None or block.cross in contexts:
                continue
            mask = AttentionMask.of(
                block.cross, layout, keys, n_heads, like.device, is_passing=forward.is_reading
            )
            context = AttentionContext(mask, None, None)
            if self.stack.cross_positions == "rotary":
                places, width = source_positions(block.cross, keys, like.device), self._rotary_width
                after = positions_after_source(mask, places)
                context = replace(
                    context,
                    rotation=self.positions.rotation_by(after, width),
                    source_rotation=self.positions.rotation_by(places, width),
                )
            contexts[block.cross] = context
        return contexts

    def source_keys(
        self, states_BSD: Tensor, layout: BatchLayout, forward: Forward
    ) -> dict[int, Keys]:
        """What each layer attends to of a source, from the encoder's states of it."""
        rotations: dict[Rule, Rotation | None] = {}
        layers: dict[int, Keys] = {}
        for number, (spec, block) in enumerate(zip(self.stack.layers, self.layers, strict=True)):
            assert isinstance(block, TransformerBlock)
            attention = block.source_attention
            if attention is None or spec.cross is None:
                continue
            if spec.cross not in rotations:
                rotations[spec.cross] = self._source_rotation(spec.cross, layout, states_BSD.device)
            rotation = rotations[spec.cross]
            layers[number] = attention.source_keys(states_BSD, rotation, forward)
        return layers

    def _source_rotation(
        self, rule: Rule, layout: BatchLayout, device: torch.device
    ) -> Rotation | None:
        """How the keys of a source are turned."""
        if self.stack.cross_positions == "none":
            return None
        places = source_positions(rule, layout, device)
        return self.positions.rotation_by(places, self._rotary_width)

    @property
    def _rotary_width(self) -> int:
        """Channels of a query that are turned, where positions are rotary."""
        attention = self.stack.layers[0].attention
        width = attention.d_rotary if isinstance(attention, Latent) else attention.d_head
        assert width is not None
        return width


def _merged_context(own: AttentionContext, source: AttentionContext) -> AttentionContext:
    """Of one softmax over a source and the text so far. Where positions go on after the source,
    queries and keys of the text are turned by those.
    """
    return AttentionContext(
        mask=own.mask.behind(source.mask),
        rotation=own.rotation if source.rotation is None else source.rotation,
        bias=None,
        source_rotation=source.source_rotation,
        groups=tuple(_merged_context(group, source) for group in own.groups),
    )


def _to_autocast_dtype(hidden: Tensor) -> Tensor:
    """In autocast's precision where it is on: the stream between blocks is the most there is to
    read and write.
    """
    kind = hidden.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return hidden
    return hidden.to(torch.get_autocast_dtype(kind))
