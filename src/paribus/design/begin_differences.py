"""What two arms that begin with different weights differ in.

Whoever names another model to begin with names all that it is: its architecture, its tokenizer and
what it was trained on. Each of these counts by itself, as far as the record of the run that trained
it says. Only where two models differ in nothing that is known is it the weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from paribus.design.arms import Arm
from paribus.design.trials import ABSENT, FieldFinding, differing_fields, has_path
from paribus.record import Mark
from paribus.record.disk import file_sha256
from paribus.spec import Architecture, resolve
from paribus.spec.begin import BeginFrom
from paribus.spec.begin_reading import DERIVED_SIZES, BeginOpener, BeginPoint
from paribus.spec.corpus import TokenizerFile
from paribus.spec.design import Table
from paribus.spec.stages import Stage
from paribus.spec.training import BOOKKEEPING, SEEDS

BEGIN_PATH = "begin"
BEGIN_CONFOUND = "the arms begin with different weights"
BEGIN_FOLLOWS = "follows from what the arm begins from"


def begin_findings(
    first: Arm, second: Arm, declared: Sequence[str], written: Mapping[str, FieldFinding]
) -> dict[str, FieldFinding]:
    """What is found out about two arms, of which `written` is what they differ in as tables.

    Other weights are the factor, or a confound. The architecture and the tokenizer that come with
    them follow from that.
    """
    findings = dict(written)
    if first.run.begin is None and second.run.begin is None:
        return findings
    if _weights(first) == _weights(second):
        findings.pop(BEGIN_PATH, None)
        if _leaf(first, BEGIN_PATH) != _leaf(second, BEGIN_PATH):
            note = "the same weights under two names"
            findings[BEGIN_PATH] = FieldFinding(Mark.FOLLOWS, note)
        return findings
    if BEGIN_PATH in declared:
        findings[BEGIN_PATH] = FieldFinding(Mark.FACTOR)
    else:
        findings[BEGIN_PATH] = FieldFinding(Mark.CONFOUND, BEGIN_CONFOUND)
    has_one_tokenizer = _tokenizer_digest(first) == _tokenizer_digest(second)
    for path in dict.fromkeys((*first.leaves, *second.leaves, *written)):
        if not _is_taken_over(path, first, second):
            continue
        findings.pop(path, None)
        is_equal = _leaf(first, path) == _leaf(second, path)
        if not is_equal and not ("tokenizer" in path.split(".") and has_one_tokenizer):
            findings[path] = FieldFinding(Mark.FOLLOWS, BEGIN_FOLLOWS)
    return findings


def _is_taken_over(path: str, first: Arm, second: Arm) -> bool:
    """Is a field of a model, or of its tokenizer, which an arm has from what it begins from?"""
    names = path.split(".")
    if names[0] != "architecture" and "tokenizer" not in names:
        return False
    begun = [arm for arm in (first, second) if arm.run.begin is not None]
    return any(not has_path(arm.table, path) for arm in begun)


def begin_factors(
    first: Arm, second: Arm, is_declared: bool, opener: BeginOpener | None
) -> tuple[str, ...]:
    """The factors of two arms that begin with different weights, by path: `begin` where the weights
    are all that is known to differ, or where nobody knows what trained them.

    Where `begin` is only allowed, what it was trained on is allowed with it, and an architecture
    is not.
    """
    one, other = _BegunModel(first, opener), _BegunModel(second, opener)
    model = _differing_paths(one.architecture, other.architecture)
    factors = [f"{BEGIN_PATH}.architecture.{path}" for path in model]
    if _tokenizer_digest(first) != _tokenizer_digest(second):
        factors.append(f"{BEGIN_PATH}.tokenizer")
    if not is_declared:
        return tuple(factors)
    if one.training is None or other.training is None:
        return BEGIN_PATH, *factors
    factors += [f"{BEGIN_PATH}.{path}" for path in _differing_paths(one.training, other.training)]
    return tuple(factors) or (BEGIN_PATH,)


class _BegunModel:
    """The model that an arm begins with: of one without weights, the one that it draws."""

    def __init__(self, arm: Arm, opener: BeginOpener | None) -> None:
        self._arm, self._opener = arm, opener

    @cached_property
    def _point(self) -> BeginPoint | None:
        if self._arm.run.begin is None:
            return None
        assert self._opener is not None, "an arm that begins from weights was read by an opener"
        return self._opener(BeginFrom(name=self._arm.table[BEGIN_PATH]))

    @cached_property
    def architecture(self) -> Table:
        """Its fields; not the sizes that follow from text and tokenizer."""
        if self._point is None:
            architecture = self._arm.run.architecture
        else:
            architecture = self._point.last_architecture
        table = resolved_table(architecture)
        return {name: value for name, value in table.items() if name not in DERIVED_SIZES}

    @cached_property
    def training(self) -> Table | None:
        """What it was trained on and how, stage by stage; None where no record says so."""
        if self._point is None or self._point.trained is None:
            return None
        stages = list(map(_stage_table, self._point.trained))
        if len(stages) == 1:
            return stages[0]
        return {"stages": {str(number): stage for number, stage in enumerate(stages)}}


def resolved_table(architecture: Architecture) -> Table:
    """Every field of an architecture, with the widths that it leaves to be derived."""
    table = architecture.model_dump(mode="json")
    block = resolve(architecture).stack.layers[-1].model_dump(mode="json")
    for part in ("attention", "feed_forward"):
        for name, value in table[part].items():
            if value is None:
                table[part][name] = block[part].get(name)
    return table


def _stage_table(stage: Stage) -> Table:
    table = stage.model_dump(mode="json", exclude={"kind", "architecture"})
    table["corpus"].pop("tokenizer")  # compared by its content
    for name in (*BOOKKEEPING, *SEEDS):  # what moves no weight, or only by lot
        table["training"].pop(name)
    return table


def _differing_paths(one: Table, other: Table) -> list[str]:
    fields, _ = differing_fields(one, other)
    return list(fields)


def _weights(arm: Arm) -> tuple[str, str] | None:
    begin = arm.run.begin
    return None if begin is None else (begin.weights, begin.tokenizer)


def _tokenizer_digest(arm: Arm) -> str:
    """A digest of the tokenizer that an arm reads with, or what it is without a file."""
    if arm.run.begin is not None:
        return arm.run.begin.tokenizer
    tokenizer = arm.run.stages[0].corpus.tokenizer
    if isinstance(tokenizer, TokenizerFile) and Path(tokenizer.path).is_file():
        return file_sha256(Path(tokenizer.path))
    return tokenizer.model_dump_json()


def _leaf(arm: Arm, path: str) -> Any:
    """The value of a field; of a table, that of its fields."""
    if path in arm.leaves:
        return arm.leaves[path]
    inner = {leaf: value for leaf, value in arm.leaves.items() if leaf.startswith(f"{path}.")}
    return inner or ABSENT
