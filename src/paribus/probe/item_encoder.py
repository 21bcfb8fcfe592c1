"""Tokens of items, laid out as in the training of a run: also of one that is only planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paribus.batch import Vocabulary
from paribus.corpus import TokenisedCorpus, Tokenizer
from paribus.corpus.conversations import Turn, prompt_tokens
from paribus.errors import UnsupportedError
from paribus.objectives import require_permitted
from paribus.objectives.answering import answering_component, mixture_of_one
from paribus.objectives.framing import ItemLayout, LaidItem, item_layout, lay_item
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import Objective
from paribus.spec.run import RunSpec
from paribus.spec.stages import reads_conversations

CHECK_LENGTH = 256  # positions of the example by which it is seen whether answers are hidden


def answer_layout(
    objective: Objective, spec: ResolvedArchitecture, vocabulary: Vocabulary, window: int
) -> ItemLayout:
    """How a model is asked for a target after its context; SpecError where it gives no likelihood
    of one.
    """
    component = answering_component(objective, "likelihood")
    require_permitted(mixture_of_one(component), spec, min(window, CHECK_LENGTH))
    return item_layout(component, spec, vocabulary, window)


@dataclass(frozen=True, eq=False)
class ItemEncoder:
    """A tokenizer with the layout of a training."""

    name: str  # whose it is
    tokenizer: Tokenizer
    layout: ItemLayout
    in_turns: bool  # is a context the turn of a user?

    @staticmethod
    def of_run(run: RunSpec, text: TokenisedCorpus, spec: ResolvedArchitecture) -> ItemEncoder:
        """How a run will be asked once it is trained."""
        stage = run.last
        window = min(stage.training.length, spec.max_length)
        layout = answer_layout(stage.objective, spec, text.vocabulary, window)
        return ItemEncoder("this corpus", text.tokenizer, layout, reads_conversations(run))

    def lay(self, context: str, target: str) -> LaidItem:
        """The tokens of an item; UnsupportedError where its context is too long for the model."""
        context_ids = self._encode_context(context)
        target_ids = self.tokenizer.encode(target)
        item = lay_item(self.layout, repr(context[-20:]), context_ids, target_ids)
        if item.n_truncated:
            raise UnsupportedError(
                f"a context of {len(context_ids)} tokens does not fit the window of"
                f" {self.layout.window}; ask for shorter ones"
            )
        return item

    def require_symbols(self, texts: Iterable[str]) -> None:
        """UnsupportedError unless every symbol is one token."""
        for text in texts:
            n_tokens = len(self.tokenizer.encode(text))
            if n_tokens != len(text):
                raise UnsupportedError(
                    f"the tokenizer of {self.name} makes {n_tokens} tokens of the"
                    f" {len(text)} symbols {text!r}, but each symbol must be one token; train with"
                    " corpus.tokenizer = 'bytes'"
                )

    def _encode_context(self, text: str) -> list[int]:
        if self.in_turns:
            return prompt_tokens([Turn("user", text)], self.tokenizer, self.layout.vocabulary)
        return self.tokenizer.encode(text)
