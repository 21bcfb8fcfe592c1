"""The hyper-parameters of each arm, as tables for a paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.report.numbers import (
    DASH,
    format_count,
    join_words,
    significant,
)
from paribus.report.rate_intervals import kept_sweeps
from paribus.report.report_data import ReportData
from paribus.spec import ResolvedArchitecture

HYPERPARAMETERS = "Hyper-parameters"
Lines = list[tuple[str, ...]]
OPTIMIZER_NAMES = {
    "adamw": "AdamW",
    "adafactor": "Adafactor",
    "muon": "Muon for matrices, AdamW for the rest",
}
EARLIER_STAGE_VALUES = ("steps", "sequences per batch", "tokens per sequence", "peak learning rate")


def hyperparameters(material: ReportData) -> Lines:
    """A line a hyper-parameter: its name, then its value in each arm; those that no arm has are
    left out.
    """
    columns = [_arm_values(material, arm) for arm in material.order]
    names: dict[str, None] = {}
    for column in columns:
        names |= dict.fromkeys(column)
    lines: Lines = []
    for name in names:
        cells = [column.get(name, DASH) for column in columns]
        lines.append((name, *cells))
    return lines


def hyperparameter_tables(material: ReportData) -> list[tuple[tuple[str, ...], Lines]]:
    """Tables as a heading and lines; of many arms one table of what differs, a line an arm, and
    one of the rest.
    """
    lines = hyperparameters(material)
    if not material.has_many_columns:
        return [(("", *material.order), lines)]
    differing: Lines = [("arm", *material.order)]
    equal: Lines = []
    for line in lines:
        if len(set(line[1:])) > 1:
            differing.append(line)
        else:
            equal.append(line[:2])
    tables = [(("", "all arms"), equal)]
    if len(differing) > 1:
        heading, *by_arm = zip(*differing, strict=True)
        tables.insert(0, (heading, by_arm))
    return tables


def _arm_values(material: ReportData, arm: str) -> dict[str, str]:
    own, stage = material.plan.arms[arm], last_stage_table(material, arm)
    return {
        "parameters": format_count(own.price.parameters),
        **_earlier_stage_values(material, arm),
        **_architecture_values(
            material.resolved_architecture(arm), str(own.run.last_architecture["mask"])
        ),
        "objective": _kind_words(stage["objective"]),
        "tokenizer": _kind_words(stage["corpus"]["tokenizer"]),
        **_training_values(stage["training"], _rate(material, arm)),
    }


def _earlier_stage_values(material: ReportData, arm: str) -> dict[str, str]:
    """What the stages before the last were trained on, and how."""
    values: dict[str, str] = {}
    for number, stage in enumerate(material.plan.arms[arm].run.table["stages"][:-1]):
        rate = stage_rate(material, arm, number)
        training = _training_values(stage["training"], rate or 0.0)
        if rate is None:
            training["peak learning rate"] = "tuned"
        values[f"stages.{number}"] = stage["kind"]
        values[f"stages.{number}: objective"] = _kind_words(stage["objective"])
        for name in EARLIER_STAGE_VALUES:
            values[f"stages.{number}: {name}"] = training[name]
    return values


def stage_rate(material: ReportData, arm: str, number: int) -> float | None:
    """The rate that a stage before the last was trained at; None if it was tuned and the record of
    its sweep is not there.
    """
    sweeps = material.findings.stage_rates
    if number < len(sweeps) and arm in sweeps[number]:
        return sweeps[number][arm]["rate"]
    if material.plan.design.table["tune"] is not None:
        return None
    stage = material.plan.arms[arm].run.stages[number]
    return stage.training.optimizer.rate


def last_stage_table(material: ReportData, arm: str) -> Mapping[str, Any]:
    """The last stage of an arm with all its fields."""
    return material.plan.arms[arm].run.table["stages"][-1]


def _architecture_values(spec: ResolvedArchitecture, mask: str) -> dict[str, str]:
    block = spec.stack.layers[-1]  # of experts, the last layers have them
    attention, feed_forward = block.attention.model_dump(), block.feed_forward.model_dump()
    n_encoder_layers = None
    if spec.encoder is not None:
        n_encoder_layers = len(spec.encoder.layers)
    values = {
        "layers": len(spec.stack.layers),
        "encoder layers": n_encoder_layers,
        "model width": spec.d_model,
        "attention": attention["kind"],
        "heads": attention["n_heads"],
        "key and value heads": attention.get("n_kv_heads"),
        "head width": attention.get("d_head"),
        "feed-forward": feed_forward["kind"],
        "feed-forward width": feed_forward.get("d_expert") or feed_forward["d_ff"],
        "experts": feed_forward.get("n_experts"),
        "experts per token": feed_forward.get("n_active"),
        "activation": feed_forward["activation"],
        "gated": _yes_or_no(feed_forward["gated"]),
        "mask": mask,
        "positions": _kind_words(spec.stack.positions.model_dump()),
        "norm": f"{spec.norm.kind}, {spec.placement}",
        "vocabulary": spec.n_vocab,
        "longest sequence": spec.max_length,
        "tied embeddings": _yes_or_no(spec.head.tied),
        "initialisation": _kind_words(spec.init.model_dump()),
        "dropout": f"{spec.dropout:g}",
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _yes_or_no(value: bool) -> str:
    if value:
        return "yes"
    return "no"


def _training_values(training: Mapping[str, Any], rate: float) -> dict[str, str]:
    optimizer = training["optimizer"]
    clip = "none"
    if optimizer["clip"] is not None:
        clip = f"{optimizer['clip']:g}"
    return {
        "steps": str(training["n_steps"]),
        "sequences per batch": str(training["n_sequences"]),
        "tokens per sequence": str(training["length"]),
        "peak learning rate": significant(rate),
        "warm-up steps": str(training["warmup"]),
        "schedule": _kind_words(training["schedule"]),
        "optimizer": optimizer_name(training),
        **_optimizer_values(optimizer),
        "weight decay": f"{optimizer['decay']:g}",
        "gradient clipping": clip,
        "z-loss": f"{training['z_loss']:g}",
    }


def optimizer_name(training: Mapping[str, Any]) -> str:
    """What the optimizer of a stage is called; a record that names none has AdamW."""
    return OPTIMIZER_NAMES[training["optimizer"].get("kind", "adamw")]


def _optimizer_values(optimizer: Mapping[str, Any]) -> dict[str, str]:
    """What an optimizer has beside its rate, its decay and the clipping of gradients."""
    match optimizer.get("kind", "adamw"):
        case "adafactor":
            return {
                "Adafactor power of β2": f"{optimizer['beta2_power']:g}",
                "Adafactor ε1, ε2": f"{optimizer['min_root']:g}, {optimizer['min_scale']:g}",
                "Adafactor clipping of updates": f"{optimizer['update_clip']:g}",
            }
        case "muon":
            momentum = {"Muon momentum": f"{optimizer['momentum']:g}"}
            return momentum | _adamw_values(optimizer)
        case _:
            return _adamw_values(optimizer)


def _adamw_values(optimizer: Mapping[str, Any]) -> dict[str, str]:
    return {
        "AdamW β1, β2": f"{optimizer['beta1']:g}, {optimizer['beta2']:g}",
        "AdamW ε": f"{optimizer['eps']:g}",
    }


def _rate(material: ReportData, arm: str) -> float:
    """The rate that the reported runs of an arm were trained at."""
    rates = material.findings.rates
    if rates is None:
        return material.written_learning_rate(arm)
    return rates[arm]["rate"]


def _kind_words(table: Mapping[str, Any]) -> str:
    """A choice with its numbers: `cosine (floor 0.1)`; where files lie is not said."""
    numbers: list[str] = []
    for name, value in table.items():
        if name != "kind" and isinstance(value, int | float):
            numbers.append(f"{name} {_format_number(value)}")
    if numbers:
        return f"{table['kind']} ({', '.join(numbers)})"
    return table["kind"]


def _format_number(value: float) -> str:
    """A number, or true or false."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}".lower()


def hyperparameter_caption(material: ReportData) -> str:
    """What the table of hyper-parameters shows."""
    caption = f"Hyper-parameters of each arm. Compared: {join_words(material.plan.declared)}."
    if material.findings.rates is None:
        return caption
    if kept_sweeps(material.plan):
        return f"{caption} The peak learning rates are read from sweeps of other studies."
    sweep = "sweeps" if material.findings.stage_rates else "sweep"
    return f"{caption} The peak learning rates are those that the {sweep} gave."
