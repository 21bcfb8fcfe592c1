"""The attention branch: projections around a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from paribus.errors import UnsupportedError
from paribus.model.cache import Keys
from paribus.model.forward import Forward
from paribus.model.kernels import (
    AttentionMask,
    ScoreChange,
    attend,
    attention_scores,
    attention_weights,
    choose_kernel,
)
from paribus.model.linear import Linear
from paribus.model.norm import Norm
from paribus.model.positions import Rotation
from paribus.spec import Latent, LayerNorm, MultiHead, RMSNorm


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """What an attention branch needs beside its input: who sees whom, and how positions enter."""

    mask: AttentionMask
    rotation: Rotation | None
    bias: Tensor | None
    source_rotation: Rotation | None = None  # of the keys of another sequence
    groups: tuple[AttentionContext, ...] = ()  # of heads that have keys of their own in a cache


class MultiHeadAttention(nn.Module):
    """Queries from one sequence, keys and values from it or from another."""

    def __init__(self, d_model: int, spec: MultiHead, norm: LayerNorm | RMSNorm):
        super().__init__()
        assert spec.d_head
        assert spec.n_kv_heads
        assert spec.score_scale
        self.spec, self.d_head, self.scale = spec, spec.d_head, spec.score_scale
        d_query, d_key = spec.n_heads * spec.d_head, spec.n_kv_heads * spec.d_head
        self.query = Linear(d_model, d_query, spec.bias)
        self.key = Linear(d_model, d_key, spec.bias)
        self.value = Linear(d_model, d_key, spec.bias)
        self.output = Linear(d_query, d_model, spec.bias)
        has_gain = spec.qk_norm != "fixed"
        self.query_norm = Norm(spec.d_head, norm, has_gain) if spec.qk_norm else None
        self.key_norm = Norm(spec.d_head, norm, has_gain) if spec.qk_norm else None
        self.value_norm = Norm(spec.d_head, norm) if spec.value_norm else None
        self.output_norm = Norm(d_query, norm) if spec.output_norm else None

    def forward(
        self,
        hidden_BTD: Tensor,
        context: AttentionContext,
        forward: Forward,
        source: Tensor | Keys | None = None,
        is_merged: bool = False,
    ) -> Tensor:
        """`source` is another sequence [B, S, D], or its keys and values. Its keys are attended to
        alone or, if it is merged, before the own ones.
        """
        if isinstance(source, Tensor):
            source = self.source_keys(source, context.source_rotation, forward)
        if source is None or is_merged:
            layers = (self.query, self.key, self.value)
            query, key, value = self._project(hidden_BTD, layers, forward)
            key, value = self._normed_keys(key, value)
            keys = (key if context.rotation is None else context.rotation(key), value)
            keys = forward.join_keys(keys)
            if source is not None:
                keys = _keys_after_source(source, keys)
        else:
            (query,) = self._project(hidden_BTD, (self.query,), forward)
            keys = source
        if self.query_norm is not None:
            query = self.query_norm(query)
        if context.rotation is not None:
            query = context.rotation(query)
        if context.groups or is_merged:
            _require_square_attention(forward)
        if context.groups:
            out_BHTE = self._attend_by_group(query, keys, context, forward)
        else:
            branch = "attention" if source is None else "cross"
            if not is_merged:
                _observe(forward, branch, query, keys[0], context, self.scale)
            out_BHTE = self._attend(query, keys, context, forward)
        found_BTO = out_BHTE.transpose(1, 2).flatten(2)
        if self.output_norm is not None:
            found_BTO = self.output_norm(found_BTO)
        return forward.linear(found_BTO, (self.output,))

    def _attend(
        self, query: Tensor, keys: Keys, context: AttentionContext, forward: Forward
    ) -> Tensor:
        key, value = keys
        scores = ScoreChange(self.scale, context.bias)
        return attend(query, key, value, context.mask, scores, forward.kernel)

    def _attend_by_group(
        self, query: Tensor, keys: Keys, context: AttentionContext, forward: Forward
    ) -> Tensor:
        """Each group of heads over keys of its own: `keys` has two tensors for each."""
        queries, parts = query.chunk(len(context.groups), 1), []
        for number, group in enumerate(context.groups):
            own = keys[2 * number : 2 * number + 2]
            parts.append(self._attend(queries[number], own, group, forward))
        return torch.cat(parts, 1)

    def source_keys(self, source_BSD: Tensor, rotation: Rotation | None, forward: Forward) -> Keys:
        """The keys and values of another sequence."""
        key, value = self._project(source_BSD, (self.key, self.value), forward)
        key, value = self._normed_keys(key, value)
        return (key if rotation is None else rotation(key)), value

    def _normed_keys(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        key = key if self.key_norm is None else self.key_norm(key)
        return key, (value if self.value_norm is None else self.value_norm(value))

    def _project(
        self, inputs: Tensor, layers: tuple[Linear, ...], forward: Forward
    ) -> tuple[Tensor, ...]:
        """Heads of all layers from one product."""
        widths = [layer.out_features // self.d_head for layer in layers]
        heads = forward.linear(inputs, layers).unflatten(-1, (-1, self.d_head))
        return tuple(part.transpose(1, 2) for part in heads.split(widths, -2))


class LatentAttention(nn.Module):
    """DeepSeek-V3's attention: keys and values unfold from a normalised latent; rotary channels
    stand apart.

    The latent and the turned rotary key are all that a cache holds.
    """

    def __init__(self, d_model: int, spec: Latent, norm: LayerNorm | RMSNorm):
        super().__init__()
        self.spec = spec
        self.d_query = spec.d_content + spec.d_rotary
        d_from = spec.d_query_latent or d_model
        if spec.d_query_latent:
            self.query_down = Linear(d_model, d_from, bias=False)
        else:
            self.query_down = None
        self.query_norm = Norm(d_from, norm) if spec.d_query_latent else None
        self.query = Linear(d_from, spec.n_heads * self.d_query, bias=False)
        self.latent = Linear(d_model, spec.d_latent + spec.d_rotary, bias=False)
        self.latent_norm = Norm(spec.d_latent, norm)
        self.key_value = Linear(
            spec.d_latent, spec.n_heads * (spec.d_content + spec.d_value), bias=False
        )
        self.output = Linear(spec.n_heads * spec.d_value, d_model, bias=False)

    def forward(self, hidden_BTD: Tensor, context: AttentionContext, forward: Forward) -> Tensor:
        spec = self.spec
        query = hidden_BTD
        if self.query_down is not None and self.query_norm is not None:
            query = self.query_norm(forward.linear(hidden_BTD, (self.query_down,)))
        query = (
            forward.linear(query, (self.query,)).unflatten(-1, (spec.n_heads, -1)).transpose(1, 2)
        )
        latent, rotary = forward.linear(hidden_BTD, (self.latent,)).split(
            [spec.d_latent, spec.d_rotary], -1
        )
        latent, rotary = self.latent_norm(latent)[:, None], rotary[:, None]
        if context.rotation is not None:
            rotary = context.rotation(rotary)
        latent, rotary = forward.join_keys((latent, rotary))
        if forward.cache is not None and self._is_absorbed(query.shape[2], latent.shape[2]):
            out_BHTE = self._attend_to_latents(query, (latent, rotary), context, forward)
        else:
            out_BHTE = self._attend_to_heads(query, (latent, rotary), context, forward)
        return forward.linear(out_BHTE.transpose(1, 2).flatten(2), (self.output,))

    def _attend_to_heads(
        self, query: Tensor, keys: Keys, context: AttentionContext, forward: Forward
    ) -> Tensor:
        """Latents unfold to the keys and values of every head."""
        spec, (latent, rotary) = self.spec, keys
        key_value = forward.linear(latent[:, 0], (self.key_value,))
        key_value = key_value.unflatten(-1, (spec.n_heads, -1)).transpose(1, 2)
        key, value = key_value.split([spec.d_content, spec.d_value], -1)
        if context.rotation is not None:
            content, rotary_query = query.split([spec.d_content, spec.d_rotary], -1)
            query = torch.cat([content, context.rotation(rotary_query)], -1)
            key = torch.cat([key, rotary.expand(-1, spec.n_heads, -1, -1)], -1)
        scores = ScoreChange(self.d_query**-0.5, context.bias)
        _observe(forward, "attention", query, key, context, scores.scale)
        return attend(query, key, value, context.mask, scores, forward.kernel)

    def _attend_to_latents(
        self, query: Tensor, keys: Keys, context: AttentionContext, forward: Forward
    ) -> Tensor:
        """Latents are the keys and values of all heads: queries move into their space, and what is
        read of them moves out of it. The same as `_attend_to_heads` up to rounding.
        """
        spec, (latent, rotary) = self.spec, keys
        unfold_HOL = self.key_value.weight.unflatten(0, (spec.n_heads, -1))
        to_key_HEL, to_value_HEL = unfold_HOL.split([spec.d_content, spec.d_value], 1)
        content, rotary_query = query.split([spec.d_content, spec.d_rotary], -1)
        query, key = content @ to_key_HEL, latent
        if context.rotation is not None:
            query = torch.cat([query, context.rotation(rotary_query)], -1)
            key = torch.cat([latent, rotary], -1)
        scores = ScoreChange(self.d_query**-0.5, context.bias)
        _observe(forward, "attention", query, key, context, scores.scale)
        kernel = choose_kernel(context.mask, query.dtype, spec.d_latent, False, forward.kernel)
        # Heads of a single token that see the same are queries of one head: its keys are read once.
        is_folded = query.shape[2] == len(context.mask.head_rules) == 1 and kernel != "flex"
        if is_folded:
            query = query.transpose(1, 2)
        out_BHTL = attend(query, key, latent, context.mask, scores, kernel)
        if is_folded:
            out_BHTL = out_BHTL.transpose(1, 2)
        return out_BHTL @ to_value_HEL.transpose(-1, -2)

    def _is_absorbed(self, n_queries: int, n_keys: int) -> bool:
        """Are fewer products needed if latents do not unfold? So it is for a few new tokens."""
        spec = self.spec
        unfold = spec.d_latent * (spec.d_content + spec.d_value)
        to_heads = n_keys * unfold + n_queries * n_keys * (self.d_query + spec.d_value)
        to_latents = n_queries * unfold + n_queries * n_keys * (2 * spec.d_latent + spec.d_rotary)
        return to_latents < to_heads


def _observe(
    forward: Forward,
    branch: str,
    query_BHTE: Tensor,
    key_BGSE: Tensor,
    context: AttentionContext,
    scale: float,
) -> None:
    """Let an observer see the scores and weights of a branch. They are computed beside its kernel,
    which goes on as without.
    """

    def scores() -> Tensor:
        return attention_scores(query_BHTE, key_BGSE, ScoreChange(scale, context.bias))

    forward.observe(f"{branch}_scores", scores)
    forward.observe(f"{branch}_mask", lambda: context.mask.dense_mask)
    forward.observe(f"{branch}_weights", lambda: attention_weights(scores(), context.mask))


def _keys_after_source(source: Keys, own: Keys) -> Keys:
    """Keys and values of each group of heads, behind those of a source."""
    sides = [tensor.chunk(len(own) // 2, 1) for tensor in source]
    joined = []
    for number, tensor in enumerate(own):
        joined.append(torch.cat([sides[number % 2][number // 2], tensor], 2))
    return tuple(joined)


def _require_square_attention(forward: Forward) -> None:
    """UnsupportedError where an observer wants weights of heads that keep keys of their own, or
    that see a source and a text at once.
    """
    if forward.observer is None:
        return
    for place in ("attention_scores", "attention_mask", "attention_weights"):
        if forward.observer.wants(f"{forward.stack}.{place}", forward.layer):
            if forward.cache is None:
                raise UnsupportedError(
                    f"{forward.stack}.{place} cannot be seen where cross_form is 'merged', and one"
                    " softmax is over a source and a text; look at the encoder, or use 'separate'"
                )
            raise UnsupportedError(
                f"{forward.stack}.{place} cannot be seen over a cache in which heads keep keys of"
                " their own; read the text in one pass"
            )
