"""Would two arms be the same computation? What of their specs reaches the numbers of a run.

A field can be written and reach nothing: a prefix mask under an objective that has no prefix, a
window wider than a row, a balance loss over one expert. Arms that differ in such fields alone are
one run under two names, so a plan refuses them. It is decided from the specs: every field is
brought to what is computed from it, and masks are compared pair by pair, as far as what is scored
depends on them, in the layouts that the objective poses. Arms whose specs are the same are let
pass: they are meant to be one run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.design.arms import run_table
from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError, describe_first
from paribus.masks import (
    DOCUMENT_RULES,
    PREFIX_RULES,
    Rule,
    SequenceLayout,
    Window,
    dense_mask,
    leaves,
    parse_rule,
    rule_at_head,
)
from paribus.masks.dense import visible_rows
from paribus.model.positions import relative_buckets
from paribus.objectives import separates_documents
from paribus.objectives.permission import example_problem
from paribus.objectives.source_target import fit_span_plan, possible_splits
from paribus.spec import Experts, RelativeBias, ResolvedArchitecture, Stack, resolve
from paribus.spec.architecture import LearnedPositions, NoBalance
from paribus.spec.conversation import encodes_turns
from paribus.spec.design import Design, control_arm, leaves_of
from paribus.spec.objectives import (
    Continuation,
    LastToken,
    MaskedLM,
    MixtureComponent,
    Preference,
    PrefixLM,
    Seq2Seq,
    SimpleObjective,
    SpanCorruption,
    TextLabels,
    WordTags,
    components_of,
)
from paribus.spec.resolved import is_bidirectional
from paribus.spec.run import Stage
from paribus.spec.stages import stage_architectures
from paribus.spec.training import Training
from paribus.spec.yardstick import ProbeYardstick
from paribus.train.parent import name_of_run
from paribus.train.schedule import learning_rate_at

BoolArray = NDArray[np.bool_]
MAX_SPLITS = 32  # of a text that masks are compared at
ROWS_AT_ONCE = 512  # rows of two masks that are compared at once
ABSENT = "absent"
# of a training: when something is written down or kept, and how a batch is worked through
BOOKKEEPING = (
    "row_every",
    "valid_every",
    "valid_batches",
    "checkpoint_every",
    "keep_last",
    "n_micro_batches",
    "deterministic",
)
SEEDS = ("seed", "data_seed")
TEXT_FORMS = ("text", "conversations")  # whose rows may hold several documents


def require_different_computations(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError for each two arms that are written differently and computed alike, with the field
    that would make them differ.
    """
    tables = [_computed_fields(design, arm) for arm in arms]
    names = [name_of_run(arm.run, arm.texts) for arm in arms]
    twins: list[tuple[PlannedArm, PlannedArm]] = []
    for one, other in itertools.combinations(range(len(arms)), 2):
        if names[one] == names[other] or tables[one] != tables[other]:
            continue
        first, second = arms[one], arms[other]
        if _have_same_rates(design, first, second) and _see_same_pairs(design, first, second):
            twins.append((first, second))
    problems = describe_first(twins, lambda pair: _describe_twins(design, *pair), "such pairs")
    if twins:
        raise SpecError(list(problems))


def require_another_control(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where the control is the run of the baseline, under another name."""
    name = control_arm(design)
    runs = {arm.name: name_of_run(arm.run, arm.texts) for arm in arms}
    if name is not None and runs[name] == runs[design.baseline]:
        raise SpecError(
            f"control is {name!r}, which is the same run as the baseline {design.baseline!r}, so it"
            " cannot come out worse; let the arm differ in something that must do harm"
        )


def _computed_fields(design: Design, arm: PlannedArm) -> list[Any]:
    """What is computed from each field of an arm; masks and learning rates are compared apart."""
    run = arm.run
    weights = None if run.begin is None else (run.begin.weights, run.begin.tokenizer)
    reads_text_alone = _has_heads_alone(arm)
    result: list[Any] = [weights, run.rerun]
    for stage, architecture, text in zip(
        run.stages, stage_architectures(run), arm.texts, strict=True
    ):
        spec, length = resolve(architecture), stage.training.length
        result += [
            text.fingerprint,
            _architecture_fields(spec, length, reads_text_alone),
            _objective_fields(stage, spec),
            _training_fields(design, stage, is_last=stage is run.last),
        ]
        if _has_documents(stage) or _asks_head(stage):
            result += [separates_documents(spec), encodes_turns(spec)]
    return result


def _has_heads_alone(arm: PlannedArm) -> bool:
    """Does every stage ask a head, which reads an encoder where there is one?"""
    return all(map(_asks_head, arm.run.stages))


def _asks_head(stage: Stage) -> bool:
    return isinstance(stage.objective, TextLabels | WordTags)


def _has_documents(stage: Stage) -> bool:
    """May a row hold several documents that a mask could keep apart?"""
    return stage.corpus.form in TEXT_FORMS and not _asks_head(stage)


def _architecture_fields(
    spec: ResolvedArchitecture, length: int, reads_text_alone: bool
) -> dict[str, Any]:
    """Every field of an architecture but its masks; of one that heads alone are asked of, without
    what they do not read.
    """
    table = spec.model_dump(mode="json")
    if not isinstance(spec.stack.positions, LearnedPositions):
        del table["max_length"]  # no row is longer than those of training
    for name, stack in (("stack", spec.stack), ("encoder", spec.encoder)):
        if stack is not None:
            table[name] = _stack_fields(stack, length)
    if reads_text_alone:
        del table["head"]
        if spec.encoder is not None:
            del table["stack"]
    return table


def _stack_fields(stack: Stack, length: int) -> list[Any]:
    beside = stack.model_dump(exclude={"layers", "positions"})
    fields: list[Any] = [beside, _position_fields(stack, length)]
    for block in stack.layers:
        feed_forward = block.feed_forward
        if isinstance(feed_forward, Experts):
            feed_forward = _computed_experts(feed_forward)
        has_cross = block.cross is not None
        beside = block.model_dump(exclude={"mask", "cross", "feed_forward"})
        fields.append([has_cross, beside, feed_forward.model_dump()])
    return fields


def _position_fields(stack: Stack, length: int) -> Any:
    """Positions as they come out: of a relative bias, the bucket of each distance in a row."""
    if not isinstance(stack.positions, RelativeBias):
        return stack.positions.model_dump()
    distances = torch.arange(1 - length, length)
    buckets: Tensor = relative_buckets(distances, stack.positions, is_bidirectional(stack))
    return [stack.positions.n_buckets, buckets.tolist()]


def _computed_experts(experts: Experts) -> Experts:
    """Experts with those fields of the router at rest that choose nothing."""
    router, balance = experts.router, experts.balance
    uses_all = experts.n_active == experts.n_experts
    if uses_all or router.n_active_groups == router.n_groups:
        router = router.model_copy(update={"n_groups": 1, "n_active_groups": 1})
    if uses_all:
        router = router.model_copy(update={"bias_rate": None})
    if uses_all and (router.scores == "softmax" or (experts.n_experts == 1 and router.normalise)):
        # gates of all experts sum to 1 as they are, and so does every share of choices
        router = router.model_copy(update={"scores": "softmax", "normalise": True})
        balance = NoBalance()
    return experts.model_copy(update={"router": router, "balance": balance})


def _objective_fields(stage: Stage, spec: ResolvedArchitecture) -> list[Any]:
    """What a stage asks: each component with its share, as what it comes to in a row."""
    objective = stage.objective
    if isinstance(objective, Preference):
        return [objective.model_dump()]
    components = components_of(objective)
    total = sum(component.weight for component in components)
    fields: list[Any] = []
    for component in components:
        asked = _component_fields(component, stage.training.length, spec.encoder is not None)
        fields.append([component.weight / total, component.mode, asked])
    return fields


def _component_fields(component: MixtureComponent, length: int, has_encoder: bool) -> list[Any]:
    objective = component.objective
    match objective:
        case PrefixLM() | LastToken():
            return [objective.kind, possible_splits(objective, length)]
        case MaskedLM(rate=rate, masked=masked, replaced=replaced):
            return [objective.kind, max(round(length * rate), 1), masked, replaced]
        case SpanCorruption():
            has_mode = component.mode is not None
            return [objective.kind, fit_span_plan(objective, length, not has_encoder, has_mode)]
        case Continuation(rate=rate):
            room = 1 if not has_encoder and component.mode is not None else 0
            return [objective.kind, round((length - room) * rate)]
        case _:
            return [objective.model_dump()]


def _training_fields(design: Design, stage: Stage, *, is_last: bool) -> dict[str, Any]:
    """A training without what is written down of it, without seeds, which the design sets, and
    without the rate where that is tuned.
    """
    table = stage.training.model_dump(mode="json")
    for name in (*BOOKKEEPING, *SEEDS, "schedule", "warmup"):
        del table[name]
    if is_last and design.tune is not None:
        del table["optimizer"]["rate"]
    return table


def _have_same_rates(design: Design, one: PlannedArm, other: PlannedArm) -> bool:
    """Have two arms the same learning rate at every step, as a share of the highest?"""
    for first, second in zip(one.run.stages, other.run.stages, strict=True):
        if not _have_same_schedule(first.training, second.training):
            return False
    return True


def _have_same_schedule(one: Training, other: Training) -> bool:
    if (one.schedule, one.warmup) == (other.schedule, other.warmup):
        return True
    for step in range(one.n_steps):
        first = learning_rate_at(step, one) / one.optimizer.rate
        second = learning_rate_at(step, other) / other.optimizer.rate
        if abs(first - second) > 1e-12:
            return False
    return True


@dataclass(frozen=True, eq=False)
class _Reading:
    """How a row lies before a model: its layout, that of its source, and which positions count."""

    layout: SequenceLayout
    source: SequenceLayout | None
    is_scored: BoolArray


class _SeenPositions(NamedTuple):
    """What scored positions depend on, in the lowest layer and in the source."""

    own: BoolArray
    source: BoolArray | None


def _see_same_pairs(design: Design, one: PlannedArm, other: PlannedArm) -> bool:
    """Do the masks of two arms show the same pairs, wherever what is scored depends on them?"""
    measures = (design.primary.measure, *design.others)
    looks_inside = any(isinstance(measure, ProbeYardstick) for measure in measures)
    stages = zip(
        one.run.stages, stage_architectures(one.run), stage_architectures(other.run), strict=True
    )
    for stage, first, second in stages:
        left, right = resolve(first), resolve(second)
        counts_all = looks_inside or _counts_every_token(left)
        for reading in _readings(stage, left, counts_all):
            if not _is_read_alike(reading, left, right, _asks_head(stage)):
                return False
    return True


def _counts_every_token(spec: ResolvedArchitecture) -> bool:
    """Does each token move the weights, scored or not? A router evens out the load of all."""
    for stack in spec.stacks:
        for block in stack.layers:
            experts = block.feed_forward
            if isinstance(experts, Experts):
                experts = _computed_experts(experts)
                if experts.router.bias_rate or not isinstance(experts.balance, NoBalance):
                    return True
    return False


def _readings(stage: Stage, spec: ResolvedArchitecture, counts_all: bool) -> Iterator[_Reading]:
    """Every way in which a row of a stage lies before a model."""
    length = stage.training.length
    if _asks_head(stage):
        yield _Reading(SequenceLayout(length, length), None, np.ones(length, bool))
        return
    for component in components_of(stage.objective):
        for split in _splits(component.objective, length):
            problem = example_problem(component, spec, length, split)
            inputs = problem.inputs
            is_scored = np.full(inputs.layout.length, counts_all)
            is_scored[problem.scored_positions_BM[0][problem.weights_BM[0] > 0].numpy()] = True
            source = None
            if inputs.source is not None:
                source = _with_documents(inputs.source.layout, stage)
            yield _Reading(_with_documents(inputs.layout, stage), source, is_scored)


def _splits(objective: SimpleObjective, length: int) -> Sequence[int | None]:
    match objective:
        case PrefixLM() | LastToken():
            splits = possible_splits(objective, length)
            return splits[:: -(-len(splits) // MAX_SPLITS)]
        case Seq2Seq():
            return sorted({1, length // 4 or 1, length // 2, 3 * length // 4, length - 1})
        case _:
            return [None]


def _with_documents(layout: BatchLayout, stage: Stage) -> SequenceLayout:
    """The layout of a row; where it may hold several documents, of three."""
    length, prefix = layout.length, layout.prefix
    if isinstance(prefix, Tensor):
        prefix = int(prefix[0])
    documents = None
    if layout.documents_BT is not None and _has_documents(stage):
        documents = 3 * np.arange(length) // length
    return SequenceLayout(length, prefix, documents)


def _is_read_alike(
    reading: _Reading, one: ResolvedArchitecture, other: ResolvedArchitecture, asks_head: bool
) -> bool:
    n_heads = one.stack.layers[0].attention.n_heads
    if asks_head and one.encoder is not None and other.encoder is not None:
        stacks = (one.encoder, other.encoder)
        return _seen_positions(*stacks, n_heads, reading) is not None
    seen = _seen_positions(one.stack, other.stack, n_heads, reading)
    if seen is None:
        return False
    if seen.source is None or one.encoder is None or other.encoder is None:
        return True
    assert reading.source is not None
    encoded = _Reading(reading.source, None, seen.source)
    return _seen_positions(one.encoder, other.encoder, n_heads, encoded) is not None


def _seen_positions(
    one: Stack, other: Stack, n_heads: int, reading: _Reading
) -> _SeenPositions | None:
    """What scored positions depend on through two stacks, from the top layer down; None where
    some position that counts sees other keys in one than in the other.
    """
    needed, source_needed = reading.is_scored, None
    if reading.source is not None:
        source_needed = np.zeros(reading.source.length, bool)
    for first, second in zip(reversed(one.layers), reversed(other.layers), strict=True):
        if first.cross is not None and second.cross is not None and reading.source is not None:
            keys = _common_keys(
                first.cross, second.cross, n_heads, reading.layout, needed, reading.source
            )
            if keys is None:
                return None
            assert source_needed is not None
            source_needed = source_needed | keys
        keys = _common_keys(first.mask, second.mask, n_heads, reading.layout, needed)
        if keys is None:
            return None
        needed = needed | keys
    return _SeenPositions(needed, source_needed)


def _common_keys(
    one: Rule,
    other: Rule,
    n_heads: int,
    layout: SequenceLayout,
    needed: BoolArray,
    source: SequenceLayout | None = None,
) -> BoolArray | None:
    """The keys that the needed queries see under both rules; None where they see others."""
    n_keys = layout.length if source is None else source.length
    keys = np.zeros(n_keys, bool)
    pairs: dict[tuple[Rule, Rule], None] = {}
    for head in range(n_heads):
        pairs[rule_at_head(one, head, n_heads), rule_at_head(other, head, n_heads)] = None
    for first, second in pairs:
        for start in range(0, layout.length, ROWS_AT_ONCE):
            where = slice(start, min(start + ROWS_AT_ONCE, layout.length))
            rows = needed[where]
            if not rows.any():
                continue
            seen = _visible(first, layout, where, source)[rows]
            if first != second and not np.array_equal(
                seen, _visible(second, layout, where, source)[rows]
            ):
                return None
            keys |= seen.any(0)
    return keys


def _visible(
    rule: Rule, layout: SequenceLayout, where: slice, source: SequenceLayout | None
) -> BoolArray:
    if source is None:
        return visible_rows(rule, layout, where)
    return dense_mask(rule, layout, source)[where]


def _describe_twins(design: Design, one: PlannedArm, other: PlannedArm) -> str:
    """Two arms that are one computation: where they differ, why it reaches nothing, what would."""
    numbers_stages = len(one.run.stages) > 1
    first = leaves_of(run_table(one.run, numbers_stages))
    second = leaves_of(run_table(other.run, numbers_stages))
    texts: list[str] = []
    for path in dict.fromkeys((*first, *second)):
        values = first.get(path, ABSENT), second.get(path, ABSENT)
        if values[0] != values[1]:
            texts.append(f"{path} is {values[0]} and {values[1]}, but {_reason(path, values, one)}")
    return f"arms {one.name!r} and {other.name!r} would be the same computation: {'; '.join(texts)}"


def _reason(path: str, values: tuple[Any, Any], arm: PlannedArm) -> str:
    """Why two values of a field come to the same, and which field would make them differ."""
    *_, last = path.split(".")
    stage = arm.run.last
    number = [part for part in path.split(".") if part.isdigit()]
    if path.startswith("stages.") and number:
        stage = arm.run.stages[int(number[0])]
    kind, length = stage.objective.kind, stage.training.length
    if last in ("mask", "cross"):
        return _mask_reason(path, values, arm, stage)
    if last in SEEDS:
        return "the seeds of the design set it for every arm; use seeds or variance"
    if last in BOOKKEEPING:
        return "it changes no weight; use another field of training"
    if last == "rate":
        return "tune finds the rate of every arm on one grid; use tune = false"
    if last == "max_length":
        return f"no row is longer than training.length {length}; use training.length"
    if "schedule" in path or last == "warmup":
        return "the rate is the same at every step; use a schedule that differs within n_steps"
    if ".objective." in f".{path}":
        return (
            f"objective {kind!r} asks the same of rows of {length} tokens; use other values of it"
        )
    if ".corpus." in f".{path}":
        return "the same text is read in the same shares; use other sources"
    if last == "kind" and path.startswith("stages."):
        return "nothing depends on the name of a stage; use another field of the stage"
    if ".feed_forward." in path:
        return (
            "it chooses nothing where every token uses all experts or all groups; use a smaller"
            " feed_forward.n_active"
        )
    if ".positions." in path:
        return f"no distance in rows of {length} tokens shows it; use a longer training.length"
    return "it is the same model; use a value that computes something else"


def _mask_reason(path: str, values: tuple[Any, Any], arm: PlannedArm, stage: Stage) -> str:
    kind, length = stage.objective.kind, stage.training.length
    spec = resolve(arm.run.last_architecture)
    is_encoder = "encoder" in path.split(".")
    if _asks_head(stage) and spec.encoder is not None and not is_encoder:
        return f"objective {kind!r} reads the encoder alone; use architecture.encoder.mask"
    rules: set[Rule] = set()
    for value in values:
        if isinstance(value, str) and value != ABSENT:
            rules |= leaves(parse_rule(value))
    prefixes = set[float]()
    for reading in _readings(stage, spec, False):
        read = reading.source if is_encoder and reading.source is not None else reading.layout
        prefixes.add(read.prefix / read.length)
    if rules & PREFIX_RULES and prefixes == {0.0}:
        return (
            f"objective {kind!r} has no prefix, so each shows the same pairs; use objective ="
            " 'prefix', whose source is the prefix, or masks that differ without one"
        )
    if rules & PREFIX_RULES and prefixes == {1.0}:
        return (
            f"under objective {kind!r} the whole text that it reads is the prefix, so each shows"
            " the same pairs; use masks that differ within a prefix, or another objective"
        )
    if rules & DOCUMENT_RULES and not _has_documents(stage):
        return (
            f"under objective {kind!r} each row is one document, so each shows the same pairs; use"
            " corpus.sources of running text, or masks that differ within a document"
        )
    widths = [rule.n for rule in rules if isinstance(rule, Window)]
    if widths and min(widths) >= length - 1:  # the last token of a row may be scored by nobody
        return (
            f"a row has {length} tokens, so each shows the same pairs; use a window below"
            f" {length - 1}, or training.length above {min(widths) + 1}"
        )
    return (
        "each shows the same pairs to what is scored; use masks that differ there, or more"
        " architecture.n_layers"
    )
