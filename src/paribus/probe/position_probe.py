"""How well positions can be read off the states of each layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paribus.probe.linear_probe import PositionScore, ridge_position_score
from paribus.probe.position_classifier import classifier_position_score
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probe_variants import AS_IS, SHUFFLED_POSITIONS, TWO_LAYERS, UNTRAINED
from paribus.spec.probes import PositionsProbe
from paribus.watcher import Watcher

AT_ONCE = 16  # texts
FITS = {AS_IS: ridge_position_score, TWO_LAYERS: classifier_position_score}  # as it is: a line


def probe_positions(
    subject: ProbedModel, texts: ProbeTexts, spec: PositionsProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """The distance between predicted and true positions in other texts than those that fitted,
    beside two controls: the untrained model, and positions shuffled in each text.
    """
    subjects = {"": subject}
    if spec.start:
        subjects[UNTRAINED] = subject.at_start()
    fits = list(FITS) if spec.classifier else list(FITS)[:1]
    for variant, model in subjects.items():
        observer = _StatesByDepth()
        for chunk in texts.chunks(AT_ONCE):
            model.show(chunk.tokens_BT, observer)
        for (stack, depth), parts in observer.states.items():
            states_BTD = torch.cat(parts).to(subject.device)
            for fit in fits:
                for is_shuffled in (False, True) if variant == "" else (False,):
                    score = FITS[fit](states_BTD, spec.seed, is_shuffled=is_shuffled)
                    name = ", ".join(filter(None, (fit, variant, SHUFFLED_POSITIONS * is_shuffled)))
                    yield from _rows(score, stack, depth, name)
            watcher.advance(1)


def n_fits(subject: ProbedModel, spec: PositionsProbe) -> int:
    """How many layers are fitted."""
    n_depths = 0
    for stack in (subject.spec.stack, subject.spec.encoder):
        n_depths += 0 if stack is None else len(stack.layers) + 1
    return n_depths * (1 + spec.start)


def _rows(score: PositionScore, stack: str, depth: int, variant: str) -> Iterator[ProbeRow]:
    found = {
        "distance to the true position": score.mean_distance,
        "variance explained": score.r2,
        "exact positions": score.accuracy,
    }
    for quantity, value in found.items():
        yield ProbeRow(
            probe="positions",
            quantity=quantity,
            value=value,
            n=score.n_tokens,
            stack=stack,
            variant=variant,
            x=depth,
            x_name="depth",
        )


@dataclass
class _StatesByDepth:
    """Keeps the residual stream of all texts on the host."""

    states: dict[tuple[str, int], list[Tensor]] = field(default_factory=dict)

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith((".embedding", ".block_output"))

    def see(self, name: str, layer: int, value: Tensor) -> None:
        stack, place = name.split(".")
        depth = 0 if place == "embedding" else layer + 1
        self.states.setdefault((stack, depth), []).append(value.float().cpu())
