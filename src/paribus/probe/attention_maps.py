"""Attention maps of a few heads: what each query takes of each key, as small pictures."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.generate import TextDecoder
from paribus.model.observed_places import places_of
from paribus.probe.subject import ProbedModel
from paribus.record.attention_maps import MAX_LEVEL, MAX_SIDE, AttentionMap

MAX_LAYERS = 3  # the first, the last, and one between


def attention_maps(
    subject: ProbedModel, tokens: Sequence[int], run: str, n_maps: int
) -> list[AttentionMap]:
    """Maps of at most `n_maps` heads of each attention while a text is read, one layer at a time:
    self-attention of each stack, and cross-attention.
    """
    if n_maps < 1:
        return []
    tokens_BT = torch.tensor([list(tokens)])
    observer = MapObserver(_chosen_layers(subject, n_maps), n_maps)
    subject.show(tokens_BT, observer)
    decoder = TextDecoder(subject.checkpoint.tokenizer, subject.checkpoint.vocabulary)
    batch = subject.batch(tokens_BT)
    maps = []
    for found in observer.heads:
        queries = _tokens_of(batch, found.stack)
        keys = _tokens_of(batch, "encoder" if found.branch == "cross" else found.stack)
        texts = [list(map(decoder.token_text, own)) for own in (queries, keys)]
        maps.append(_attention_map(found, run, texts))
    return maps


def _chosen_layers(subject: ProbedModel, n_maps: int) -> dict[str, list[int]]:
    """Some layers of each place that holds weights, from the first to the last."""
    chosen = {}
    for name, layers in places_of(subject.spec).items():
        if name.endswith("_weights"):
            numbers = spread_numbers(len(layers), min(MAX_LAYERS, n_maps))
            chosen[name.removesuffix("_weights")] = [layers[number] for number in numbers]
    return chosen


def spread_numbers(n_all: int, n_chosen: int) -> list[int]:
    """Some of the numbers from 0 on, spread evenly, the first and the last among them."""
    if n_chosen >= n_all:
        return list(range(n_all))
    if n_chosen == 1:
        return [0]
    return [round(place * (n_all - 1) / (n_chosen - 1)) for place in range(n_chosen)]


def _tokens_of(batch: Batch, stack: str) -> list[int]:
    own = batch.source if stack == "encoder" and batch.source is not None else batch
    return own.tokens_BT[0].tolist()


@dataclass(frozen=True, eq=False)
class HeadAttention:
    """The reduced weights of a head, and which blocks are visible."""

    stack: str
    branch: str
    layer: int
    head: int
    n_queries: int
    n_keys: int
    weights: Tensor
    visible: Tensor


@dataclass(eq=False)
class MapObserver:
    """Reduces the weights of some heads of some layers as they are seen, and keeps these alone."""

    layers: dict[str, list[int]]  # by place, such as stack.attention
    n_maps: int  # of each place, at most
    heads: list[HeadAttention] = field(default_factory=list)
    _mask: Tensor | None = None

    def wants(self, name: str, layer: int) -> bool:
        place, _, kind = name.rpartition("_")
        return kind in ("weights", "mask") and layer in self.layers.get(place, ())

    def see(self, name: str, layer: int, value: Tensor) -> None:
        place, _, kind = name.rpartition("_")
        if kind == "mask":
            self._mask = value
            return
        assert self._mask is not None
        mask_HTS, self._mask = self._mask.expand_as(value)[0], None
        n_heads = value.shape[1]
        for head in spread_numbers(n_heads, max(1, self.n_maps // len(self.layers[place]))):
            self._keep(place, layer, head, value[0, head], mask_HTS[head])

    def _keep(self, place: str, layer: int, head: int, weights: Tensor, mask: Tensor) -> None:
        stack, branch = place.split(".")
        n_queries, n_keys = weights.shape
        self.heads.append(
            HeadAttention(
                stack=stack,
                branch=branch,
                layer=layer,
                head=head,
                n_queries=n_queries,
                n_keys=n_keys,
                weights=block_means(weights).cpu(),
                visible=(block_means(mask) > 0).cpu(),
            )
        )


def block_means(values_TS: Tensor) -> Tensor:
    """A matrix of at most 48 × 48: the means over blocks of equal size, but for one row or
    column.
    """
    rows, columns = (_block_shares(size, values_TS.device) for size in values_TS.shape)
    return rows @ values_TS.double() @ columns.T


def _block_shares(size: int, device: torch.device) -> Tensor:
    """[blocks, size]: what each place counts for in the mean of its block."""
    n_blocks = min(size, MAX_SIDE)
    places = torch.arange(size, device=device)
    members = places * n_blocks // size == torch.arange(n_blocks, device=device)[:, None]
    return members.double() / members.sum(1, keepdim=True)


def _attention_map(found: HeadAttention, run: str, texts: Sequence[list[str]]) -> AttentionMap:
    largest = found.weights.max().item()
    levels = (found.weights / (largest or 1.0)).clamp(min=0).sqrt() * MAX_LEVEL
    n_rows, n_columns = found.weights.shape
    queries, keys = texts
    return AttentionMap(
        run=run,
        stack=found.stack,
        branch=found.branch,
        layer=found.layer,
        head=found.head,
        n_queries=found.n_queries,
        n_keys=found.n_keys,
        n_rows=n_rows,
        n_columns=n_columns,
        largest=largest,
        levels=_encode_bytes(levels.round()),
        visible=_encode_bytes(found.visible),
        query_tokens=tuple(queries) if len(queries) == n_rows else (),
        key_tokens=tuple(keys) if len(keys) == n_columns else (),
    )


def _encode_bytes(values: Tensor) -> str:
    return base64.b64encode(bytes(values.flatten().int().tolist())).decode()
