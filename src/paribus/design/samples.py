"""What a report shows and rows do not hold: how each arm goes on from a prompt, and what the
telling items ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from paribus.analyse import RowTable, column_of, extreme_items, primary_evaluations, study_rows
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.tasks import ChoiceItem, LabelItem
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.errors import UnsupportedError
from paribus.evaluate import select_items
from paribus.evaluate.head_answers import labelled_items
from paribus.generate import Sampling, generate_answers
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, generation_layout
from paribus.record import CHECKPOINTS, Study, latest_checkpoint
from paribus.record.checkpoints import checkpoint_folders
from paribus.record.samples import (
    ItemText,
    PromptSample,
    read_samples,
    write_item_texts,
    write_samples,
)
from paribus.spec.design import judged_pairs
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.yardstick import HeadYardstick, TaskYardstick

N_SAMPLE_TOKENS = 80  # of a sample
N_EXTREMES = 5  # items of each arm, best and worst


class SampledModel(NamedTuple):
    """A checkpoint with its model, and how a prompt is laid before it."""

    loaded: LoadedCheckpoint
    model: Transformer
    layout: ItemLayout


def write_study_samples(plan: Plan, study: Study, device: torch.device) -> None:
    """Samples and items of a study that is done, kept beside its rows."""
    table = study_rows(study)
    if not _lacks_weights(plan, table, study):
        models = {}
        if plan.design.prompts:
            models = {arm.name: _sampled_model(arm, table, study, device) for arm in plan.arms}
        write_samples(study, [_sample(prompt, models) for prompt in plan.design.prompts])
    write_item_texts(study, _item_texts(plan, study, table))


def _lacks_weights(plan: Plan, table: RowTable, study: Study) -> bool:
    """Are there samples of these prompts, and is a checkpoint gone that they were drawn from? So it
    is in a study that was packed without weights.
    """
    kept_prompts = [sample.prompt for sample in read_samples(study)]
    if not kept_prompts or kept_prompts != list(plan.design.prompts):
        return False
    for arm in plan.arms:
        run = _first_finished_run(arm, table)
        if run is not None and not checkpoint_folders(study.root / run / CHECKPOINTS):
            return True
    return False


def _sampled_model(
    arm: PlannedArm, table: RowTable, study: Study, device: torch.device
) -> SampledModel | None:
    """The last checkpoint of the first seed that trained; None where none did."""
    run = _first_finished_run(arm, table)
    if run is None:
        checkpoint = None
    else:
        checkpoint = latest_checkpoint(study.root / run / CHECKPOINTS).checkpoint
    if checkpoint is None:
        return None
    loaded_checkpoint = load_checkpoint(checkpoint.folder)
    # lengths grow by one: nothing is compiled for each
    kernel = "masked" if device.type == "cuda" else "auto"
    model = loaded_checkpoint.restore(device, kernel=kernel)
    layout = generation_layout(
        arm.run.last.objective, model.spec, loaded_checkpoint.vocabulary, model.spec.max_length
    )
    layout = replace(layout, in_turns=loaded_checkpoint.chat_template is not None)
    return SampledModel(loaded_checkpoint, model, layout)


def _first_finished_run(arm: PlannedArm, table: RowTable) -> str | None:
    """The first reported run of an arm that came to its end."""
    for row in table:
        is_own = row["arm"] == arm.name and row["purpose"] == "reported"
        if is_own and row["outcome"] == "finished":
            return row["run"]
    return None


def _sample(prompt: str, models: Mapping[str, SampledModel | None]) -> PromptSample:
    continuations, refusals = {}, {}
    for arm, model in models.items():
        try:
            continuations[arm] = _continuation(prompt, model)
        except UnsupportedError as fault:
            refusals[arm] = str(fault)
    return PromptSample(prompt, continuations, refusals)


def _continuation(prompt: str, sampled_model: SampledModel | None) -> str:
    """Greedily: no draw, so the same on every rerun."""
    if sampled_model is None:
        raise UnsupportedError("none of its runs trained; there is nothing to sample from")
    loaded = sampled_model.loaded
    (answer,) = generate_answers(
        sampled_model.model,
        sampled_model.layout,
        [loaded.encode_prompt(prompt)],
        Sampling(N_SAMPLE_TOKENS),
    )
    return loaded.tokenizer.decode(list(answer.tokens))


def _item_texts(plan: Plan, study: Study, table: RowTable) -> dict[str, ItemText]:
    """The items with the largest differences; they are the same in every arm."""
    answers = primary_evaluations(study, table)
    primary, names = plan.design.primary.measure, set[str]()
    for name, against in judged_pairs(plan.design):
        extremes = extreme_items(answers[against], answers[name], N_EXTREMES, primary.scores)
        for side in extremes:
            names.update([extreme.item for extreme in side])
    if not names:
        return {}
    return {name: text for name, text in _all_item_texts(plan) if name in names}


def _all_item_texts(plan: Plan) -> Iterator[tuple[str, ItemText]]:
    """Every item of the primary yardstick by its name: what is read, and what would be right."""
    primary, arm = plan.design.primary.measure, plan.arms[0]
    if isinstance(primary, HeadYardstick):
        objective = arm.run.last.objective
        assert isinstance(objective, TextLabels | WordTags)
        labelled = LabelledCorpus(arm.dataset, objective)
        for item in labelled_items(labelled, primary.split):
            if isinstance(item, LabelItem):
                yield item.name, ItemText(f"{item.text} ", labelled.names[item.label])
            else:
                tags = [labelled.names[number] for number in item.tags]
                yield item.name, ItemText(f"{' '.join(item.words)} ", " ".join(tags))
    elif isinstance(primary, TaskYardstick):
        prepared = plan.tasks[column_of(primary.model_dump(mode="json"))]
        for item in prepared.prepared.items:
            if isinstance(item, ChoiceItem):
                yield item.name, ItemText(item.context, item.options[item.key])
            else:
                yield item.name, ItemText(item.source, item.references[0])
    else:
        for item in select_items(arm.dataset, primary):
            yield item.name, ItemText(item.context, item.target)
