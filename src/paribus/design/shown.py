"""What a report shows and rows do not hold: how each arm goes on from a prompt, and what the telling items ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from paribus.analyse import Table, answers_of, extremes, rows
from paribus.design.plan import Plan
from paribus.design.quantities import Planned
from paribus.errors import UnsupportedError
from paribus.evaluate import context_is_prefix, items
from paribus.generate import continued
from paribus.interop.loaded import Loaded, load_checkpoint
from paribus.model import Transformer
from paribus.record import CHECKPOINTS, Study, latest
from paribus.record.shown import ItemText, Sample, write_items, write_samples
from paribus.spec.design import pairs_of

N_TOKENS = 80  # of a sample
N_EXTREMES = 5  # items of each arm, best and worst


class Speaker(NamedTuple):
    """A checkpoint with its model, and whether it goes on from a prompt as from its prefix."""

    loaded: Loaded
    model: Transformer
    context_is_prefix: bool


def show(plan: Plan, study: Study, device: torch.device) -> None:
    """Samples and items of a study that is done, kept beside its rows."""
    table = rows(study)
    speaking = {arm.name: _speaker(arm, table, study, device) for arm in plan.arms if plan.design.prompts}
    write_samples(study, [_sample(prompt, speaking) for prompt in plan.design.prompts])
    write_items(study, _texts(plan, study, table))


def _speaker(arm: Planned, table: Table, study: Study, device: torch.device) -> Speaker | None:
    """The last checkpoint of the first seed that trained; None where none did."""
    own = (row for row in table if row["arm"] == arm.name and row["purpose"] == "reported")
    run = next((row["run"] for row in own if row["outcome"] == "finished"), None)
    checkpoint = None if run is None else latest(study.root / run / CHECKPOINTS).checkpoint
    if checkpoint is None:
        return None
    loaded = load_checkpoint(checkpoint.folder)
    kernel = "masked" if device.type == "cuda" else "auto"  # lengths grow by one: nothing is compiled for each
    model = loaded.restore(device, kernel=kernel)
    return Speaker(loaded, model, context_is_prefix(arm.run.stages[-1].objective))


def _sample(prompt: str, speaking: Mapping[str, Speaker | None]) -> Sample:
    said, refused = {}, {}
    for arm, speaker in speaking.items():
        try:
            said[arm] = _continued(prompt, speaker)
        except UnsupportedError as fault:
            refused[arm] = str(fault)
    return Sample(prompt, said, refused)


def _continued(prompt: str, speaker: Speaker | None) -> str:
    """Greedily: no draw, so the same on every rerun."""
    if speaker is None:
        raise UnsupportedError("none of its runs trained; there is nothing to go on with")
    model, tokenizer, vocabulary = speaker.model, speaker.loaded.tokenizer, speaker.loaded.vocabulary
    ids = tokenizer.ids(prompt)[-(model.spec.max_length - 1) :]
    device = next(model.parameters()).device
    context = torch.tensor([ids], device=device)
    told = continued(model, vocabulary, context, N_TOKENS, context_is_prefix=speaker.context_is_prefix)
    return tokenizer.text(told[0].tolist())


def _texts(plan: Plan, study: Study, table: Table) -> dict[str, ItemText]:
    """The items with the largest differences; they are the same in every arm."""
    answers = answers_of(study, table)
    pairs = [extremes(answers[against], answers[name], N_EXTREMES) for name, against in pairs_of(plan.design)]
    wanted = {one.item for pair in pairs for side in pair for one in side}
    asked = items(plan.arms[0].built, plan.design.primary.measure) if wanted else ()
    return {item.name: ItemText(item.context, item.target) for item in asked if item.name in wanted}
