"""What is asked with what: the layout and the tokens of a model, known before its weights are.

A model that fills masks is asked for pseudo-likelihoods. They are no probabilities: they choose
among options, and are labelled. One that was trained on conversations reads a context as the turn
of a user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paribus.batch import Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.conversations import user_turn_frame
from paribus.corpus.dataset import vocabulary_of
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate.likelihood import CHECK_LENGTH, AskedModel
from paribus.objectives import require_permitted
from paribus.objectives.answering import answering_component, mixture_of_one
from paribus.objectives.framing import Ids, ItemLayout, item_layout
from paribus.spec import ResolvedArchitecture
from paribus.spec.measure import LikelihoodKind
from paribus.spec.objectives import MaskedLM, Objective, components_of


@dataclass(frozen=True, eq=False)
class TaskArm:
    """How a model is asked: the layout of its items, and the tokens they are made of."""

    tokenizer: Tokenizer
    layout: ItemLayout
    label: LikelihoodKind

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The tokens of each text, all at once; a text that occurs twice is encoded once."""
        distinct = list(dict.fromkeys(texts))
        ids = dict(zip(distinct, self.tokenizer.encode_short(distinct), strict=True))
        return [ids[text] for text in texts]

    @property
    def turn_frame(self) -> tuple[Ids, Ids]:
        """What stands before and after a context that is the turn of a user; nothing elsewhere."""
        if self.layout.in_turns:
            return user_turn_frame(self.layout.vocabulary)
        return (), ()

    def encode_contexts(self, texts: Sequence[str]) -> list[Ids]:
        """The tokens of contexts; where nothing precedes an empty one, the token before every
        document stands for it.
        """
        contexts = self.encode(texts)
        before, after = self.turn_frame
        if before:
            return [(*before, *ids, *after) for ids in contexts]
        if self.layout.document_prefix:
            return contexts
        return [ids or (self.layout.vocabulary.bos,) for ids in contexts]

    def encode_targets(self, texts: Sequence[str]) -> list[Ids]:
        """The tokens of targets; UnsupportedError where they do not give back a text, so that its
        bytes are not those that are predicted.
        """
        targets = self.encode(texts)
        if self.tokenizer.writes_every_byte:
            return targets
        for text, ids in dict(zip(texts, targets, strict=True)).items():
            unknown = self.tokenizer.unknown_id in ids
            if unknown or self.tokenizer.decode(ids).strip() != text.strip():
                raise UnsupportedError(
                    f"the tokenizer does not give back {text[:40]!r}, so its bytes are not those"
                    " that are predicted; use a tokenizer that loses nothing, such as byte-level"
                    " BPE"
                )
        return targets


def task_arm(
    spec: ResolvedArchitecture,
    objective: Objective,
    tokenizer: Tokenizer,
    vocabulary: Vocabulary | None = None,
    window: int | None = None,
    in_turns: bool = False,
) -> TaskArm:
    """How a model of this spec and objective is asked; SpecError where it cannot be."""
    label = likelihood_kind(objective)
    component = answering_component(objective, label)
    vocabulary = vocabulary or vocabulary_of(tokenizer)
    if vocabulary.size > spec.n_vocab:
        raise SpecError(
            f"the model has n_vocab {spec.n_vocab}, but the tokenizer and our special tokens need"
            f" {vocabulary.size}; give the tokenizer it was trained with"
        )
    window = min(window or spec.max_length, spec.max_length)
    require_permitted(mixture_of_one(component), spec, min(window, CHECK_LENGTH))
    layout = item_layout(component, spec, vocabulary, window)
    return TaskArm(tokenizer, replace(layout, in_turns=in_turns), label)


def asked_model_arm(asked_model: AskedModel) -> TaskArm:
    """How a model is asked that is there already."""
    return task_arm(
        asked_model.model.spec,
        asked_model.objective,
        asked_model.tokenizer,
        asked_model.vocabulary,
        asked_model.window,
        asked_model.in_turns,
    )


def likelihood_kind(objective: Objective) -> LikelihoodKind:
    """What a model can say of an option: a pseudo-likelihood where all it learnt is to fill
    masks.
    """
    components = components_of(objective)
    if all(isinstance(component.objective, MaskedLM) for component in components):
        return "pseudo-likelihood"
    return "likelihood"
