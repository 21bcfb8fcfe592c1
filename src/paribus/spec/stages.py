"""Stages: what a run goes through, one after another, and what a later stage may change.

A stage begins with the last weights of the stage before it. Its optimizer and its schedule start
anew. All stages of a run have one tokenizer, that of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from paribus.errors import SpecError
from paribus.spec.architecture import (
    Architecture,
    Count,
    LearnedPositions,
    Mask,
    RelativeBias,
    Share,
    Spec,
)
from paribus.spec.begin import Begin
from paribus.spec.corpus import Corpus, TokenizerFile
from paribus.spec.mup import uses_mup
from paribus.spec.objectives import CausalLM, ObjectiveKind
from paribus.spec.resolved import Stack, is_bidirectional, resolve
from paribus.spec.stage_kinds import FIRST_KIND, LATER_KINDS, StageKind, kind_faults
from paribus.spec.training import AdamW, Training

# Text in turns: special tokens of roles are added where an imported tokenizer lacks them, from the
# first stage that reads it on.
ROLE_FORMS = ("conversations", "preferences")
# of the architecture, what a later stage may change
CHANGEABLE_FIELDS = "mask, encoder.mask, dropout and max_length"


def _is_none(value: Any) -> bool:
    return value is None


class EncoderChange(Spec):
    """What a later stage changes of the encoder."""

    mask: Mask
    """The encoder's mask from this stage on."""


class ArchitectureChange(Spec):
    """What a later stage changes of the architecture. Nothing of it has weights."""

    mask: Annotated[Mask | None, Field(exclude_if=_is_none)] = None
    """The mask from this stage on. If left out: that of the stage before."""
    encoder: Annotated[EncoderChange | None, Field(exclude_if=_is_none)] = None
    """The encoder's mask from this stage on. If left out: that of the stage before."""
    dropout: Annotated[Share | None, Field(exclude_if=_is_none)] = None
    """The dropout from this stage on. If left out: that of the stage before."""
    max_length: Annotated[Count | None, Field(exclude_if=_is_none)] = None
    """The greatest length from this stage on, for positions without weights. If left out: that of
    the stage before.
    """


class Stage(Spec):
    """One stage of a run: what is read, what is predicted, how the weights move."""

    kind: StageKind = FIRST_KIND
    """What the stage is for: `pretrain` for the first, then `adapt` (another objective or mask on
    running text), `tune` (tasks as pairs), `instruct` (conversations) or `prefer` (the better of
    two responses). Conversations are for `instruct`, preferences for `prefer`; otherwise nothing
    depends on the name.
    """
    architecture: Annotated[
        ArchitectureChange, Field(exclude_if=lambda change: change == ArchitectureChange())
    ] = ArchitectureChange()
    """What changes of the architecture from this stage on. The first stage changes nothing."""
    corpus: Corpus = Corpus()
    """What is read."""
    objective: ObjectiveKind = CausalLM()
    """What is predicted."""
    training: Training
    """How the weights move."""


class RunSpec(Spec):
    """An architecture and its stages, in order."""

    architecture: Architecture  # of the first stage, or of what it begins with
    stages: tuple[Stage, ...]
    # The same run made again, to see whether it repeats, has another number and so another folder.
    rerun: Annotated[int, Field(ge=0, exclude_if=lambda number: number == 0)] = 0
    # Weights that no stage of the run has trained; None: initial ones.
    begin: Annotated[Begin | None, Field(exclude_if=_is_none)] = None
    # The folders of the first stages, where a run begins from another whose stages they are.
    inherited_folders: Annotated[tuple[str, ...], Field(exclude=True)] = ()

    @property
    def last(self) -> Stage:
        """The stage that the run ends with."""
        return self.stages[-1]

    @property
    def last_architecture(self) -> Architecture:
        """The architecture that the run ends with."""
        return stage_architectures(self)[-1]

    @property
    def parent(self) -> RunSpec | None:
        """The run without its last stage; None where there is only one."""
        if len(self.stages) == 1:
            return None
        return self.first_stages(len(self.stages) - 1)

    def first_stages(self, n_stages: int) -> RunSpec:
        """The run as far as one of its stages."""
        return self.model_copy(update={"stages": self.stages[:n_stages]})

    def with_rate(self, number: int, rate: float) -> RunSpec:
        """The run with another learning rate in one of its stages."""
        stages = list(self.stages)
        training = stages[number].training
        optimizer = training.optimizer.model_copy(update={"rate": rate})
        training = training.model_copy(update={"optimizer": optimizer})
        stages[number] = stages[number].model_copy(update={"training": training})
        return self.model_copy(update={"stages": tuple(stages)})

    def with_last(self, stage: Stage) -> RunSpec:
        """The run with another last stage."""
        return self.model_copy(update={"stages": (*self.stages[:-1], stage)})


def reads_conversations(run: RunSpec) -> bool:
    """Whether a stage of a run was trained on conversations, or on responses that end them."""
    return any(stage.corpus.form in ROLE_FORMS for stage in run.stages)


def stage_architectures(run: RunSpec) -> tuple[Architecture, ...]:
    """The architecture of each stage: that of the stage before, with its changes."""
    architectures: list[Architecture] = []
    architecture = run.architecture
    for stage in run.stages:
        changed = _changed(architecture, stage.architecture)
        architecture = _with_added_rows(changed, stage.corpus.tokenizer)
        architectures.append(architecture)
    return tuple(architectures)


def _with_added_rows(architecture: Architecture, tokenizer: Any) -> Architecture:
    """An architecture with a row for each special token that was added to an imported tokenizer's
    own: the one change of shape.
    """
    if not isinstance(tokenizer, TokenizerFile) or tokenizer.special_tokens is None:
        return architecture
    n_needed = max(tokenizer.special_tokens.values(), default=-1) + 1
    if n_needed <= architecture.n_vocab:
        return architecture
    return architecture.model_copy(update={"n_vocab": n_needed})


def changed_fields(before: Architecture, after: Architecture) -> ArchitectureChange:
    """In which of the fields that a stage may change two architectures differ."""
    fields: dict[str, Any] = {}
    for name in ("mask", "dropout", "max_length"):
        value = getattr(after, name)
        if value != getattr(before, name):
            fields[name] = value
    if before.encoder is not None and after.encoder is not None:
        mask = after.encoder.mask
        if mask is not None and mask != before.encoder.mask:
            fields["encoder"] = EncoderChange(mask=mask)
    return ArchitectureChange(**fields)


def _changed(architecture: Architecture, change: ArchitectureChange) -> Architecture:
    fields: dict[str, Any] = {}
    for name in ("mask", "dropout", "max_length"):
        value = getattr(change, name)
        if value is not None:
            fields[name] = value
    if change.encoder is not None and architecture.encoder is not None:
        encoder = architecture.encoder.model_copy(update={"mask": change.encoder.mask})
        fields["encoder"] = encoder
    return architecture.model_copy(update=fields)


def addressed_stages(run: RunSpec, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The stages that a run is addressed by, each with the fingerprint of its text; a rerun has
    its number there, too.
    """
    again = {"rerun": run.rerun} if run.rerun else {}
    tables: list[dict[str, Any]] = []
    for stage, architecture, text in zip(run.stages, stage_architectures(run), texts, strict=True):
        own = stage.model_dump(mode="json", exclude={"architecture"})
        table = {"architecture": architecture.model_dump(mode="json"), "text": text}
        tables.append({**table, **own, **again})
    if run.begin is not None:
        tables[0]["begin"] = run.begin.model_dump(mode="json", exclude={"path"})
    return tables


def stage_corpus(corpus: Corpus, first: Corpus, tokenizer: Path) -> Corpus:
    """The corpus of a stage as it is tokenised: with the tokenizer of the first stage, which lies
    in a file by then.
    """
    if corpus == first:
        return corpus
    file = TokenizerFile(path=str(tokenizer))
    if isinstance(corpus.tokenizer, TokenizerFile):
        file = corpus.tokenizer.model_copy(update={"path": str(tokenizer)})
    return corpus.model_copy(update={"tokenizer": file})


def require_valid_chain(run: RunSpec) -> None:
    """SpecError that lists every stage which cannot follow the one before it."""
    problems = list(_chain_faults(run))
    if problems:
        raise SpecError(problems)


def _chain_faults(run: RunSpec) -> Iterator[str]:
    first, n_first = run.stages[0], 0
    if run.begin is None:
        n_first = 1
        if first.kind != FIRST_KIND:
            yield (
                f"stages.0.kind is {first.kind!r}, but nothing was trained before; use"
                f" {FIRST_KIND!r}"
            )
        if first.architecture != ArchitectureChange():
            yield (
                "stages.0.architecture changes what the run begins with; write it under"
                " architecture instead"
            )
    for number, stage in enumerate(run.stages):
        for fault in kind_faults(stage.kind, stage.corpus, stage.objective, stage.training):
            yield f"stages.{number}.{fault}"
    yield from _mup_faults(run)
    before = run.architecture
    for number, stage in enumerate(run.stages[n_first:], n_first):
        if stage.kind == FIRST_KIND:
            yield (
                f"stages.{number}.kind is {stage.kind!r}, which only a stage that begins with"
                f" initial weights can be; use {_one_of(LATER_KINDS)}"
            )
        after = _changed(before, stage.architecture)
        for fault in _change_faults(before, after, stage.architecture):
            yield f"stages.{number}.architecture.{fault}"
        before = after


def _mup_faults(run: RunSpec) -> Iterator[str]:
    """Stages whose optimizer has no rates by role."""
    if not uses_mup(run.architecture):
        return
    for number, stage in enumerate(run.stages):
        where = f"stages.{number}." if len(run.stages) > 1 else ""
        if not isinstance(stage.training.optimizer, AdamW):
            yield (
                f"{where}training.optimizer is {stage.training.optimizer.kind!r} with"
                " architecture.init 'mup', whose rates are AdamW's; use 'adamw', or another init"
            )


def _one_of(names: Sequence[str]) -> str:
    *first, last = map(repr, names)
    return f"{', '.join(first)} or {last}"


def _change_faults(
    before: Architecture, after: Architecture, change: ArchitectureChange
) -> Iterator[str]:
    """Why a stage cannot change the architecture so: weights would mean something else."""
    if change.encoder is not None and before.encoder is None:
        yield "encoder.mask is given, but there is no encoder; leave it out"
    if before.max_length != after.max_length and isinstance(before.positions, LearnedPositions):
        yield (
            f"max_length is {after.max_length}, but learned positions have weights for"
            f" {before.max_length}; leave it out, or use positions without weights"
        )
    try:
        stacks = zip(resolve(before).stacks, resolve(after).stacks, strict=True)
    except SpecError as fault:
        yield from fault.problems
        return
    for name, (old, new) in zip(("mask", "encoder.mask"), stacks, strict=False):
        if _reads_positions_differently(old, new):
            yield (
                f"{name} is {str(new.masks[0])!r} after {str(old.masks[0])!r}, but relative biases"
                " have other buckets where positions ahead are seen, so trained biases would stand"
                " for other distances; use a mask of the same direction, or other positions"
            )


def _reads_positions_differently(old: Stack, new: Stack) -> bool:
    """T5's relative bias keeps half its buckets for distances ahead where any layer looks ahead."""
    if not isinstance(old.positions, RelativeBias):
        return False
    return is_bidirectional(old) != is_bidirectional(new)


def indexed_stages(table: Mapping[str, Any]) -> dict[str, Any]:
    """A run's table whose stages lie by their number, "0", "1", …, so that a path can name one."""
    stages = table.get("stages")
    if isinstance(stages, list | tuple):
        return {**table, "stages": {str(number): stage for number, stage in enumerate(stages)}}
    return dict(table)
