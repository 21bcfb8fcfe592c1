"""Collapse with depth, in the model as it is and with parts of every block left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from paribus.model.forward import Part
from paribus.probe.collapse import composite_ratio, frobenius_ratio, mean_cosine
from paribus.probe.mean_values import MeanValues, Place
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probe_variants import (
    AS_IS,
    ATTENTION_ALONE,
    UNTRAINED,
    WITHOUT_FEED_FORWARD,
    WITHOUT_SKIPS,
)
from paribus.spec.probes import CollapseProbe
from paribus.watcher import Watcher

AT_ONCE = 16  # texts
VARIANTS: Mapping[str, tuple[Part, ...]] = {
    AS_IS: (),
    WITHOUT_SKIPS: ("skips",),
    WITHOUT_FEED_FORWARD: ("feed_forward",),
    ATTENTION_ALONE: ("skips", "feed_forward"),
}  # those of Dong 2021


def probe_collapse(
    subject: ProbedModel, texts: ProbeTexts, spec: CollapseProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """How alike tokens are after each layer, means over texts, in each variant."""
    means = MeanValues("collapse")
    subjects = {"": subject}
    if spec.start:
        subjects[UNTRAINED] = subject.at_start()
    for state, model in subjects.items():
        for variant, left_out in VARIANTS.items():
            name = ", ".join(filter(None, (state, variant)))
            for chunk in texts.chunks(AT_ONCE):
                model.show(chunk.tokens_BT, DepthObserver(means, name), left_out)
                watcher.advance(len(chunk.texts))
    yield from means.rows()


def n_passes(texts: ProbeTexts, spec: CollapseProbe) -> int:
    """How many texts are read in all."""
    return len(texts.texts) * len(VARIANTS) * (1 + spec.start)


class DepthObserver:
    """Looks at the residual stream: depth 0 is the embedding, depth l the output of l layers."""

    def __init__(self, means: MeanValues, variant: str):
        self._means, self._variant = means, variant

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith((".embedding", ".block_output"))

    def see(self, name: str, layer: int, value: Tensor) -> None:
        stack, place = name.split(".")
        depth = 0 if place == "embedding" else layer + 1
        here = Place(stack=stack, variant=self._variant).at(depth, "depth")
        states = value.float()
        self._means.add_texts(here, "residual over norm", frobenius_ratio(states))
        self._means.add_texts(here, "residual over norm, composite", composite_ratio(states))
        self._means.add_texts(here, "cosine similarity", mean_cosine(states))
