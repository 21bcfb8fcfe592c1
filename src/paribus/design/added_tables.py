"""What only one of two arms has: a table, or the fields of its own kind.

An encoder, a stage more, another such table or another kind is one factor as it comes by default.
What it changes besides could decide the comparison alone: an encoder whose mask hides most of its
source, a stage with another batch, experts whose gates are scaled to nothing. Each such field
counts by itself. What has no default must be written, so it does not count, and is shown.

A stage is compared with the other arm's of its kind, or else with the one before it. Its text, its
objective and its steps make it another stage. Everything else of it is a recipe, and is expected to
be the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic.fields import FieldInfo

from paribus.design.arms import Arm
from paribus.design.trials import ABSENT, added_entry, differing_fields, entry_partners, entry_paths
from paribus.errors import SpecError
from paribus.masks import Nothing, Rule, SequenceLayout, mean_picture, telling_length
from paribus.spec.architecture import Architecture, Encoder
from paribus.spec.base import Spec
from paribus.spec.begin_reading import DERIVED_SIZES
from paribus.spec.corpus import gives_pairs
from paribus.spec.design import Design, Table, control_arm, declared_paths
from paribus.spec.objectives import Mixture, MixtureComponent, Preference
from paribus.spec.reading import load, presets
from paribus.spec.resolved import resolve
from paribus.spec.stages import Stage, stage_architectures
from paribus.spec.training import BOOKKEEPING, SEEDS, Training

ENCODER_PATH = "architecture.encoder"
STAGE_TABLE = re.compile(r"stages\.(\d+)")
STAGE_TRAINING = re.compile(r"stages\.(\d+)\.training\.(.+)")
# of a stage's training, what makes it another stage, or moves no weight
OWN_OF_STAGE = ("n_steps", "warmup", *SEEDS, *BOOKKEEPING)
KIND = ".kind"
FLOOR = "training.schedule.floor"
LEAST_LENGTH = 32  # of a picture, in positions, if the rows are as long
# sizes that follow from others or are written for each design; pairs are compared in size anyway
OWN_SIZES = ("architecture.feed_forward.d_expert", "corpus.tokenizer.n_vocab")


@dataclass(frozen=True)
class OwnField:
    """A field that only one of two arms has, and that is not as it comes by default."""

    path: str
    value: Any
    arm: str
    is_required: bool  # it has no default
    default: Any = None
    is_published: bool = False  # the arm's preset has it so

    @property
    def counts(self) -> bool:
        """Does it count by itself? What must be written does not, nor what the arm's preset says,
        nor a size, nor the share of a component, which stands beside its name, nor a schedule that
        comes down to nothing.
        """
        is_share = ".components." in self.path and self.path.endswith(".weight")
        comes_to_nothing = self.path.endswith(FLOOR) and self.value == 0
        is_given = self.is_required or self.is_published or is_share or comes_to_nothing
        return not (is_given or self.path.endswith(OWN_SIZES))

    @property
    def usual(self) -> str:
        """How the arm would have it as it comes by default, in words."""
        if self.default is None:
            return f"no {self.path} in {self.arm}"
        return f"{self.path} = {json.dumps(self.default)} in {self.arm}"


def own_fields(first: Arm, second: Arm) -> tuple[OwnField, ...]:
    """Of two arms the fields that only one of their kinds has, or that lie in a table that only one
    of them has, as far as they are not at their defaults; encoders and stages are counted by
    `added_factors`.
    """
    shared, dependents = differing_fields(first.table, second.table)
    lists = [path for path, (value, _) in shared.items() if isinstance(value, list)]
    fields: dict[str, OwnField] = {}
    for owner in dict.fromkeys((*dependents.values(), *lists)):
        path = owner.removesuffix(KIND)
        if path == ENCODER_PATH or STAGE_TABLE.fullmatch(path):
            continue
        for arm, other in ((first, second), (second, first)):
            if arm.run.begin is not None and path.endswith("corpus.tokenizer"):
                continue  # that of its checkpoint, which is counted as `begin.tokenizer`
            for field in _departures(arm.name, path, _spec_at(arm, path), _spec_at(other, path)):
                is_published = _published_value(arm, field.path) == field.value
                fields.setdefault(field.path, replace(field, is_published=is_published))
    return tuple(fields.values())


def recorded_fields(arm: str, path: str, own: Any, other: Any) -> Iterator[OwnField]:
    """Of what a record of one arm has at a path, the fields that only its kinds have beside what
    the other arm's record has there, as far as they are not at their defaults. No record says on
    which preset a model stands: a table that any preset has as it is, is published.
    """
    for field in _departures(arm, path, own, other):
        if not field.path.startswith((f"{ENCODER_PATH}.", "corpus.tokenizer")):
            is_model = isinstance(own, Architecture)
            yield replace(field, is_published=is_model and _is_of_preset(own, field.path))
    if isinstance(own, Architecture):
        if other.encoder is not None:
            yield from _departures(arm, ENCODER_PATH, own.encoder, other.encoder)
        elif own.encoder is not None:
            fields = [*_encoder_fields(own, other)]
            if not sees_alike(own, other, own.max_length, has_documents=True):
                fields.append("mask")
            for name in fields:
                yield OwnField(
                    f"{ENCODER_PATH}.{name}",
                    _plain(getattr(own.encoder, name)),
                    arm,
                    is_required=False,
                )


def _is_of_preset(architecture: Architecture, path: str) -> bool:
    """Is the table of a field as any preset has it?"""
    names = path.split(".")[1:-1]
    models = [architecture, *[load(preset) for preset in presets()]]
    tables: list[Any] = []
    for model in models:
        inner: Any = model
        for name in names:
            inner = getattr(inner, name, None)
        tables.append(inner)
    return tables[0] in tables[1:]


def _published_value(arm: Arm, path: str) -> Any:
    """What the preset of an arm has at a path of the architecture; ABSENT where it has nothing,
    or is a file of somebody's own.
    """
    place, _, inner = path.partition(".")
    if arm.preset not in presets() or place != "architecture":
        return ABSENT
    value: Any = load(arm.preset)
    for name in inner.split("."):
        value = getattr(value, name, ABSENT)
    return _plain(value)


def _departures(arm: str, path: str, own: Any, other: Any) -> Iterator[OwnField]:
    """The departures of what an arm has at a path: all fields of it if the other has nothing there,
    those of its kind alone if the other is of another kind, and those that both kinds have and the
    written form of one leaves out; those of what lies inside where both are of one kind.
    """
    if isinstance(own, tuple):
        if isinstance(other, tuple):
            yield from _entry_departures(arm, path, own, other)
        return
    if not isinstance(own, Spec):
        return
    if type(own) is type(other):
        for name in type(own).model_fields:
            yield from _departures(arm, f"{path}.{name}", getattr(own, name), getattr(other, name))
        return
    if isinstance(other, Mixture) and own in [one.objective for one in other.components]:
        return  # it is one of the components
    if isinstance(own, Mixture) and isinstance(other, Spec):
        yield OwnField(f"{path}.components", _plain(own.components), arm, is_required=True)
        yield from _mixture_departures(arm, f"{path}.components", own, other)
        return
    shared = type(other).model_fields if isinstance(other, Spec) else {}
    written = own.model_dump(mode="json").keys() ^ _written_fields(other)
    for name, field in type(own).model_fields.items():
        value = getattr(own, name)
        if name == "kind" or (name in shared and value == getattr(other, name)):
            continue
        if name not in shared or name in written:
            yield from _field_departures(arm, f"{path}.{name}", value, field)


def _written_fields(value: Any) -> set[str]:
    return set(value.model_dump(mode="json")) if isinstance(value, Spec) else set()


def _entry_departures(
    arm: str, path: str, own: tuple[Any, ...], other: tuple[Any, ...]
) -> Iterator[OwnField]:
    """The departures of the entries of a list, each beside the other arm's that stands for it; of a
    component that only this arm has, its mode and what its objective is.
    """
    for place, beside in entry_partners(_plain_entries(own), _plain_entries(other)).items():
        entry = own[place]
        if beside is not None:
            yield from _departures(arm, f"{path}.{place}", entry, other[beside])
        elif isinstance(entry, MixtureComponent):
            yield from _component_departures(arm, f"{path}.{place}", entry)


def _mixture_departures(arm: str, path: str, mixture: Mixture, simple: Any) -> Iterator[OwnField]:
    """The departures of the components of a mixture, one of which may be the other arm's objective
    itself.
    """
    objectives = [component.objective for component in mixture.components]
    common = objectives.index(simple) if simple in objectives else None
    for place, component in enumerate(mixture.components):
        for field in _component_departures(arm, f"{path}.{place}", component):
            if place != common or field.path.endswith(".mode"):
                yield field


def _component_departures(arm: str, path: str, component: MixtureComponent) -> Iterator[OwnField]:
    """The departures of a component that only one arm has: its mode, and what its objective is."""
    mode = MixtureComponent.model_fields["mode"]
    yield from _field_departures(arm, f"{path}.mode", component.mode, mode)
    yield from _departures(arm, f"{path}.objective", component.objective, None)


def _plain_entries(entries: tuple[Any, ...]) -> list[Any]:
    return [one.model_dump(mode="json") if isinstance(one, Spec) else one for one in entries]


def _field_departures(arm: str, path: str, value: Any, field: FieldInfo) -> Iterator[OwnField]:
    """A field that is not at its default, and what in it is not."""
    is_required = field.is_required()
    default = None if is_required else field.get_default(call_default_factory=True)
    if not is_required and value == default:
        return
    if is_required or type(value) is not type(default) or not isinstance(value, Spec):
        yield OwnField(path, _plain(value), arm, is_required, _plain(default))
    entries = enumerate(value) if isinstance(value, tuple) else [("", value)]
    for place, entry in entries:
        if not isinstance(entry, Spec):
            continue
        inside = f"{path}.{place}" if place != "" else path
        for name, inner in type(entry).model_fields.items():
            if name != "kind":
                yield from _field_departures(arm, f"{inside}.{name}", getattr(entry, name), inner)


def _plain(value: Any) -> Any:
    """A value as a person would write it in short: a kind by its name."""
    if isinstance(value, Spec):
        return getattr(value, "kind", "a table")
    if isinstance(value, tuple):
        return [_plain(getattr(one, "objective", one)) for one in value]
    return value


def added_factors(path: str, arm: Arm, other: Arm) -> tuple[str, ...]:
    """The fields of a table that only `arm` has, in which it departs from its defaults, and from
    what stands for them elsewhere in either arm.
    """
    stage = STAGE_TABLE.fullmatch(path)
    if path == ENCODER_PATH:
        fields = [*_encoder_fields(arm.run.architecture, other.run.architecture)]
        if not _encoder_sees_alike(arm, other):
            fields.append("mask")
    elif stage is not None:
        architectures = stage_architectures(arm.run)
        fields = stage_fields(arm.run.stages, architectures, int(stage[1]), other.run.stages)
    else:
        table = _spec_at(arm, path)
        fields = _changed_fields(table) if isinstance(table, Spec) else ()
    return tuple([f"{path}.{field}" for field in fields])


def added_components(path: str, arm: Arm, other: Arm) -> dict[str, str]:
    """The factors of a mixture against a simple objective, which is a mixture of itself alone: the
    kind for the first component more, each further one, and in what they depart from their
    defaults; each with what to say of it. Nothing of two other objectives.
    """
    place = path.removesuffix(".kind")
    return mixture_factors(path, _spec_at(arm, place), _spec_at(other, place))


def mixture_factors(path: str, mixture: Any, simple: Any) -> dict[str, str]:
    """The factors of two objectives, the first of which is a mixture and the second is none."""
    place = path.removesuffix(".kind")
    if not isinstance(mixture, Mixture) or isinstance(simple, Mixture):
        return {}
    components = mixture.model_dump(mode="json")["components"]
    objectives = [component.objective for component in mixture.components]
    numbers = list(range(len(objectives)))
    if simple in objectives:
        numbers.remove(objectives.index(simple))
    factors = {}
    for number in numbers:
        entry = f"{place}.components.{number}"
        note = added_entry(entry, components, [])
        factors[entry if factors else path] = note
    for number in numbers:
        for field in _changed_fields(objectives[number]):
            factors[f"{place}.components.{number}.objective.{field}"] = ""
    return factors


def _encoder_fields(own: Architecture, other: Architecture) -> Iterator[str]:
    """The other arm has positions of its own, which an encoder may have too; its layers are as many
    as those of the main stack where nobody writes them. Its mask is compared by what it shows.
    """
    assert own.encoder is not None
    usual = Encoder(n_layers=own.n_layers).model_dump(mode="json")
    table = own.encoder.model_dump(mode="json")
    counterparts = {"cross_positions": other.positions.kind}
    for name, value in table.items():
        if name != "mask" and value != usual.get(name) and value != counterparts.get(name):
            yield name


def _encoder_sees_alike(arm: Arm, other: Arm) -> bool:
    """Does an encoder that only one of two arms has see its input as the other arm does, or that in
    both directions, in every stage?
    """
    both = zip(stage_architectures(arm.run), stage_architectures(other.run), strict=False)
    for (own, against), stage in zip(both, arm.run.stages, strict=False):
        has_documents = not all(map(gives_pairs, stage.corpus.sources))
        if not sees_alike(own, against, stage.training.length, has_documents):
            return False
    return True


def sees_alike(own: Architecture, other: Architecture, length: int, has_documents: bool) -> bool:
    """Does an encoder see of its input, in rows of this length, what a stack sees that has none, or
    that in both directions? What a window or a document hides from one it hides from the other.
    """
    assert own.encoder is not None
    if own.encoder.mask == other.mask:
        return True
    encoder, stack = resolve(own).encoder, resolve(other).stack
    assert encoder is not None
    n = picture_length((*encoder.masks, *stack.masks), length)
    rows = [SequenceLayout(n, n)]  # all of it an input
    if has_documents:
        rows.append(two_documents(rows[0]))
    seen = [mean_picture(encoder.masks, row) for row in rows]
    usual = [mean_picture(stack.masks, row) for row in rows]
    both = [mean_picture(stack.masks, row, in_both_directions=True) for row in rows]
    return any(all(map(np.allclose, seen, expected)) for expected in (usual, both))


def two_documents(row: SequenceLayout) -> SequenceLayout:
    """A row of which each half is a document."""
    return replace(row, documents=np.arange(row.length) // max(1, -(-row.length // 2)))


def picture_length(masks: Sequence[Rule], length: int) -> int:
    """The length of a picture that shows all that masks hide in rows of this length."""
    return min(length, max(LEAST_LENGTH, telling_length(masks)))


def added_encoder(first: Arm, second: Arm) -> tuple[Arm, Arm] | None:
    """The arm that has an encoder where the other has none, and the other."""
    for arm, other in ((first, second), (second, first)):
        if arm.run.architecture.encoder is not None and other.run.architecture.encoder is None:
            return arm, other
    return None


def describe_usual_encoder(factors: Sequence[str], first: Arm, second: Arm) -> str:
    """What an encoder could write that only one of two arms has, to hide what the other arm's mask
    hides.
    """
    added = added_encoder(first, second)
    if added is None or f"{ENCODER_PATH}.mask".removeprefix("architecture.") not in factors:
        return ""
    arm, other = added
    mask = other.run.last_architecture.mask
    return (
        f"; an encoder that hides what the mask of {other.name} hides:"
        f' {ENCODER_PATH}.mask = "{mask}" in {arm.name}'
    )


def describe_usual_stage(factors: Sequence[str], arm: Arm, other: Arm) -> str:
    """What a stage that only one of two arms has could write, so that its recipe is the usual
    one.
    """
    settings = []
    for own, against in ((arm, other), (other, arm)):
        for factor in factors:
            path = STAGE_TRAINING.fullmatch(factor)
            if path is None or not len(against.run.stages) <= int(path[1]) < len(own.run.stages):
                continue
            stages = own.run.stages, int(path[1]), against.run.stages
            near = _usual_stage(*stages).training
            value: Any = near.model_dump(mode="json")
            for name in path[2].split("."):
                value = value.get(name)
            if path[2] == "warmup":
                value = round(usual_warmup(near, own.run.stages[int(path[1])].training))
            if isinstance(value, int | float):
                settings.append(f"{factor} = {value:g} in {own.name}")
    if not settings:
        return ""
    return f"; a stage with the usual recipe has {' and '.join(settings)}"


def stage_fields(
    stages: Sequence[Stage],
    architectures: Sequence[Architecture],
    number: int,
    others: Sequence[Stage],
) -> Iterator[str]:
    """In what a stage departs from the one that it is compared with; `architectures` are those of
    all stages, and `others` are the stages of the other arm.
    """
    own, near = stages[number], _usual_stage(stages, number, others)
    tables = [_without_sizes(one) for one in architectures]
    fields, _ = differing_fields(tables[number - 1 if number else 1], tables[number])
    yield from [f"architecture.{path}" for path in fields]
    fields, _ = differing_fields(_corpus_recipe(near), _corpus_recipe(own))
    yield from [f"corpus.{path}" for path in fields]
    yield from [f"objective.{path}" for path in _objective_fields(own, near)]
    fields, _ = differing_fields(_recipe(near.training), _recipe(own.training))
    yield from [f"training.{path}" for path in fields]
    if abs(own.training.warmup - usual_warmup(near.training, own.training)) >= 1:
        yield "training.warmup"


def _usual_stage(stages: Sequence[Stage], number: int, others: Sequence[Stage]) -> Stage:
    """The stage whose recipe an added one is expected to have: the other arm's of its kind, or the
    one before it; of a first stage, the one after it.
    """
    alike = [stage for stage in others if stage.kind == stages[number].kind]
    return alike[-1] if alike else stages[number - 1 if number else 1]


def usual_warmup(near: Training, own: Training) -> float:
    """The warm-up of a stage that has the share of another, not in whole steps; one at least where
    the other has any.
    """
    return max(min(1, near.warmup), near.warmup * own.n_steps / near.n_steps)


def _objective_fields(own: Stage, near: Stage) -> Iterator[str]:
    """In what an objective departs from that of the other stage; one of another kind from its
    defaults.
    """
    if own.objective.kind != near.objective.kind:
        yield from _changed_fields(own.objective)
        return
    tables = [stage.objective.model_dump(mode="json") for stage in (near, own)]
    fields, _ = differing_fields(*tables)
    for path, values in fields.items():
        yield from entry_paths(path, *values)


def _changed_fields(spec: Spec) -> Iterator[str]:
    """The fields of a table, and of those in it, that are not as they come by default. What has no
    default has no other value that would be usual.
    """
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if not field.is_required() and value != field.get_default(call_default_factory=True):
            yield name
        inside = value if isinstance(value, tuple) else (value,)
        for number, entry in enumerate(inside):
            place = f"{name}.{number}" if isinstance(value, tuple) else name
            if isinstance(entry, Spec):
                yield from [f"{place}.{path}" for path in _changed_fields(entry)]


def _spec_at(arm: Arm, path: str) -> Any:
    """What lies at a path of a run; None where nothing does."""
    first, *names = path.split(".")
    inner: Any = arm.run if first == "architecture" else arm.run.last
    if first == "stages":
        number = int(names.pop(0))
        inner = arm.run.stages[number] if number < len(arm.run.stages) else None
    else:
        names = [first, *names]
    for name in names:
        inner = getattr(inner, name, None)
    return inner


def _corpus_recipe(stage: Stage) -> Table:
    """What is done with the text of a stage, whichever it is; all stages have one tokenizer."""
    return stage.corpus.model_dump(mode="json", exclude={"sources", "tokenizer"})


def _recipe(training: Training) -> Table:
    table = training.model_dump(mode="json")
    table["optimizer"] = {"kind": training.optimizer.kind, **table["optimizer"]}
    return {name: value for name, value in table.items() if name not in OWN_OF_STAGE}


def _without_sizes(architecture: Any) -> Table:
    table = architecture.model_dump(mode="json")
    return {name: value for name, value in table.items() if name not in DERIVED_SIZES}


def require_seen_sources(design: Design, arms: Sequence[Arm]) -> None:
    """SpecError where an arm that is not the control cannot see its source."""
    problems = []
    for arm in arms:
        encoder = arm.run.architecture.encoder
        if encoder is None or encoder.cross != Nothing() or arm.name == control_arm(design):
            continue
        problems.append(
            f"arms.{arm.name}: architecture.encoder.cross is 'nothing', which hides the source, and"
            f' the arm is not the control; leave cross out, or write control = "{arm.name}"'
        )
    if problems:
        raise SpecError(problems)


def require_right_targets(design: Design, arms: Sequence[Arm]) -> None:
    """SpecError where an arm that is not the control is taught wrong targets, others are not, and
    no factor says so.
    """
    paths = [_wrong_targets(arm) for arm in arms]
    problems = []
    for arm, own in zip(arms, paths, strict=True):
        for path in own:
            is_common = all(path in others for others in paths)
            if is_common or path in declared_paths(design) or arm.name == control_arm(design):
                continue
            problems.append(
                f"arms.{arm.name}: {path} is true, which teaches wrong targets, and the arm is not"
                f' the control; leave it out, write control = "{arm.name}", or name {path!r} in'
                " factor"
            )
    if problems:
        raise SpecError(problems)


def _wrong_targets(arm: Arm) -> list[str]:
    """The fields by which stages of an arm are taught wrong targets."""
    paths = []
    for number, stage in enumerate(arm.run.stages):
        place = f"stages.{number}." if arm.numbers_stages else ""
        paths += [f"{place}{path}" for path in wrong_target_fields(stage)]
    return paths


def wrong_target_fields(stage: Stage) -> Iterator[str]:
    """The fields by which a stage is taught wrong targets."""
    if stage.corpus.shuffled_targets:
        yield "corpus.shuffled_targets"
    if isinstance(stage.objective, Preference) and stage.objective.swapped:
        yield "objective.swapped"
