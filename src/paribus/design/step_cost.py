"""What a step of an arm reads, scores and costs, seen by posing its first batches."""

from __future__ import annotations

from dataclasses import dataclass

from paribus.corpus import TokenisedCorpus
from paribus.objectives import reads_on, separates_documents
from paribus.spec import Architecture, resolve
from paribus.spec.conversation import encodes_turns
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
    n_steps = min(stage.training.n_steps, N_SAMPLED_BATCHES)
    loader = ProblemLoader(
        dataset=dataset,
        stage=stage,
        has_encoder=spec.encoder is not None,
        separates_documents=separates_documents(spec),
        reads_on=reads_on(spec),
        encodes_turns=encodes_turns(spec),
        estimates=True,
    )
    prices: dict[ProblemShape, float] = {}
    tokens_read = positions = tokens_scored = n_bytes = flops = n_input = n_target = 0.0
    for k in range(n_steps):
        text = loader.text_at("train", stage.training.data_seed, k).tokens_BT
        n_bytes += float(dataset.vocabulary.bytes_V[text].sum())
        for part in loader.problems_at(k):
            n_rows, shape = part.inputs.layout.n_sequences, problem_shape(part)
            if shape not in prices:
                prices[shape] = row_flops(spec, stage.objective, shape).dense
            tokens_read += part.inputs.n_tokens
            positions += part.inputs.n_positions
            tokens_scored += float(part.weights_BM.sum())
            flops += n_rows * prices[shape]
            n_input += n_rows * (shape.length + shape.source_length - shape.n_scored)
            n_target += n_rows * shape.n_scored
    n_rows = n_steps * stage.training.n_sequences
    return StepCost(
        tokens_read=tokens_read / n_steps,
        positions_computed=positions / n_steps,
        tokens_scored=tokens_scored / n_steps,
        bytes_read=n_bytes / n_steps,
        training_flops=flops / n_steps,
        n_input=n_input / n_rows,
        n_target=n_target / n_rows,
    )
