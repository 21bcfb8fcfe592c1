"""A run: one architecture and the chain of stages it goes through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from paribus.errors import SpecError, name_few
from paribus.files import MAX_TOKENIZER, home_expanded, looked_for, read_text
from paribus.spec.architecture import Architecture, Spec
from paribus.spec.corpus import N_SIGNS, BytePairs, Bytes, Corpus, TokenizerFile
from paribus.spec.named import based
from paribus.spec.objectives import CausalLM, Objective, ObjectiveKind
from paribus.spec.places import place_design, place_run
from paribus.spec.reading import assign, complaints, file_table, once, read, require_shallow, table_of, with_kinds
from paribus.spec.spelling import key_advice
from paribus.spec.training import Training
from paribus.spec.widths import width_note

MAX_IDS = 2**22  # of a tokenizer: several times the largest there is
TABLES = "architecture, corpus, objective and training"
KEYS = ("architecture", "corpus", "objective", "training")
OF_A_DESIGN = ("question", "base")  # no run has these
Source = str | Path | Mapping[str, Any]
Read = TypeVar("Read", bound=Spec)


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
    """The stages that a run is addressed by, with the fingerprint of its text; a rerun has its number there, too."""
    architecture = run.architecture.model_dump(mode="json")
    again = {"rerun": run.rerun} if run.rerun else {}
    return [
        {"architecture": architecture, "text": text, **stage.model_dump(mode="json"), **again} for stage in run.stages
    ]


_FIELDS = {"architecture": Architecture.model_fields, "training": Training.model_fields, "corpus": Corpus.model_fields}


class Text(Spec):
    """What of a run decides which text is read, and how often; without a training, only which."""

    corpus: Corpus = Corpus()
    training: Training | None = None


def load_text(source: Source | None = None, changes: Mapping[str, Any] | None = None) -> Text:
    """The text of a run, of a design's base, or of a table with a `corpus` alone; without a source, the default text.

    Whatever the run says of its architecture and objective is passed over: it does not change the text.
    """
    folder = Path()  # a base that a change names is looked for there
    if isinstance(source, str | Path) and "base" not in (changes or {}):
        folder = Path(source).parent
    table = _base(_changed({} if source is None else source, changes), folder)
    problems = list(_unknown(table))
    text = _validated(Text, {key: table[key] for key in Text.model_fields if key in table}, problems)
    if text is None or problems:
        raise SpecError(problems)
    return text


def load_run(source: Source, changes: Mapping[str, Any] | None = None) -> RunSpec:
    """A run from a TOML or JSON file or a mapping: tables `architecture`, `corpus`, `objective` and `training`.

    Where the architecture does not say, its n_vocab is the tokenizer's and its max_length the training's length.
    """
    table = _changed(source, changes)
    _refuse_design(table, source)
    written = table.pop("architecture", None)
    problems = list(_unknown(table))
    stage = _validated(Stage, {key: table[key] for key in Stage.model_fields if key in table}, problems)
    if written is None:
        problems.append("architecture is missing; name a preset, or give a table")
    architecture = None if written is None else _architecture(written, stage, problems)
    if problems or stage is None or architecture is None:
        raise SpecError(problems)
    return RunSpec(architecture=architecture, stages=(stage,))


def run_width_note(source: Source, changes: Mapping[str, Any] | None = None) -> str | None:
    """Which widths of its preset a run keeps though it changes d_model; None where there are none."""
    written = _changed(source, changes).get("architecture")
    return width_note(written) if isinstance(written, Mapping) else None


def _is_design(table: Mapping[str, Any]) -> bool:
    return any(key in table for key in OF_A_DESIGN)


def _refuse_design(table: Mapping[str, Any], source: Source) -> None:
    if _is_design(table):
        name = "DESIGN" if isinstance(source, Mapping) else source
        what = "the table" if isinstance(source, Mapping) else source
        raise SpecError(f"{what} is a design, which is many runs; carry it out: paribus run {name}")


def _base(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The run that a design stands on, where its file is looked for in `folder`; any other table as it is."""
    if not _is_design(table):
        return table
    base = based(table, folder).get("base")
    if not isinstance(base, Mapping):
        raise SpecError(f"base is {base!r} in a design; give a preset, a table, or a file that describes a run")
    return dict(base)


def _unknown(table: Mapping[str, Any]) -> Iterator[str]:
    """Keys that no run has; a kind may be there, for that of its only stage."""
    unknown = [key for key in table if key not in (*KEYS, "kind")]
    yield from name_few(unknown, _unknown_key, "keys that are not known")


def _unknown_key(key: str) -> str:
    near = [f"{table}.{key}" for table, fields in _FIELDS.items() if key in fields][:1]
    return f"{key} is not a key here; {key_advice(key, '', KEYS, near)}keys are {', '.join(KEYS)}"


class _Asked(Spec):
    objective: ObjectiveKind


def load_objective(kind: str, changes: Mapping[str, Any] | None = None) -> Objective:
    """An objective by its kind, with changes to its fields."""
    table: dict[str, Any] = {"objective": {"kind": kind}}
    for path, value in (changes or {}).items():
        assign(table, f"objective.{path}", value)
    problems: list[str] = []
    asked = _validated(_Asked, table, problems)
    if asked is None:
        raise SpecError(problems)
    return asked.objective


def _changed(source: Source, changes: Mapping[str, Any] | None) -> dict[str, Any]:
    table = dict(source) if isinstance(source, Mapping) else _filed(Path(source))
    require_shallow(table, "the table")
    _name_preset(table)
    for path in sorted(changes or {}, key=lambda path: path.count(".")):
        assign(table, path, (changes or {})[path])
        _name_preset(table)
    return table


def _name_preset(table: dict[str, Any]) -> None:
    """A preset alone is short for a table that stands on it, which can be changed."""
    if isinstance(table.get("architecture"), str):
        table["architecture"] = {"preset": table["architecture"]}


def _filed(path: Path) -> dict[str, Any]:
    if path.suffix not in (".toml", ".json"):
        raise SpecError(f"{path} is no .toml or .json file; give one that describes a run, with tables {TABLES}")
    table = file_table(path, "give a file that describes a run")
    return (place_design if _is_design(table) else place_run)(table, path.parent)


def _validated(model: type[Read], table: dict[str, Any], problems: list[str]) -> Read | None:
    table = with_kinds(table, model)
    try:
        return model.model_validate(table)
    except ValidationError as fault:
        problems.extend(complaints(fault, table, model))
        return None


def _architecture(written: Any, stage: Stage | None, problems: list[str]) -> Architecture | None:
    if not isinstance(written, Mapping):
        problems.append(f"architecture is {written!r} ({type(written).__name__}); name a preset, or give a table")
        return None
    own = dict(written)
    filled = {} if stage is None else filled_sizes(stage)
    try:
        table = {**table_of(own), **{name: value for name, value in filled.items() if name not in own}}
        return read(table)
    except SpecError as fault:
        problems.extend(f"architecture.{problem}" for problem in fault.problems)
        return None


def filled_sizes(stage: Stage) -> dict[str, int]:
    """The sizes of an architecture that follow from text and training where nobody writes them."""
    return {"n_vocab": n_text(stage.corpus) + N_SIGNS, "max_length": stage.training.length}


def n_text(corpus: Corpus) -> int:
    """How many tokens the tokenizer has."""
    match corpus.tokenizer:
        case Bytes():
            return 256
        case BytePairs(n_vocab=n_vocab):
            return n_vocab
        case TokenizerFile(path=path):
            return _listed(home_expanded("corpus.tokenizer.path", path))


def _listed(path: Path) -> int:
    try:
        return n_ids(read_text(path, MAX_TOKENIZER))
    except OSError as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} cannot be read: {fault.strerror}; give a tokenizer.json{looked_for(path)}"
        ) from fault
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} is no tokenizer.json: {fault}; give one of the tokenizers library"
        ) from fault


def n_ids(tokenizer: str) -> int:
    """One more than the largest id of a tokenizer.json; ValueError where one is no id, or no table has room for it."""
    held = json.loads(tokenizer, object_pairs_hook=once)
    words = held["model"]["vocab"]  # with their ids, or in the order of those
    ordered = range(len(words)) if isinstance(words, list) else words.values()
    ids = [*ordered, *(added["id"] for added in held.get("added_tokens", ()))]
    for number in ids:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < MAX_IDS:
            raise ValueError(f"it has the id {number!r}, where ids are whole numbers from 0 to {MAX_IDS - 1:,}")
    return max(ids) + 1
