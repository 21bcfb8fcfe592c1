"""A run: one architecture and the chain of stages it goes through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from paribus.errors import SpecError, describe_first
from paribus.files import MAX_TOKENIZER_BYTES, expand_home, looked_for, read_text
from paribus.spec.architecture import Architecture
from paribus.spec.base import Spec
from paribus.spec.corpus import N_SPECIAL_TOKENS, BPETokenizer, ByteTokenizer, Corpus, TokenizerFile
from paribus.spec.design_base import with_base
from paribus.spec.merging import (
    fill_default_kinds,
    in_setting_order,
    require_max_depth,
    set_at_path,
)
from paribus.spec.objectives import CausalLM, Objective, ObjectiveKind
from paribus.spec.places import place_design, place_run
from paribus.spec.reading import (
    describe_faults,
    dict_of_unique_keys,
    merged_table,
    parse_architecture,
    read_table,
)
from paribus.spec.spelling import key_advice
from paribus.spec.training import Training
from paribus.spec.widths import width_note

MAX_IDS = 2**22  # of a tokenizer: several times the largest there is
TABLE_NAMES = "architecture, corpus, objective and training"
RUN_KEYS = ("architecture", "corpus", "objective", "training")
DESIGN_ONLY_KEYS = ("question", "base")  # no run has these
SpecSource = str | Path | Mapping[str, Any]
SpecT = TypeVar("SpecT", bound=Spec)


class Stage(Spec):
    """One stage of a run: what is read, what is asked, how the weights move."""

    kind: Literal["pretrain"] = "pretrain"
    corpus: Corpus = Corpus()
    objective: ObjectiveKind = CausalLM()
    training: Training


class RunSpec(Spec):
    """An architecture and its stages, in order."""

    architecture: Architecture
    stages: tuple[Stage, ...]
    # The same run made again, to see whether it repeats, has another number and so another folder.
    rerun: Annotated[int, Field(ge=0, exclude_if=lambda number: number == 0)] = 0


def addressed_stages(run: RunSpec, text: str) -> list[dict[str, Any]]:
    """The stages that a run is addressed by, with the fingerprint of its text; a rerun has its
    number there, too.
    """
    architecture = run.architecture.model_dump(mode="json")
    again = {"rerun": run.rerun} if run.rerun else {}
    return [
        {"architecture": architecture, "text": text, **stage.model_dump(mode="json"), **again}
        for stage in run.stages
    ]


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
    """The text of a run, of a design's base, or of a table with a `corpus` alone; without a
    source, the default text.

    Whatever the run says of its architecture and objective is passed over: it does not change the
    text.
    """
    folder = Path()  # a base that a change names is looked for there
    if isinstance(source, str | Path) and "base" not in (changes or {}):
        folder = Path(source).parent
    table = _base_table(_changed_table({} if source is None else source, changes), folder)
    problems = list(_unknown_key_faults(table))
    text = _validate(
        TextSpec, {key: table[key] for key in TextSpec.model_fields if key in table}, problems
    )
    if text is None or problems:
        raise SpecError(problems)
    return text


def load_run(source: SpecSource, changes: Mapping[str, Any] | None = None) -> RunSpec:
    """A run from a TOML or JSON file or a mapping: tables `architecture`, `corpus`, `objective`
    and `training`.

    Where the architecture does not say, its n_vocab is the tokenizer's and its max_length the
    training's length.
    """
    table = _changed_table(source, changes)
    _refuse_design(table, source)
    architecture_table = table.pop("architecture", None)
    problems = list(_unknown_key_faults(table))
    stage = _validate(
        Stage, {key: table[key] for key in Stage.model_fields if key in table}, problems
    )
    if architecture_table is None:
        problems.append("architecture is missing; name a preset, or give a table")
    if architecture_table is None:
        architecture = None
    else:
        architecture = _parse_run_architecture(architecture_table, stage, problems)
    if problems or stage is None or architecture is None:
        raise SpecError(problems)
    return RunSpec(architecture=architecture, stages=(stage,))


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
    require_max_depth(table, "the table")
    _name_preset(table)
    for path in in_setting_order(changes or {}):
        set_at_path(table, path, (changes or {})[path])
        _name_preset(table)
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
    architecture: Any, stage: Stage | None, problems: list[str]
) -> Architecture | None:
    if not isinstance(architecture, Mapping):
        problems.append(
            f"architecture is {architecture!r} ({type(architecture).__name__}); name a preset, or"
            " give a table"
        )
        return None
    own = dict(architecture)
    sizes = {} if stage is None else derived_sizes(stage)
    try:
        table = {
            **merged_table(own),
            **{name: value for name, value in sizes.items() if name not in own},
        }
        return parse_architecture(table)
    except SpecError as fault:
        problems.extend(f"architecture.{problem}" for problem in fault.problems)
        return None


def derived_sizes(stage: Stage) -> dict[str, int]:
    """The sizes of an architecture that follow from text and training where nobody writes them."""
    return {"n_vocab": n_text(stage.corpus) + N_SPECIAL_TOKENS, "max_length": stage.training.length}


def n_text(corpus: Corpus) -> int:
    """How many tokens the tokenizer has."""
    match corpus.tokenizer:
        case ByteTokenizer():
            return 256
        case BPETokenizer(n_vocab=n_vocab):
            return n_vocab
        case TokenizerFile(path=path):
            return _n_file_ids(expand_home("corpus.tokenizer.path", path))


def _n_file_ids(path: Path) -> int:
    try:
        return n_ids(read_text(path, MAX_TOKENIZER_BYTES))
    except OSError as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} cannot be read: {fault.strerror}; give a"
            f" tokenizer.json{looked_for(path)}"
        ) from fault
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} is not a tokenizer.json: {fault}; give one of the"
            " tokenizers library"
        ) from fault


def n_ids(tokenizer: str) -> int:
    """One more than the largest id of a tokenizer.json; ValueError where one is no id, or no
    table has room for it.
    """
    table = json.loads(tokenizer, object_pairs_hook=dict_of_unique_keys)
    words = table["model"]["vocab"]  # with their ids, or in the order of those
    word_ids = range(len(words)) if isinstance(words, list) else words.values()
    ids = [*word_ids, *(token["id"] for token in table.get("added_tokens", ()))]
    for number in ids:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < MAX_IDS:
            raise ValueError(
                f"it has the id {number!r}, where ids are whole numbers from 0 to {MAX_IDS - 1:,}"
            )
    return max(ids) + 1
