"""For a paper: how the study was made, in one paragraph, the hyper-parameters of each arm, and captions of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paribus.analyse import name_of
from paribus.analyse.findings import UNIT
from paribus.report.limits import measured, sources_read
from paribus.report.material import Material
from paribus.report.numbers import count, listed, percent_level, significant, some
from paribus.spec import Resolved

METHODS = "Methods"
HYPERPARAMETERS = "Hyper-parameters"
NOTHING = "–"  # in a cell of an arm that has no such value
_BUDGETS = {
    "tokens_read": "tokens read", "tokens_scored": "tokens scored", "bytes_read": "bytes of text read",
    "training_flops": "training FLOPs",
}  # fmt: skip
_MARKS = {  # of lines of the control table, and what is said of so many of them
    "✓": "equal", "→": "that follow from the factor", "≈": "matched", "⟳": "tuned alike", "✗": "allowed to differ",
}  # fmt: skip
Lines = list[tuple[str, ...]]


def methods(material: Material) -> str:
    """How the study was made, in sentences whose numbers come from its plan and its rows."""
    return " ".join(_sentences(material))


def _sentences(material: Material) -> Iterator[str]:
    plan, design = material.plan, material.plan.design.table
    arms = listed([_quoted(arm) for arm in material.order])
    yield f"We compare {some(len(material.order), 'arm')}, {arms}, which differ in {listed(plan.declared)}."
    yield from _equal_sentences(material)
    yield from _text_sentences(material)
    yield from _training_sentences(material)
    yield _rate_sentence(material)
    seeds = len(material.found.seeds)
    yield f"Each arm is trained under {some(seeds, 'seed')}; runs of the same seed are paired."
    n_items = design["primary"]["measure"]["n_items"]
    yield f"The primary measure is {measured(material)}, in {UNIT}, on up to {n_items} items."
    yield f"Margin: {material.found.margin_words}."
    n_words = material.found.n_comparisons
    shared = f"; {n_words} comparisons share {_percent(material.found.share)}" if n_words > 1 else ""
    yield f"Intervals are at {_percent(_level(material))} unless they say otherwise{shared}."
    versions = dict.fromkeys(f"torch {one['torch']}" for one in material.environments if "torch" in one)
    if versions:
        yield f"Runs were made with {listed(list(versions))}."


def _equal_sentences(material: Material) -> Iterator[str]:
    """How many lines of the control table have each mark, and what was made equal on purpose."""
    marks = [str(line.mark) for line in material.plan.control if line.mark in _MARKS]
    counted = [f"{marks.count(mark)} {words}" for mark, words in _MARKS.items() if mark in marks]
    if counted:
        yield f"Other fields and quantities of a run, {len(marks)} in all: {listed(counted)}."
    design = material.plan.design.table
    match = design.get("match")
    if match is not None and match["by"] != "nothing":
        yield f"Arms are matched by {match['by'].replace('_', ' ')}."
    if design.get("budget") is not None:
        yield f"Arms are trained for equal {_BUDGETS[design['budget']]}."


def _text_sentences(material: Material) -> Iterator[str]:
    """The text of the baseline; of other arms it is said where it is not the same."""
    baseline = material.found.baseline
    corpus = _stage_table(material, baseline)["corpus"]
    held_out = f"{_percent(corpus['valid'])} of the documents are held out for validation"
    yield f"The text is {sources_read(material, baseline)}; {held_out}, {_percent(corpus['test'])} for the test."
    others = [arm for arm in material.order if _stage_table(material, arm)["corpus"] != corpus]
    if others:
        yield f"The corpus of {listed([_quoted(arm) for arm in others])} is another one."


def _training_sentences(material: Material) -> Iterator[str]:
    """The optimizer and the length of training; what is not the same in all arms is in the table."""
    alike = {name: cells[0] for name, *cells in hyperparameters(material) if len(set(cells)) == 1}
    shared = [f"{alike[name]} {name}" for name in ("steps", "sequences a batch", "tokens a sequence") if name in alike]
    yield "All arms are trained with AdamW; the table has the hyper-parameters of each."
    if shared:
        yield f"All arms have {listed(shared)}."


def _rate_sentence(material: Material) -> str:
    tune = material.plan.design.table["tune"]
    if tune is not None and material.found.rates is not None:
        seeds, share = some(tune["n_seeds"], "seed"), _percent(tune["share"])
        return (
            f"The learning rate of each arm is tuned by the same search, from a grid of {tune['n_rates']} rates "
            f"a factor 2 apart, on the {tune['split']} split, with {seeds} that are not reported and {share} of the "
            f"steps."
        )
    if material.one_rate:
        rate = significant(material.rate(material.order[0]))
        return f"All arms are trained at the learning rate {rate}, which was not tuned."
    return "Each arm is trained at the learning rate in the table, which was not tuned."


def hyperparameters(material: Material) -> Lines:
    """A line a hyper-parameter: its name, then its value in each arm; those that no arm has are left out."""
    columns = [_arm_values(material, arm) for arm in material.order]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(column.get(name, NOTHING) for column in columns)) for name in names]


def hyperparameter_tables(material: Material) -> list[tuple[tuple[str, ...], Lines]]:
    """Tables as a heading and lines; of many arms one table of what differs, a line an arm, and one of the rest."""
    lines = hyperparameters(material)
    if not material.many:
        return [(("", *material.order), lines)]
    differing = [line for line in lines if len(set(line[1:])) > 1]
    equal = [line[:2] for line in lines if len(set(line[1:])) == 1]
    by_arm = [(arm, *(line[place] for line in differing)) for place, arm in enumerate(material.order, 1)]
    tables = [(("arm", *(line[0] for line in differing)), by_arm)] if differing else []
    return [*tables, (("", "all arms"), equal)]


def _arm_values(material: Material, arm: str) -> dict[str, str]:
    own, stage = material.plan.arms[arm], _stage_table(material, arm)
    return {
        "parameters": count(own.price.parameters),
        **_architecture_values(material.spec(arm), str(own.run.table["architecture"]["mask"])),
        "objective": _kind_words(stage["objective"]),
        "tokenizer": _kind_words(stage["corpus"]["tokenizer"]),
        **_training_values(stage["training"], _rate(material, arm)),
    }


def _stage_table(material: Material, arm: str) -> Mapping[str, Any]:
    """An arm's last stage with all its fields."""
    return material.plan.arms[arm].run.table["stages"][-1]


def _architecture_values(spec: Resolved, mask: str) -> dict[str, str]:
    block = spec.stack.layers[-1]  # of experts, the last layers have them
    attention, feed_forward = block.attention.model_dump(), block.feed_forward.model_dump()
    values = {
        "layers": len(spec.stack.layers),
        "encoder layers": None if spec.encoder is None else len(spec.encoder.layers),
        "model width": spec.d_model,
        "attention": attention["kind"],
        "heads": attention["n_heads"],
        "key and value heads": attention.get("n_kv_heads"),
        "head width": attention.get("d_head"),
        "feed-forward": feed_forward["kind"],
        "feed-forward width": feed_forward.get("d_expert") or feed_forward["d_ff"],
        "experts": feed_forward.get("n_experts"),
        "experts a token": feed_forward.get("n_active"),
        "activation": feed_forward["activation"],
        "gated": "yes" if feed_forward["gated"] else "no",
        "mask": mask,
        "positions": _kind_words(spec.stack.positions.model_dump()),
        "norm": f"{spec.norm.kind}, {spec.placement}",
        "vocabulary": spec.n_vocab,
        "longest sequence": spec.max_length,
        "tied embeddings": "yes" if spec.head.tied else "no",
        "initialisation": _kind_words(spec.start.model_dump()),
        "dropout": f"{spec.dropout:g}",
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _training_values(training: Mapping[str, Any], rate: float) -> dict[str, str]:
    optimizer = training["optimizer"]
    clip = optimizer["clip"]
    return {
        "steps": str(training["n_steps"]),
        "sequences a batch": str(training["n_sequences"]),
        "tokens a sequence": str(training["length"]),
        "peak learning rate": significant(rate),
        "warm-up steps": str(training["warmup"]),
        "schedule": _kind_words(training["schedule"]),
        "AdamW β1, β2": f"{optimizer['beta1']:g}, {optimizer['beta2']:g}",
        "AdamW ε": f"{optimizer['eps']:g}",
        "weight decay": f"{optimizer['decay']:g}",
        "gradient clipping": "none" if clip is None else f"{clip:g}",
        "z-loss": f"{training['z_loss']:g}",
    }


def _rate(material: Material, arm: str) -> float:
    """The rate that the reported runs of an arm were trained at."""
    rates = material.found.rates
    return material.rate(arm) if rates is None else rates[arm]["rate"]


def _kind_words(table: Mapping[str, Any]) -> str:
    """A choice with its numbers: `cosine (floor 0.1)`; where files lie is not said."""
    said = [f"{name} {_value_words(value)}" for name, value in table.items() if _is_said(name, value)]
    return f"{table['kind']} ({', '.join(said)})" if said else table["kind"]


def _is_said(name: str, value: Any) -> bool:
    return name != "kind" and isinstance(value, int | float)


def _value_words(value: float) -> str:
    written: Callable[[float], str] = str if isinstance(value, bool) else "{:g}".format
    return written(value).lower()


def results_caption(material: Material) -> str:
    """What the table of scores and verdicts shows."""
    column = name_of(material.plan.design.primary.measure.table)
    seeds = some(len(material.found.seeds), "seed")
    return (
        f"Score, gain and verdict of each arm. Score: {UNIT} of {column}, mean over {seeds}, lower is better. "
        f"Gain: against {_quoted(material.found.baseline)} unless another arm is named; above 0 is better. "
        f"Intervals at {_percent(_level(material))} unless they say otherwise. Margin: {material.found.margin_words}."
    )


def behind_caption(material: Material) -> str:
    """What the table of the numbers behind the verdict shows."""
    column = name_of(material.plan.design.primary.measure.table)
    seeds = some(len(material.found.seeds), "seed")
    return f"What each verdict rests on: {UNIT} of {column}, {seeds}. Margin: {material.found.margin_words}."


def hyperparameter_caption(material: Material) -> str:
    """What the table of hyper-parameters shows."""
    tuned = "The peak learning rates are those that the sweep gave." if material.found.rates is not None else ""
    declared = listed(material.plan.declared)
    return f"Hyper-parameters of each arm. Compared: {declared}. {tuned}".strip()


def _level(material: Material) -> float:
    return 1 - material.found.share / material.found.n_comparisons


def _percent(share: float) -> str:
    return percent_level(share)


def _quoted(arm: str) -> str:
    return f'"{arm}"'
