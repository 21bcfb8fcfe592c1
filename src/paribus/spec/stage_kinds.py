"""Which text and which objective a kind of stage asks for: conversations are for `instruct`,
preferences for `prefer`, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from paribus.spec.corpus import DOCUMENT_FORMS, Corpus
from paribus.spec.objectives import Objective, Seq2Seq

StageKind = Literal["pretrain", "adapt", "tune", "instruct"]
FIRST_KIND: StageKind = "pretrain"
LATER_KINDS: tuple[StageKind, ...] = ("adapt", "tune", "instruct")


def kind_faults(kind: StageKind, corpus: Corpus, objective: Objective) -> Iterator[str]:
    """Why a stage of a kind cannot have this text, or this objective."""
    if kind == "instruct":
        yield from _instruct_faults(corpus, objective)
    elif corpus.form == "conversations":
        yield (
            f"kind is {kind!r}, but corpus.sources gives conversations; use 'instruct', or a"
            " source of pairs"
        )


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
