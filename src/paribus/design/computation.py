"""Would two arms be the same computation? What of their specs reaches the numbers of a run.

A field can be written and reach nothing: a prefix mask under an objective that has no prefix, a
window wider than a row, a balance loss over one expert. Arms that differ in such fields alone are
one run under two names, so a plan refuses them. It is decided from the specs: every field is
brought to what is computed from it, and masks and relative positions are compared in the layouts
that the objective poses: of rows of `training.length`, then of rows as long as the text really
gives them, and of the items. Arms whose specs are the same are let pass: they are meant to be one
run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from paribus.corpus import TokenisedCorpus
from paribus.design.arms import run_table
from paribus.design.item_reach import n_items_that_reach
from paribus.design.quantities import PlannedArm
from paribus.design.seen_pairs import Reading, is_read_alike
from paribus.errors import SpecError, describe_first
from paribus.evaluate.tasks.run import PreparedTask
from paribus.masks import (
    DOCUMENT_RULES,
    PREFIX_RULES,
    Rule,
    SequenceLayout,
    Window,
    leaves,
    parse_rule,
)
from paribus.objectives import separates_documents
from paribus.objectives.permission import example_problem
from paribus.objectives.source_target import fit_span_plan, possible_splits
from paribus.record.file_names import TOKENIZER_FILE
from paribus.spec import Experts, RelativeBias, ResolvedArchitecture, Stack, resolve
from paribus.spec.architecture import LearnedPositions, NoBalance
from paribus.spec.conversation import encodes_turns
from paribus.spec.design import Design, leaves_of
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
from paribus.spec.run import Stage
from paribus.spec.stages import stage_architectures
from paribus.spec.training import BOOKKEEPING, SEEDS, Training
from paribus.spec.yardstick import OtherYardstick, ProbeYardstick, TaskYardstick
from paribus.train.parent import name_of_run
from paribus.train.schedule import learning_rate_at

T = TypeVar("T")
MAX_SPLITS = 32  # of a text that masks are compared at
ABSENT = "absent"
TEXT_FORMS = ("text", "conversations")  # whose rows may hold several documents


def require_different_computations(
    design: Design, arms: Sequence[PlannedArm], tasks: Mapping[str, PreparedTask] | None = None
) -> None:
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
        if not _have_same_rates(design, first, second):
            continue
        if _are_rows_alike(design, first, second, longest=False) or (
            _are_rows_alike(design, first, second, longest=True)
            and _are_items_alike(design, first, second, tasks)
        ):
            twins.append((first, second))
    problems = describe_first(twins, lambda pair: _describe_twins(design, *pair), "such pairs")
    if twins:
        raise SpecError(list(problems))


def _computed_fields(design: Design, arm: PlannedArm) -> list[Any]:
    """What is computed from each field of an arm; masks, relative positions and learning rates are
    compared apart.
    """
    run = arm.run
    weights = None if run.begin is None else (run.begin.weights, run.begin.tokenizer)
    reads_text_alone = _has_heads_alone(arm)
    result: list[Any] = [weights, run.rerun]
    for stage, architecture, text in zip(
        run.stages, stage_architectures(run), arm.texts, strict=True
    ):
        spec = resolve(architecture)
        result += [
            _text_fields(text),
            _architecture_fields(spec, reads_text_alone),
            _objective_fields(stage, spec),
            _training_fields(design, stage, is_last=stage is run.last),
        ]
        if _has_documents(stage) or _asks_head(stage):
            result += [separates_documents(spec), encodes_turns(spec)]
    return result


def _text_fields(text: TokenisedCorpus) -> list[Any]:
    """The tokens that are read and in which shares, however their sources are described."""
    shards = {name: own.sha256 for name, own in text.index.files.items() if name != TOKENIZER_FILE}
    weights = [source.weight for source in text.spec.sources]
    shares = [weight / sum(weights) for weight in weights]
    return [shards, shares, text.spec.form, text.spec.shuffled_targets]


def _has_heads_alone(arm: PlannedArm) -> bool:
    """Does every stage ask a head, which reads an encoder where there is one?"""
    return all(map(_asks_head, arm.run.stages))


def _asks_head(stage: Stage) -> bool:
    return isinstance(stage.objective, TextLabels | WordTags)


def _has_documents(stage: Stage) -> bool:
    """May a row hold several documents that a mask could keep apart?"""
    return stage.corpus.form in TEXT_FORMS and not _asks_head(stage)


def _architecture_fields(spec: ResolvedArchitecture, reads_text_alone: bool) -> dict[str, Any]:
    """Every field of an architecture but its masks; of one that heads alone are asked of, without
    what they do not read.
    """
    table = spec.model_dump(mode="json")
    if not isinstance(spec.stack.positions, LearnedPositions):
        del table["max_length"]  # no row is longer than those of training
    for name, stack in (("stack", spec.stack), ("encoder", spec.encoder)):
        if stack is not None:
            table[name] = _stack_fields(stack)
    if reads_text_alone:
        del table["head"]
        if spec.encoder is not None:
            del table["stack"]
    return table


def _stack_fields(stack: Stack) -> list[Any]:
    beside = stack.model_dump(exclude={"layers", "positions"})
    fields: list[Any] = [beside, _position_fields(stack)]
    for block in stack.layers:
        feed_forward = block.feed_forward
        if isinstance(feed_forward, Experts):
            feed_forward = _computed_experts(feed_forward)
        has_cross = block.cross is not None
        beside = block.model_dump(exclude={"mask", "cross", "feed_forward"})
        fields.append([has_cross, beside, feed_forward.model_dump()])
    return fields


def _position_fields(stack: Stack) -> Any:
    """Positions as they come out; the distances of a relative bias are compared in rows."""
    if isinstance(stack.positions, RelativeBias):
        return [stack.positions.kind, stack.positions.n_buckets]
    return stack.positions.model_dump()


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


def _are_rows_alike(design: Design, one: PlannedArm, other: PlannedArm, longest: bool) -> bool:
    """Do two arms read every row of their training alike, wherever what is scored depends on it?

    Rows are as long as they may be, or as long as the `longest` that the text really gives.
    """
    looks_inside = any(isinstance(measure, ProbeYardstick) for measure in _measures(design))
    stages = zip(
        one.run.stages,
        one.texts,
        stage_architectures(one.run),
        stage_architectures(other.run),
        strict=True,
    )
    for stage, text, first, second in stages:
        left, right = resolve(first), resolve(second)
        counts_all = looks_inside or _counts_every_token(left)
        rows = _readings(stage, left, text if longest and not counts_all else None, counts_all)
        for reading in rows:
            if not is_read_alike(reading, left, right, _asks_head(stage)):
                return False
    return True


def _measures(design: Design) -> tuple[OtherYardstick, ...]:
    return (design.primary.measure, *design.others)


def _are_items_alike(
    design: Design, one: PlannedArm, other: PlannedArm, tasks: Mapping[str, PreparedTask] | None
) -> bool:
    """Do two arms read the items of every yardstick alike? Not of a task whose items are not made,
    as on the rungs of a ladder.
    """
    for measure in _measures(design):
        if isinstance(measure, ProbeYardstick):
            return False
        if tasks is None and isinstance(measure, TaskYardstick):
            return False
        if n_items_that_reach(measure, one, other, tasks or {}):
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


def _readings(
    stage: Stage, spec: ResolvedArchitecture, text: TokenisedCorpus | None, counts_all: bool
) -> Iterator[Reading]:
    """Every way in which a row of a stage lies before a model; without a text, of any text."""
    length = stage.training.length
    if _asks_head(stage):
        if text is not None:
            length = min(length, text.longest_source + 1)
        yield Reading(SequenceLayout(length, length), None, np.ones(length, bool))
        return
    for component in components_of(stage.objective):
        for n_tokens, split in _row_shapes(component.objective, stage, spec, text):
            problem = example_problem(component, spec, n_tokens, split)
            reading = Reading.of(problem, counts_all)
            if problem.inputs.layout.documents_BT is None or not _has_documents(stage):
                yield _as_one_document(reading)
            else:
                yield from _with_documents(reading, component, stage, text)


def _row_shapes(
    objective: SimpleObjective,
    stage: Stage,
    spec: ResolvedArchitecture,
    text: TokenisedCorpus | None,
) -> Iterator[tuple[int, int | None]]:
    """The tokens of rows, and where they are split in source and target."""
    length = stage.training.length
    match objective:
        case PrefixLM() | LastToken():
            for split in _spread(possible_splits(objective, length)):
                yield length, split
        case Seq2Seq() if (
            text is not None and not encodes_turns(spec) and (pairs := text.longest_pairs(length))
        ):
            for n_source, n_target in _spread(pairs):
                yield n_source + n_target, n_source
        case Seq2Seq():
            for split in sorted({1, length // 4 or 1, length // 2, 3 * length // 4, length - 1}):
                yield length, split
        case _:
            yield length, None


def _spread(values: Sequence[T]) -> Sequence[T]:
    """Some of many values, the first and the last among them."""
    some = values[:: -(-len(values) // MAX_SPLITS)]
    return [*some, values[-1]]


def _as_one_document(reading: Reading) -> Reading:
    source = reading.source
    if source is not None:
        source = replace(source, documents=None)
    return replace(reading, layout=replace(reading.layout, documents=None), source=source)


def _with_documents(
    reading: Reading, component: MixtureComponent, stage: Stage, text: TokenisedCorpus | None
) -> Iterator[Reading]:
    """A row that may hold several documents: of one and of three; of running text, of documents as
    long as the longest, which begin at several places.
    """
    layout, source = reading.layout, reading.source
    is_cut = isinstance(component.objective, SpanCorruption)  # so that documents are no stretches
    if text is None or is_cut or stage.corpus.form != "text":
        for n in (1, 3):
            side = None if source is None else _in_parts(source, n)
            yield Reading(_in_parts(layout, n), side, reading.is_scored)
        return
    n_source = layout.prefix if source is None else source.length
    n_all = layout.length if source is None else source.length + layout.length
    n_own = text.longest_document + (component.mode is not None)
    begins = (0, 1 - n_all, 1 - n_source, -n_source, -1 - n_source, n_own // 2 - n_source)
    for begin in dict.fromkeys(begin % n_own for begin in begins):
        documents = (np.arange(n_all) + begin) // n_own
        if source is None:
            own = replace(layout, documents=documents)
            yield Reading(own, None, reading.is_scored, restarts=True)
            continue
        shifted = np.concatenate([documents[n_source : n_source + 1], documents[n_source:-1]])
        yield Reading(
            replace(layout, documents=shifted),
            replace(source, documents=documents[:n_source]),
            reading.is_scored,
            restarts=True,
        )


def _in_parts(layout: SequenceLayout, n_documents: int) -> SequenceLayout:
    """A layout of so many documents of one length."""
    return replace(layout, documents=n_documents * np.arange(layout.length) // layout.length)


class _LongestText(NamedTuple):
    """The longest text of a stage that a model reads as one: what it is called, and its tokens."""

    name: str
    n_tokens: int


def _longest_text(
    stage: Stage, spec: ResolvedArchitecture, text: TokenisedCorpus, is_encoder: bool
) -> _LongestText:
    """What the stack, or the encoder, reads: no longer than a row, which is as long as it may be
    where documents follow each other.
    """
    length = stage.training.length
    if _asks_head(stage):
        return _LongestText("text", min(length, text.longest_source + 1))
    if stage.corpus.form != "text":
        pairs = [] if encodes_turns(spec) else text.longest_pairs(length)
        if is_encoder:
            return _LongestText("source", max((pair[0] for pair in pairs), default=length))
        if spec.encoder is not None:
            return _LongestText("target", max((pair[1] for pair in pairs), default=length))
        return _LongestText("pair", max(map(sum, pairs), default=length))
    if separates_documents(spec):
        return _LongestText("document", min(length, text.longest_document))
    return _LongestText("row", length)


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
    place = len(arm.run.stages) - 1
    number = [part for part in path.split(".") if part.isdigit()]
    if path.startswith("stages.") and number:
        place = int(number[0])
    stage = arm.run.stages[place]
    kind, length = stage.objective.kind, stage.training.length
    spec, is_encoder = resolve(arm.run.last_architecture), "encoder" in path.split(".")
    longest = _longest_text(stage, spec, arm.texts[place], is_encoder)
    if last in ("mask", "cross"):
        return _mask_reason(path, values, arm, stage, longest)
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
    if ".positions." in path and longest.n_tokens < length:
        return (
            f"the longest {longest.name} of its training has {longest.n_tokens} tokens, whose"
            f" distances do not show it; use longer {longest.name}s"
        )
    if ".positions." in path:
        return f"no distance in rows of {length} tokens shows it; use a longer training.length"
    return "it is the same model; use a value that computes something else"


def _mask_reason(
    path: str, values: tuple[Any, Any], arm: PlannedArm, stage: Stage, longest: _LongestText
) -> str:
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
    for reading in _readings(stage, spec, None, False):
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
    if widths and longest.n_tokens < length and min(widths) >= longest.n_tokens - 1:
        return (
            f"the longest {longest.name} of its training has {longest.n_tokens} tokens, so each"
            f" shows the same pairs; use a window below {longest.n_tokens - 1}, or"
            f" {longest.name}s of more than {min(widths) + 1} tokens"
        )
    if widths and min(widths) >= length - 1:  # the last token of a row may be scored by nobody
        return (
            f"a row has {length} tokens, so each shows the same pairs; use a window below"
            f" {length - 1}, or training.length above {min(widths) + 1}"
        )
    if widths and rules & PREFIX_RULES and len(spec.stack.layers) > 1:
        window = f"window({min(widths)})"
        return (
            f"{window} shows nothing that lies ahead, also within a prefix, so each shows the same"
            f" pairs; use ({window} | reverse) in place of {window} where a prefix is read in both"
            " directions"
        )
    more = ", or more architecture.n_layers" if len(spec.stack.layers) == 1 else ""
    return f"each shows the same pairs to what is scored; use masks that differ there{more}"
