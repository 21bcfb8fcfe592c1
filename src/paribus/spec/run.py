"""A run: one architecture and the chain of stages it goes through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from paribus.errors import SpecError, describe_first
from paribus.spec.architecture import Architecture
from paribus.spec.base import Spec
from paribus.spec.begin import BeginFrom
from paribus.spec.begin_reading import (
    BeginOpener,
    BeginPoint,
    Tokenizer,
    begin_change,
    take_begin,
    with_begin_defaults,
)
from paribus.spec.corpus import Corpus, TokenizerFile, tokenizer_with_roles
from paribus.spec.design_base import with_base
from paribus.spec.id_counts import derived_sizes as derived_sizes
from paribus.spec.id_counts import n_ids as n_ids
from paribus.spec.id_counts import n_text as n_text
from paribus.spec.merging import (
    fill_default_kinds,
    in_setting_order,
    merge_tables,
    require_plain_tables,
    set_at_path,
)
from paribus.spec.objectives import Objective, ObjectiveKind
from paribus.spec.places import place_design, place_run
from paribus.spec.reading import (
    describe_faults,
    merged_table,
    parse_architecture,
    read_table,
)
from paribus.spec.spelling import key_advice
from paribus.spec.stages import ROLE_FORMS, indexed_stages, require_valid_chain
from paribus.spec.stages import RunSpec as RunSpec
from paribus.spec.stages import Stage as Stage
from paribus.spec.stages import addressed_stages as addressed_stages
from paribus.spec.training import Training
from paribus.spec.widths import width_note

TABLE_NAMES = "architecture, corpus, objective and training"
STAGE_KEYS = ("corpus", "objective", "training")
RUN_KEYS = ("architecture", *STAGE_KEYS, "stages", "begin")
DESIGN_ONLY_KEYS = ("question", "base")  # no run has these
SpecSource = str | Path | Mapping[str, Any]
SpecT = TypeVar("SpecT", bound=Spec)


_FIELDS = {
    "architecture": Architecture.model_fields,
    "training": Training.model_fields,
    "corpus": Corpus.model_fields,
}


class TextSpec(Spec):
    """What of a run decides which text is read, and how often; without a training, only which."""

    corpus: Corpus = Corpus()
    training: Training | None = None


def load_text(
    source: SpecSource | None = None, changes: Mapping[str, Any] | None = None
) -> TextSpec:
    """The text of a run's first stage, of a design's base, or of a table with a `corpus` alone;
    without a source, the default text.

    Whatever the run says of its architecture and objective is passed over: it does not change the
    text.
    """
    folder = Path()  # a base that a change names is looked for there
    if isinstance(source, str | Path) and "base" not in (changes or {}):
        folder = Path(source).parent
    table = _base_table(_changed_table({} if source is None else source, changes), folder)
    problems = list(_unknown_key_faults(table))
    begin = take_begin(table, problems)
    if begin is not None:
        raise SpecError(
            f"begin is {begin.name!r}, whose tokenizer the text is written with, and it cannot be"
            " looked up here; name the text in a file without it, with corpus.tokenizer ="
            " { kind = 'file', path = … }"
        )
    if "stages" in table:
        stages = _numbered_tables(indexed_stages(table)["stages"], problems)
        table = merge_tables(table, stages[0] if stages else {})
    text = _validate(
        TextSpec, {key: table[key] for key in TextSpec.model_fields if key in table}, problems
    )
    if text is None or problems:
        raise SpecError(problems)
    return text


def load_run(
    source: SpecSource,
    changes: Mapping[str, Any] | None = None,
    open_begin: BeginOpener | None = None,
) -> RunSpec:
    """A run from a TOML or JSON file or a mapping: tables `architecture`, `corpus`, `objective`
    and `training`, or `stages` that have the last three each.

    Where the architecture does not say, its n_vocab is the tokenizer's and its max_length the
    greatest length that a stage trains at. `open_begin` opens what a run begins from; without it,
    a run that begins from something is refused.
    """
    table = _changed_table(source, changes)
    _refuse_design(table, source)
    architecture_table = table.pop("architecture", None)
    problems = list(_unknown_key_faults(table))
    n_unknown = len(problems)
    begin = take_begin(table, problems)
    if len(problems) > n_unknown:  # what would have its architecture cannot be read
        raise SpecError(problems)
    if begin is not None and not problems:
        return _load_begun_run(table, architecture_table, _open_begin(begin, open_begin))
    stages = _read_stages(table, problems)
    if architecture_table is None:
        problems.append("architecture is missing; name a preset, or give a table")
        architecture = None
    else:
        architecture = _parse_run_architecture(architecture_table, stages, problems)
    if problems or stages is None or architecture is None:
        raise SpecError(problems)
    run = RunSpec(architecture=architecture, stages=with_roles(stages))
    require_valid_chain(run)
    return run


def _open_begin(begin: BeginFrom, open_begin: BeginOpener | None) -> BeginPoint:
    if open_begin is None:
        raise SpecError(
            f"begin is {begin.name!r}, and what it is cannot be looked up here; `paribus train` and"
            " `paribus plan` can"
        )
    return open_begin(begin)


def _load_begun_run(table: dict[str, Any], architecture_table: Any, point: BeginPoint) -> RunSpec:
    """A run that begins from another run, whose stages come first, or from a checkpoint."""
    problems: list[str] = []
    stages = _read_stages(with_begin_defaults(table, point), problems, point)
    if stages is None:
        raise SpecError(problems)
    change = begin_change(point, architecture_table, stages[0], problems)
    if problems:
        raise SpecError(problems)
    first, *others = with_roles(stages)
    first = first.model_copy(update={"architecture": change})
    run = RunSpec(
        architecture=point.architecture,
        stages=(*point.stages, first, *others),
        rerun=point.rerun,
        begin=point.begin,
        inherited_folders=point.folders,
    )
    require_valid_chain(run)
    return run


def with_roles(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Stages of which those from the first that reads conversations on have tokens of roles."""
    result: list[Stage] = []
    has_roles = False
    for stage in stages:
        has_roles = has_roles or stage.corpus.form in ROLE_FORMS
        tokenizer = stage.corpus.tokenizer
        if has_roles and isinstance(tokenizer, TokenizerFile):
            own = tokenizer_with_roles(tokenizer, n_text(stage.corpus))
            corpus = stage.corpus.model_copy(update={"tokenizer": own})
            stage = stage.model_copy(update={"corpus": corpus})
        result.append(stage)
    return tuple(result)


def _read_stages(
    table: Mapping[str, Any], problems: list[str], point: BeginPoint | None = None
) -> tuple[Stage, ...] | None:
    """The stages of a run; None where one of them cannot be read. `problems` then says why.

    Tables beside `stages` are shared: each stage stands on them. All of them have the tokenizer of
    what the run begins from, or that of the first.
    """
    shared = {key: table[key] for key in STAGE_KEYS if key in table}
    if "stages" not in table:
        kind = {"kind": table["kind"]} if "kind" in table else {}
        if point is not None:
            _share_tokenizer(shared, point.tokenizer, "", repr(point.name), problems)
        stage = _validate(Stage, {**kind, **shared}, problems)
        return None if stage is None else (stage,)
    if "kind" in table:
        problems.append(f"kind is {table['kind']!r} beside stages; write it in one of them")
    if isinstance(shared.get("training"), Mapping):
        # a stage that names a kind which is the default keeps what is shared of it
        shared["training"] = fill_default_kinds(dict(shared["training"]), Training)
    tables = _numbered_tables(table["stages"], problems)
    stages: list[Stage | None] = []
    for number, own in enumerate(tables):
        merged = merge_tables(shared, own)
        if point is not None:
            where = f"stages.{number}."
            _share_tokenizer(merged, point.tokenizer, where, repr(point.name), problems)
        elif number > 0 and (first := stages[0]) is not None:
            tokenizer, where = first.corpus.tokenizer, f"stages.{number}."
            _share_tokenizer(merged, tokenizer, where, "its first stage", problems)
        faults: list[str] = []
        stages.append(_validate(Stage, merged, faults))
        problems.extend(f"stages.{number}.{fault}" for fault in faults)
    read = [stage for stage in stages if stage is not None]
    if not tables or len(read) < len(stages):
        return None
    return tuple(read)


def _numbered_tables(value: Any, problems: list[str]) -> list[Mapping[str, Any]]:
    """Stages that lie by their number, in order; none where they cannot be read."""
    if not isinstance(value, Mapping) or not value:
        problems.append(f"stages is {value!r}; write a table [[stages]] for each stage")
        return []
    numbers = [str(number) for number in range(len(value))]
    if set(map(str, value)) != set(numbers):
        problems.append(
            f"stages has the numbers {', '.join(map(str, value))}; count from 0 without a gap"
        )
        return []
    tables = [value[number] for number in numbers]
    for number, own in enumerate(tables):
        if not isinstance(own, Mapping):
            problems.append(f"stages.{number} is {own!r}; write a table with a kind and a training")
            return []
    return tables


def _share_tokenizer(
    table: dict[str, Any], shared: Tokenizer, where: str, owner: str, problems: list[str]
) -> None:
    """A stage has the tokenizer of what it begins from, which need not be written again."""
    corpus = table.get("corpus", {})
    if not isinstance(corpus, Mapping):
        return
    tokenizer = shared.model_dump(mode="json")
    written = corpus.get("tokenizer", tokenizer)
    if isinstance(written, str):
        written = {"kind": written}
    if isinstance(written, Mapping) and not written.items() <= tokenizer.items():
        problems.append(
            f"{where}corpus.tokenizer is {dict(written)}, but a run has one tokenizer, that of"
            f" {owner} ({tokenizer}); leave it out"
        )
    table["corpus"] = {**corpus, "tokenizer": tokenizer}


def run_width_note(source: SpecSource, changes: Mapping[str, Any] | None = None) -> str | None:
    """Which widths of its preset a run keeps though it changes d_model; None where there are
    none.
    """
    architecture_table = _changed_table(source, changes).get("architecture")
    if isinstance(architecture_table, Mapping):
        return width_note(architecture_table)
    return None


def _is_design(table: Mapping[str, Any]) -> bool:
    return any(key in table for key in DESIGN_ONLY_KEYS)


def _refuse_design(table: Mapping[str, Any], source: SpecSource) -> None:
    if _is_design(table):
        name = "DESIGN" if isinstance(source, Mapping) else source
        what = "the table" if isinstance(source, Mapping) else source
        raise SpecError(f"{what} is a design, which has many runs; use `paribus run {name}`")


def _base_table(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The run that a design stands on, where its file is looked for in `folder`; any other
    table as it is.
    """
    if not _is_design(table):
        return table
    base = with_base(table, folder).get("base")
    if not isinstance(base, Mapping):
        raise SpecError(
            f"base is {base!r} in a design; give a preset, a table, or a file that describes a run"
        )
    return dict(base)


def _unknown_key_faults(table: Mapping[str, Any]) -> Iterator[str]:
    """Keys that no run has; a kind may be there, for that of its only stage."""
    unknown = [key for key in table if key not in (*RUN_KEYS, "kind")]
    yield from describe_first(unknown, _describe_unknown_key, "keys that are not known")


def _describe_unknown_key(key: str) -> str:
    near = [f"{table}.{key}" for table, fields in _FIELDS.items() if key in fields][:1]
    return (
        f"{key} is not a key here; {key_advice(key, '', RUN_KEYS, near)}keys are"
        f" {', '.join(RUN_KEYS)}"
    )


class _ObjectiveTable(Spec):
    objective: ObjectiveKind


def load_objective(kind: str, changes: Mapping[str, Any] | None = None) -> Objective:
    """An objective by its kind, with changes to its fields."""
    table: dict[str, Any] = {"objective": {"kind": kind}}
    for path in in_setting_order(changes or {}):
        set_at_path(table, f"objective.{path}", (changes or {})[path])
    problems: list[str] = []
    objective_table = _validate(_ObjectiveTable, table, problems)
    if objective_table is None:
        raise SpecError(problems)
    return objective_table.objective


def _changed_table(source: SpecSource, changes: Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(source, Mapping):
        table = dict(source)
    else:
        table = _read_run_file(Path(source))
    require_plain_tables(table, "the table")
    table = indexed_stages(table)
    _name_preset(table)
    for path in in_setting_order(changes or {}):
        set_at_path(table, path, (changes or {})[path])
        _name_preset(table)
        table = indexed_stages(table)
    return table


def _name_preset(table: dict[str, Any]) -> None:
    """A preset alone is short for a table that stands on it, which can be changed."""
    if isinstance(table.get("architecture"), str):
        table["architecture"] = {"preset": table["architecture"]}


def _read_run_file(path: Path) -> dict[str, Any]:
    if path.suffix not in (".toml", ".json"):
        raise SpecError(
            f"{path} is no .toml or .json file; give one that describes a run, with tables"
            f" {TABLE_NAMES}"
        )
    table = read_table(path, "give a file that describes a run")
    return (place_design if _is_design(table) else place_run)(table, path.parent)


def _validate(model: type[SpecT], table: dict[str, Any], problems: list[str]) -> SpecT | None:
    table = fill_default_kinds(table, model)
    try:
        return model.model_validate(table)
    except ValidationError as fault:
        problems.extend(describe_faults(fault, table, model))
        return None


def _parse_run_architecture(
    architecture: Any, stages: Sequence[Stage] | None, problems: list[str]
) -> Architecture | None:
    if not isinstance(architecture, Mapping):
        problems.append(
            f"architecture is {architecture!r} ({type(architecture).__name__}); name a preset, or"
            " give a table"
        )
        return None
    own = dict(architecture)
    sizes = {} if stages is None else derived_sizes(stages)
    try:
        table = {
            **merged_table(own),
            **{name: value for name, value in sizes.items() if name not in own},
        }
        return parse_architecture(table)
    except SpecError as fault:
        problems.extend(f"architecture.{problem}" for problem in fault.problems)
        return None
