"""Flow of information: where attention lies, what masks let through, and which tokens move a
state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from paribus.masks import SequenceLayout
from paribus.probe.attention_flow import (
    attention_distance,
    attention_entropy,
    first_token_share,
    reached_shares,
    self_share,
    sink,
    uniform_attention,
)
from paribus.probe.mean_values import MeanValues, Place
from paribus.probe.position_gradients import GradientPath, gradient_path, position_gradients
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probe_variants import GRADIENT_DISTANCE, REACHED_PAIRS, UNIFORM_ATTENTION
from paribus.spec.probes import FlowProbe
from paribus.watcher import Watcher

AT_ONCE = 4  # texts
N_CURVE_POINTS = 32  # of gradient norms


def probe_flow(
    subject: ProbedModel, texts: ProbeTexts, spec: FlowProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """Attention of each head and gradients between positions, means over texts, and reached
    pairs by depth.
    """
    means, path = MeanValues("flow"), gradient_path(subject)
    for chunk in texts.chunks(AT_ONCE):
        tokens_BT = chunk.tokens_BT
        subject.show(tokens_BT, AttentionObserver(means))
        watcher.advance(len(chunk.texts))
        norms_BT = position_gradients(subject, tokens_BT, path, spec.n_directions, spec.seed)
        _add_gradients(means, norms_BT, path)
        watcher.advance(len(chunk.texts))
    yield from means.rows()
    yield from _reached_rows(subject, texts)


def n_readings(texts: ProbeTexts) -> int:
    """How many texts are read or differentiated in all."""
    return len(texts.texts) * 2


class AttentionObserver:
    """Takes the weights of one layer at a time, and keeps means over queries alone."""

    def __init__(self, means: MeanValues):
        self._means = means
        self._visible: Tensor | None = None

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith(("attention_mask", "attention_weights", "cross_mask", "cross_weights"))

    def see(self, name: str, layer: int, value: Tensor) -> None:
        if name.endswith("_mask"):
            self._visible = value
            return
        assert self._visible is not None
        visible, self._visible = self._visible, None
        stack, place = name.split(".")
        here = Place(stack=stack, branch=place.removesuffix("_weights"), layer=layer)
        self._measure(value, here)
        # one text stands for all: they have one length and no padding
        n_heads = value.shape[1]
        uniform = uniform_attention(visible[:1]).expand(1, n_heads, *value.shape[2:])
        self._measure(uniform, here.of_variant(UNIFORM_ATTENTION))

    def _measure(self, weights_BHTS: Tensor, place: Place) -> None:
        found = {
            "attention entropy": attention_entropy(weights_BHTS).mean(-1),
            "weight on the first token": first_token_share(weights_BHTS).mean(-1),
            "weight on the most attended token": sink(weights_BHTS)[1],
        }
        if place.branch == "attention":  # a source has positions of its own
            found["attention distance"] = attention_distance(weights_BHTS).mean(-1)
            found["weight on itself"] = self_share(weights_BHTS).mean(-1)
        for quantity, values_BH in found.items():
            self._means.add_heads(place, quantity, values_BH)


def _add_gradients(means: MeanValues, norms_BT: Tensor, path: GradientPath) -> None:
    """A curve over distance, and the mean distance by gradient norm."""
    place = Place(stack=path.outputs.split(".")[0])
    distances_T = path.distances(norms_BT.shape[1])
    shares_BT = norms_BT / norms_BT.sum(1, keepdim=True)
    means.add_texts(place, GRADIENT_DISTANCE, (shares_BT * distances_T).sum(1))
    for distance in _curve_points(int(distances_T.min()), int(distances_T.max())):
        here = place.at(distance, "distance")
        is_there = distances_T == distance
        means.add_texts(here, "gradient norm", norms_BT[:, is_there].mean(1))
        means.add_texts(here, "share of the gradient", shares_BT[:, is_there].mean(1))


def _curve_points(first: int, last: int) -> list[int]:
    """Distances that are spread evenly in the logarithm."""
    numbers = torch.logspace(0, math.log10(last - first + 1), N_CURVE_POINTS, dtype=torch.float64)
    return (first - 1 + numbers.round().long().unique()).tolist()


def _reached_rows(subject: ProbedModel, texts: ProbeTexts) -> Iterator[ProbeRow]:
    """What the masks alone let through, by depth; depth 0 is each token by itself."""
    batch = subject.batch(texts.tokens_BT[:1])
    layouts = {"stack": batch.layout}
    if subject.has_encoder_alone:
        layouts = {"encoder": batch.layout}
    elif batch.source is not None:
        layouts["encoder"] = batch.source.layout
    for name, layout in layouts.items():
        stack = subject.spec.encoder if name == "encoder" else subject.spec.stack
        assert stack is not None
        assert isinstance(layout.prefix, int)
        own = SequenceLayout(layout.length, layout.prefix)
        shares = [1 / layout.length, *reached_shares(stack.masks, own)]
        for depth, share in enumerate(shares):
            yield ProbeRow(
                probe="flow",
                quantity=REACHED_PAIRS,
                value=share,
                n=layout.length**2,
                stack=name,
                x=depth,
                x_name="depth",
            )
