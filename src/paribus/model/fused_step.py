"""A step of one token a text in few kernels: what `Transformer.step` and its logits are, up to
rounding, about five kernels a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, assert_never

from torch import Tensor

from paribus.batch import Batch
from paribus.masks import Causal, Full, Prefix
from paribus.model.attention import AttentionContext, MultiHeadAttention
from paribus.model.block import TransformerBlock
from paribus.model.cache import Keys
from paribus.model.feed_forward import FeedForward
from paribus.model.forward import Forward
from paribus.model.kernels.step import (
    MAX_NORM_WIDTH,
    MAX_ROWS,
    STEP_ACTIVATIONS,
    QueryView,
    attend_once,
    has_step_kernels,
    product,
)
from paribus.model.linear import JoinedWeights
from paribus.model.norm import Norm
from paribus.model.source_keys import SourceKeys
from paribus.model.steady_pass import SteadyPass
from paribus.model.transformer import Transformer


def can_fuse_step(model: Transformer, n_texts: int) -> bool:
    """Are there kernels for all that a step of so many texts does?"""
    if n_texts > MAX_ROWS or model.spec.d_model > MAX_NORM_WIDTH:
        return False
    if not has_step_kernels(model.embedding.weight.device):
        return False
    return all(_is_fusible(block) for block in model.stack.layers)


def _is_fusible(block: object) -> bool:
    assert isinstance(block, TransformerBlock)
    attention = block.attention
    if not isinstance(attention, MultiHeadAttention) or block.is_merged:
        return False
    if attention.spec.qk_norm or attention.spec.value_norm or attention.spec.output_norm:
        return False
    d_head = attention.d_head
    is_power_of_two = d_head >= 16 and d_head & (d_head - 1) == 0
    layer = block.feed_forward
    has_activation = isinstance(layer, FeedForward) and layer.activation in STEP_ACTIVATIONS
    return is_power_of_two and has_activation


def fused_logits(
    model: Transformer,
    token_B1: Tensor,
    steady: SteadyPass,
    source: SourceKeys | None,
    weights: JoinedWeights,
) -> Tensor:
    """The logits after one more token behind each text, [B, V]; see `Transformer.step`."""
    batch, stack = Batch(token_B1, steady.queries), model.stack
    forward = Forward(cache=steady, weights=weights)
    embedded_B1D = stack.embed_positions(model.embed(batch), batch.layout, forward)
    contexts = stack.contexts(batch.layout, embedded_B1D, forward)
    cross_contexts = stack.cross_contexts(batch.layout, source, embedded_B1D, forward)
    views = {rule: _query_view(context) for rule, context in contexts.items()}
    cross_views = {rule: _query_view(context) for rule, context in cross_contexts.items()}
    hidden_BD = embedded_B1D[:, 0]
    for number, (spec, block) in enumerate(zip(stack.stack.layers, stack.layers, strict=True)):
        assert isinstance(block, TransformerBlock)
        own = _SeenKeys(steady.layers[number], views[spec.mask], steady.place_B1)
        cross = None
        if source is not None and spec.cross is not None:
            cross = _SeenKeys(source.layers[number], cross_views[spec.cross], None)
        hidden_BD = _BlockStep(block, weights, own, cross).run(hidden_BD)
    steady.advance()
    return _logits(model, hidden_BD, weights)


def _query_view(context: AttentionContext) -> QueryView:
    visible, bias, rotation = None, context.bias, context.rotation
    # A new token stands behind every prefix, and slots after its own are passed over anyway.
    if context.mask.rule not in (Causal(), Prefix(), Full()):
        visible = context.mask.dense_mask.contiguous()
    return QueryView(
        visible=visible,
        bias=None if bias is None else bias.contiguous(),
        cosine=None if rotation is None else rotation.cosine,
        sine=None if rotation is None else rotation.sine,
    )


_Branch = Callable[[Tensor, Norm | None, Tensor], Tensor]


class _SeenKeys(NamedTuple):
    """Keys and values, and how they are seen; with `place_B1`, where new ones go."""

    keys: Keys
    view: QueryView
    place_B1: Tensor | None


class _BlockStep(NamedTuple):
    """One block for one token a text."""

    block: TransformerBlock
    weights: JoinedWeights
    own: _SeenKeys
    cross: _SeenKeys | None

    def run(self, hidden_BD: Tensor) -> Tensor:
        """The residual after every branch; see `TransformerBlock`."""
        block, inputs_BD = self.block, hidden_BD
        branches: list[tuple[Norm | None, _Branch]] = [(block.attention_norm, self._attention)]
        if self.cross is not None:
            branches.append((block.cross_norm, self._cross))
        branches.append((block.feed_forward_norm, self._feed_forward))
        for norm, branch in branches:
            match block.placement:
                case "parallel":
                    hidden_BD = branch(inputs_BD, block.attention_norm, hidden_BD)
                case "pre":
                    hidden_BD = branch(hidden_BD, norm, hidden_BD)
                case "post":
                    assert norm is not None
                    hidden_BD = norm(branch(hidden_BD, None, hidden_BD))
                case other:
                    assert_never(other)
        return hidden_BD

    def _attention(self, rows_BD: Tensor, norm: Norm | None, residual_BD: Tensor) -> Tensor:
        attention = self.block.attention
        assert isinstance(attention, MultiHeadAttention)
        layers = (attention.query, attention.key, attention.value)
        heads_BO = product(rows_BD, *self.weights.joined(layers), norm)
        return self._attend(attention, heads_BO, self.own, residual_BD)

    def _cross(self, rows_BD: Tensor, norm: Norm | None, residual_BD: Tensor) -> Tensor:
        assert self.cross is not None
        assert self.block.cross is not None
        heads_BO = product(rows_BD, *self.weights.joined((self.block.cross.query,)), norm)
        return self._attend(self.block.cross, heads_BO, self.cross, residual_BD)

    def _attend(
        self, attention: MultiHeadAttention, heads_BO: Tensor, seen: _SeenKeys, residual_BD: Tensor
    ) -> Tensor:
        key, value = seen.keys
        n_heads, scale = attention.spec.n_heads, float(attention.scale)
        found_BO = attend_once(heads_BO, key, value, seen.view, n_heads, scale, seen.place_B1)
        return product(found_BO, *self.weights.joined((attention.output,)), residual_MO=residual_BD)

    def _feed_forward(self, rows_BD: Tensor, norm: Norm | None, residual_BD: Tensor) -> Tensor:
        layer = self.block.feed_forward
        assert isinstance(layer, FeedForward)
        layers = (layer.up,) if layer.gate is None else (layer.gate, layer.up)
        is_gated = layer.gate is not None
        inner_BF = product(rows_BD, *self.weights.joined(layers), norm, layer.activation, is_gated)
        return product(inner_BF, *self.weights.joined((layer.down,)), residual_MO=residual_BD)


def _logits(model: Transformer, hidden_BD: Tensor, weights: JoinedWeights) -> Tensor:
    """The norm after the last block is a part of the product with the table, where nothing stands
    between them.
    """
    norm, head = model.stack.final_norm, model.head
    if head.transform is not None or head.scale != 1.0:
        return model.logits(hidden_BD if norm is None else norm(hidden_BD), weights)
    table_VD = model.embedding.weight if head.weight is None else head.weight
    return product(hidden_BD, table_VD, head.bias, norm)
