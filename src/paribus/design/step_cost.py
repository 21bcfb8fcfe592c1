"""What a step of an arm reads, scores and costs, seen by posing its first batches.

What is drawn anew at each step, a component of a mixture or where a text is split, is posed in each
way that it may come out, and counts as often as it does: the mean of a few draws could miss that of
a run by a tenth.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import numpy as np

from paribus.corpus import TokenisedCorpus
from paribus.objectives import possible_draws, reads_on, separates_documents
from paribus.spec import Architecture, ResolvedArchitecture, resolve
from paribus.spec.conversation import encodes_turns
from paribus.spec.objectives import Objective
from paribus.spec.run import RunSpec, Stage
from paribus.spec.stages import stage_architectures
from paribus.train.loader import ProblemLoader
from paribus.train.parent import Texts, with_own_draws
from paribus.train.problem_flops import ProblemShape, problem_shape, row_flops

N_SAMPLED_BATCHES = 16  # batches whose mean stands for a step


@dataclass(frozen=True)
class StepCost:
    """Means over steps."""

    tokens_read: float  # without padding
    positions_computed: float  # with it
    tokens_scored: float
    bytes_read: float
    training_flops: float
    n_input: float  # positions of a row that are given
    n_target: float  # positions of a row that are asked for


def measure_step_costs(run: RunSpec, texts: Texts) -> tuple[StepCost, ...]:
    """The mean step of each stage of a run."""
    costs = []
    for number, architecture in enumerate(stage_architectures(run)):
        stage = with_own_draws(run.stages[number], number)
        costs.append(measure_step_cost(architecture, stage, texts[number]))
    return tuple(costs)


def measure_step_cost(
    architecture: Architecture, stage: Stage, dataset: TokenisedCorpus
) -> StepCost:
    """The mean step of a stage."""
    spec = resolve(architecture)
    training = stage.training
    n_batches = min(training.n_steps, N_SAMPLED_BATCHES)
    loader = ProblemLoader(
        dataset=dataset,
        stage=stage,
        has_encoder=spec.encoder is not None,
        separates_documents=separates_documents(spec),
        reads_on=reads_on(spec),
        encodes_turns=encodes_turns(spec),
        estimates=True,
    )
    texts = [loader.text_at("train", training.data_seed, k).tokens_BT for k in range(n_batches)]
    n_bytes = sum(float(dataset.vocabulary.bytes_V[text].sum()) for text in texts)
    draws: list[tuple[float, Objective]] = [(1.0, stage.objective)]
    if not loader.has_padding:  # rows of pairs have a split of their own
        draws = possible_draws(stage.objective, texts[0].shape[1])
    n_own = -(-n_batches // len(draws))
    costs = []
    for _, objective in draws:
        own = replace(loader, stage=stage.model_copy(update={"objective": objective}))
        costs.append(np.array(astuple(_mean_cost(own, spec, n_own))))
    shares = [share for share, _ in draws]
    # about the first, so that what is equal in all of them is exactly that
    mean = costs[0] + sum(s * (cost - costs[0]) for s, cost in zip(shares, costs, strict=True))
    return replace(StepCost(*mean.tolist()), bytes_read=n_bytes / n_batches)


def _mean_cost(loader: ProblemLoader, spec: ResolvedArchitecture, n_batches: int) -> StepCost:
    """The mean of the first batches, but for the bytes of their texts."""
    training = loader.stage.training
    prices: dict[ProblemShape, float] = {}
    tokens_read = positions = tokens_scored = flops = n_input = n_target = 0.0
    for k in range(n_batches):
        for part in loader.problems_at(k):
            n_rows, shape = part.inputs.layout.n_sequences, problem_shape(part)
            if shape not in prices:
                prices[shape] = row_flops(spec, loader.stage.objective, shape).dense
            tokens_read += part.inputs.n_tokens
            positions += part.inputs.n_positions
            tokens_scored += float(part.weights_BM.sum())
            flops += n_rows * prices[shape]
            n_input += n_rows * (shape.length + shape.source_length - shape.n_scored)
            n_target += n_rows * shape.n_scored
    n_rows = n_batches * training.n_sequences
    return StepCost(
        tokens_read=tokens_read / n_batches,
        positions_computed=positions / n_batches,
        tokens_scored=tokens_scored / n_batches,
        bytes_read=0.0,
        training_flops=flops / n_batches,
        n_input=n_input / n_rows,
        n_target=n_target / n_rows,
    )
