"""Attention rank of every head, at the model's own score scale and at equal ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.probe.mean_values import MeanValues, Place
from paribus.probe.spectra import (
    NUMERICAL_TOLERANCES,
    attention_weights,
    effective_rank,
    energy_shares,
    log_determinant,
    numerical_rank,
    relative_effective_rank,
    rescale_scores,
    rounding_tolerance,
    singular_values,
    stable_rank,
)
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec import ResolvedArchitecture
from paribus.spec.probe_variants import LOG_DETERMINANT, scaled_scores
from paribus.spec.probes import RankProbe
from paribus.watcher import Watcher

AT_ONCE = 4  # texts
N_CURVE_POINTS = 32  # of a spectrum
QUANTILES = {"median over heads": 0.5, "lowest tenth": 0.1, "highest tenth": 0.9}
SPECTRUM = "singular value"


def probe_rank(
    subject: ProbedModel, texts: ProbeTexts, spec: RankProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """Ranks of each head, means over texts, and the spectra of each layer."""
    means = MeanValues("rank")
    for chunk in texts.chunks(AT_ONCE):
        subject.show(chunk.tokens_BT, SpectraObserver(spec, means, watcher))
    yield from means.rows()


def n_spectra(subject: ProbedModel, spec: RankProbe) -> int:
    """How many matrices are decomposed."""
    n_heads = 0
    for stack in (subject.spec.stack, subject.spec.encoder):
        for block in () if stack is None else stack.layers:
            n_heads += block.attention.n_heads * (2 if block.cross is not None else 1)
    return n_heads * spec.n_texts * (1 + len(spec.score_sds))


def require_square_attention(probe: str, spec: ResolvedArchitecture) -> None:
    """UnsupportedError where a softmax is over a source and a text at once."""
    if any(block.cross_form == "merged" for block in spec.stack.layers):
        raise UnsupportedError(
            f"the probe {probe!r} looks at self-attention and cross-attention apart, but where"
            " cross_form is 'merged' both are one softmax; use it with 'separate'"
        )


class SpectraObserver:
    """Takes the scores of one layer at a time, and keeps ranks alone."""

    def __init__(self, spec: RankProbe, means: MeanValues, watcher: Watcher):
        self._spec, self._means, self._watcher = spec, means, watcher
        self._scores_BHTS: Tensor | None = None

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith(("attention_scores", "attention_mask", "cross_scores", "cross_mask"))

    def see(self, name: str, layer: int, value: Tensor) -> None:
        if name.endswith("_scores"):
            self._scores_BHTS = value
            return
        assert self._scores_BHTS is not None
        scores, self._scores_BHTS = self._scores_BHTS, None
        stack, place = name.split(".")
        here = Place(stack=stack, branch=place.removesuffix("_mask"), layer=layer)
        self._measure(scores, value, here)
        for sd in self._spec.score_sds:
            rescaled = rescale_scores(scores, value, sd)
            self._measure(rescaled, value, here.of_variant(scaled_scores(sd)))
        self._watcher.advance(scores.shape[0] * scores.shape[1] * (1 + len(self._spec.score_sds)))

    def _measure(self, scores_BHTS: Tensor, visible: Tensor, place: Place) -> None:
        matrices = attention_weights(scores_BHTS, visible)
        values_BHN = singular_values(matrices)
        add = partial(self._means.add_heads, place)
        add("effective rank", effective_rank(values_BHN))
        add("effective rank over the most there can be", relative_effective_rank(values_BHN))
        add("stable rank", stable_rank(values_BHN))
        for tolerance in NUMERICAL_TOLERANCES:
            add(f"numerical rank at {tolerance:g}", numerical_rank(values_BHN, tolerance))
        rounding = rounding_tolerance(matrices)
        add("numerical rank above rounding", numerical_rank(values_BHN, rounding))
        if place.branch == "attention":
            determinant = log_determinant(scores_BHTS, visible.expand_as(scores_BHTS))
            assert determinant is not None
            add(LOG_DETERMINANT, determinant)
        shares = energy_shares(values_BHN)
        for n_directions in self._spec.n_directions:
            if n_directions <= shares.shape[-1]:
                add(f"energy in the first {n_directions}", shares[..., n_directions - 1])
        self._add_spectrum(values_BHN, place)

    def _add_spectrum(self, values_BHN: Tensor, place: Place) -> None:
        """Singular values over the largest, at places spread evenly in the logarithm."""
        n_values = values_BHN.shape[-1]
        numbers = torch.logspace(0, torch.log10(torch.tensor(n_values)).item(), N_CURVE_POINTS)
        chosen = numbers.round().long().unique().clamp(max=n_values)
        relative = (values_BHN / values_BHN[..., :1])[..., chosen.to(values_BHN.device) - 1]
        for words, share in QUANTILES.items():
            curve = relative.flatten(0, 1).quantile(share, 0)
            for number, value in zip(chosen.tolist(), curve.tolist(), strict=True):
                at = place.at(number, "number of the singular value")
                self._means.add(at, f"{SPECTRUM}, {words}", value)
