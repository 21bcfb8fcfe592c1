"""What a row of a problem costs: FLOPs by its shape."""

from __future__ import annotations

from typing import NamedTuple

from paribus.masks import SequenceLayout
from paribus.objectives import Problem
from paribus.spec import Flops, ResolvedArchitecture
from paribus.spec.flops import labelling_flops, preference_flops, training_flops
from paribus.spec.objectives import Objective, Preference, TextLabels, WordTags


class ProblemShape(NamedTuple):
    """What the FLOPs of a row depend on."""

    length: int
    source_length: int  # 0 without a source
    n_scored: int


def problem_shape(problem: Problem) -> ProblemShape:
    """The shape of a problem's rows."""
    source = problem.inputs.source
    return ProblemShape(
        length=problem.inputs.layout.length,
        source_length=0 if source is None else source.layout.length,
        n_scored=problem.scored_positions_BM.shape[1],
    )


def row_flops(spec: ResolvedArchitecture, objective: Objective, shape: ProblemShape) -> Flops:
    """One row forward and backward, with the logits of tokens or of labels."""
    if isinstance(objective, TextLabels | WordTags):
        return labelling_flops(spec, shape.length, objective.n_labels, shape.n_scored)
    layout = SequenceLayout(shape.length)
    if isinstance(objective, Preference):
        return preference_flops(spec, layout, shape.source_length, shape.n_scored)
    return training_flops(spec, layout, shape.source_length, shape.n_scored)
