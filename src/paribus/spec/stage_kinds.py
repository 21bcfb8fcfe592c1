"""Which text and which objective a kind of stage asks for: conversations are for `instruct`,
preferences for `prefer`, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from paribus.spec.corpus import DOCUMENT_FORMS, Corpus
from paribus.spec.languages import Language
from paribus.spec.objectives import Objective, Preference, Seq2Seq
from paribus.spec.training import Training

StageKind = Literal["pretrain", "adapt", "tune", "instruct", "prefer"]
FIRST_KIND: StageKind = "pretrain"
LATER_KINDS: tuple[StageKind, ...] = ("adapt", "tune", "instruct", "prefer")


def kind_faults(
    kind: StageKind, corpus: Corpus, objective: Objective, training: Training
) -> Iterator[str]:
    """Why a stage of a kind cannot have this text, this objective or this training."""
    match kind:
        case "instruct":
            yield from _instruct_faults(corpus, objective)
        case "prefer":
            yield from _prefer_faults(corpus, objective, training)
        case _:
            yield from _other_faults(kind, corpus, objective)


def _other_faults(kind: StageKind, corpus: Corpus, objective: Objective) -> Iterator[str]:
    owner = {"conversations": "instruct", "preferences": "prefer"}.get(corpus.form)
    if owner is not None:
        yield (
            f"kind is {kind!r}, but corpus.sources gives {corpus.form}; use {owner!r}, or a source"
            " of pairs"
        )
    if isinstance(objective, Preference):
        yield f"kind is {kind!r}, but objective.kind is {objective.kind!r}; use the kind 'prefer'"


def _instruct_faults(corpus: Corpus, objective: Objective) -> Iterator[str]:
    if corpus.form != "conversations":
        yield (
            f"kind is 'instruct', but corpus.sources gives {DOCUMENT_FORMS[corpus.form]}; use a"
            " source 'conversations', form = 'conversations' for an invented language, or the kind"
            " 'tune'"
        )
    if not isinstance(objective, Seq2Seq):
        yield (
            f"kind is 'instruct', but objective.kind is {objective.kind!r}; use 'seq2seq', which"
            " predicts each response from what comes before it"
        )


def _prefer_faults(corpus: Corpus, objective: Objective, training: Training) -> Iterator[str]:
    if not isinstance(objective, Preference):
        yield f"kind is 'prefer', but objective.kind is {objective.kind!r}; use 'preference'"
    elif objective.own_samples is not None:
        yield from _own_samples_faults(corpus)
    elif corpus.form != "preferences":
        yield (
            f"kind is 'prefer', but corpus.sources gives {DOCUMENT_FORMS[corpus.form]}; use a"
            " source 'preferences', form = 'preferences' for an invented language, or"
            " objective.own_samples"
        )
    if training.z_loss:
        yield (
            f"kind is 'prefer', but training.z_loss is {training.z_loss:g}, which is no part of a"
            " loss over pairs; use 0"
        )


def _own_samples_faults(corpus: Corpus) -> Iterator[str]:
    """Own samples are ranked by the answer that an invented language knows."""
    if corpus.shuffled_targets:
        yield (
            "corpus.shuffled_targets is true, but with objective.own_samples the model's own"
            " responses take the place of targets; leave it out"
        )
    kinds = [source.kind for source in corpus.sources]
    if len(kinds) > 1 or not isinstance(corpus.sources[0], Language):
        yield (
            f"objective.own_samples is given, but corpus.sources is {', '.join(kinds)}; use one"
            " invented language, which knows the answers"
        )
    elif corpus.form != "conversations":
        yield (
            f"objective.own_samples is given, but corpus.sources gives"
            f" {DOCUMENT_FORMS[corpus.form]}; use form = 'conversations', from which prompts are"
            " taken"
        )
