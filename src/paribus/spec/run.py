"""A run: one architecture and the chain of stages it goes through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from paribus.errors import SpecError
from paribus.spec.architecture import Architecture, Spec
from paribus.spec.corpus import N_SIGNS, BytePairs, Bytes, Corpus, TokenizerFile
from paribus.spec.objectives import CausalLM, ObjectiveKind
from paribus.spec.reading import assign, complaints, file_table, read, table_of, with_kinds
from paribus.spec.training import Training


class Stage(Spec):
    """One stage of a run: what is read, what is asked, how the weights move."""

    kind: Literal["pretrain"] = "pretrain"
    corpus: Corpus
    objective: ObjectiveKind = CausalLM()
    training: Training


class RunSpec(Spec):
    """An architecture and its stages, in order."""

    architecture: Architecture
    stages: tuple[Stage, ...]


def load_run(source: str | Path | Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> RunSpec:
    """A run from a TOML or JSON file or a mapping: tables `architecture`, `corpus`, `objective` and `training`.

    Where the architecture does not say, its n_vocab is the tokenizer's and its max_length the training's length.
    """
    table = dict(source) if isinstance(source, Mapping) else file_table(Path(source))
    for path in sorted(changes or {}, key=lambda path: path.count(".")):
        assign(table, path, (changes or {})[path])
    written = table.pop("architecture", None)
    problems: list[str] = []
    stage = _stage(table, problems)
    if written is None:
        problems.append("architecture is missing; name a preset, or give a table")
    architecture = None if written is None else _architecture(written, stage, problems)
    if problems or stage is None or architecture is None:
        raise SpecError(problems)
    return RunSpec(architecture=architecture, stages=(stage,))


def _stage(table: dict[str, Any], problems: list[str]) -> Stage | None:
    table = with_kinds(table, Stage)
    try:
        return Stage.model_validate(table)
    except ValidationError as fault:
        problems.extend(complaints(fault, table, Stage))
        return None


def _architecture(written: Any, stage: Stage | None, problems: list[str]) -> Architecture | None:
    own = {"preset": written} if isinstance(written, str) else dict(written)
    filled: dict[str, Any] = {}
    if stage is not None:
        filled = {"n_vocab": n_text(stage.corpus) + N_SIGNS, "max_length": stage.training.length}
    try:
        table = {**table_of(own), **{name: value for name, value in filled.items() if name not in own}}
        return read(table)
    except SpecError as fault:
        problems.extend(f"architecture.{problem}" for problem in fault.problems)
        return None


def n_text(corpus: Corpus) -> int:
    """How many tokens the tokenizer has."""
    match corpus.tokenizer:
        case Bytes():
            return 256
        case BytePairs(n_vocab=n_vocab):
            return n_vocab
        case TokenizerFile(path=path):
            return _listed(Path(path))


def _listed(path: Path) -> int:
    try:
        held = json.loads(path.read_text("utf-8"))
        ids = [*held["model"]["vocab"].values(), *(added["id"] for added in held.get("added_tokens", ()))]
        return max(ids) + 1
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} is no tokenizer.json: {fault}; give one of the tokenizers library"
        ) from fault
