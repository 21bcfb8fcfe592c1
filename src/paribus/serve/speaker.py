"""A checkpoint that can be talked to: its model, how a text or a conversation is laid before it,
and how much of a window they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from paribus.corpus.conversations import ASSISTANT, Turn
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.generate import TextDecoder, can_generate
from paribus.generate.mask_filling import fills_masks, mask_filling_layout
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, generation_layout, lay_context
from paribus.record import RUNS
from paribus.serve.foreign_template import ForeignTemplate, read_foreign_template
from paribus.spec.objectives import Objective
from paribus.vocabulary import NO_FRAME


@dataclass(frozen=True, eq=False)
class Speaker:
    """A checkpoint that can be talked to.

    `layout` is how a text is laid before the model; `template` is that of an imported model which
    brought one along.
    """

    name: str
    checkpoint: LoadedCheckpoint
    model: Transformer
    layout: ItemLayout
    template: ForeignTemplate | None = None

    @cached_property
    def decoder(self) -> TextDecoder:
        return TextDecoder(self.checkpoint.tokenizer, self.checkpoint.vocabulary)

    @property
    def window(self) -> int:
        """How many positions it can read."""
        return self.layout.window

    @property
    def fills_masks(self) -> bool:
        """Does it fill masks, and not say what comes next?"""
        objective = self.layout.component.objective
        return fills_masks(objective) and not can_generate(self.model)

    @property
    def can_chat(self) -> bool:
        """Was it trained on conversations, here or elsewhere?"""
        if self.fills_masks:
            return False
        return self.checkpoint.chat_template is not None or self.template is not None

    @cached_property
    def chat_layout(self) -> ItemLayout:
        """How a conversation is laid before it. A template of another has all special tokens."""
        if self.checkpoint.chat_template is not None or self.template is None:
            return self.layout
        return replace(self.layout, document_prefix=(), mode_token=(), frame=NO_FRAME)

    def text_tokens(self, text: str) -> list[int]:
        """A text to go on from, as `paribus generate` reads it."""
        return prompt_ids(self.checkpoint, text)

    def chat_tokens(
        self, turns: Sequence[Turn], contents: Sequence[Ids | None] | None = None
    ) -> list[int]:
        """Turns up to where the assistant speaks. `contents` are the tokens of turns that have
        some already: what the model said itself is not encoded again.
        """
        if contents is None:
            contents = [None] * len(turns)
        if self.checkpoint.chat_template is not None:
            return self._own_turn_tokens(turns, contents)
        if self.template is None:
            raise SpecError(
                f"{self.name!r} was not trained on conversations and has no chat template; give it"
                " a text to continue, or use a run with a stage of the kind 'instruct'"
            )
        return self.template.tokens(turns, contents)

    def _own_turn_tokens(self, turns: Sequence[Turn], contents: Sequence[Ids | None]) -> list[int]:
        tokenizer, vocabulary = self.checkpoint.tokenizer, self.checkpoint.vocabulary
        roles = vocabulary.role_tokens
        ids: list[int] = []
        for turn, own in zip(turns, contents, strict=True):
            if own is None:
                own = tokenizer.encode(turn.content)
            ids += [roles[turn.role], *own, vocabulary.end_of_turn]
        return [*ids, roles[ASSISTANT]]


def load_speaker(
    run: str | Path,
    runs: str | Path = RUNS,
    tokenizer: str | Path | None = None,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> Speaker:
    """A run or a checkpoint that can be talked to, under the name of its folder; its weights are
    in `dtype`, or as they are stored.
    """
    checkpoint = load_checkpoint(run, runs, tokenizer=tokenizer)
    model = checkpoint.restore(device, dtype)
    template = None
    if checkpoint.chat_template is None:
        template = read_foreign_template(checkpoint)
    folder = checkpoint.run or checkpoint.folder
    return Speaker(
        name=folder.resolve().name,
        checkpoint=checkpoint,
        model=model,
        layout=prompt_layout(checkpoint, model),
        template=template,
    )


def prompt_layout(checkpoint: LoadedCheckpoint, model: Transformer) -> ItemLayout:
    """How a text to go on from is laid before a model, as in its training."""
    spec, vocabulary = checkpoint.spec, checkpoint.vocabulary
    objective = known_objective(checkpoint)
    if objective is not None and fills_masks(objective) and not can_generate(model):
        return mask_filling_layout(objective, spec, vocabulary, spec.max_length)
    layout = generation_layout(objective, spec, vocabulary, spec.max_length)
    if objective is None:
        return layout
    return replace(layout, in_turns=checkpoint.chat_template is not None)


def prompt_ids(checkpoint: LoadedCheckpoint, text: str) -> list[int]:
    """The tokens of a text to go on from. An imported tokenizer adds what it always adds where
    nobody knows what its model was trained to predict.
    """
    if known_objective(checkpoint) is None:
        return checkpoint.encode_text(text)
    return checkpoint.encode_prompt(text)


def known_objective(checkpoint: LoadedCheckpoint) -> Objective | None:
    """What a model was trained to predict; None where that is not known."""
    try:
        return checkpoint.objective()
    except (UnsupportedError, RecordError):
        return None


def context_fits(layout: ItemLayout, context: Sequence[int], n_tokens: int) -> bool:
    """Is there room for all of a context and for an answer of so many tokens?"""
    laid = lay_context(layout, context, n_tokens)
    return laid.n_truncated == 0 and n_tokens <= answer_room(layout, laid.inputs)


def answer_room(layout: ItemLayout, inputs: Ids) -> int:
    """How many tokens can be said after those that are laid before a model. The last one is
    said, and not read.
    """
    n_inputs = len(inputs)
    if layout.framing == "apart":
        start = layout.vocabulary.decoder_start
        n_inputs = len(layout.encoded_turns(inputs).text(start))
    return layout.window - n_inputs - len(layout.opening) + 1
