"""What a model was taught, in words, and messages of the kind that it can answer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from random import Random

from paribus.corpus.languages.follow_ups import draw_follow_up
from paribus.runtime import derive_seed
from paribus.serve.held_out_chat import held_out_questions, taught_languages
from paribus.spec.corpus import Corpus
from paribus.spec.languages import InventedLanguage
from paribus.spec.run import Stage

N_PROMPTS = 3  # of each invented language
MAX_FOLLOW_UPS = 4  # of each prompt
_N_DRAWS = 16


@dataclass(frozen=True)
class ExamplePrompt:
    """A message that begins a conversation, and messages that can follow it."""

    text: str
    follow_ups: tuple[str, ...]


def taught_words(stage: Stage | None) -> str | None:
    """What the last stage of a run read; None where nobody knows."""
    if stage is None:
        return None
    kinds = ", ".join(dict.fromkeys(source.kind for source in stage.corpus.sources))
    max_turns = max((one.max_turns for one in taught_languages(stage.corpus)), default=1)
    if max_turns == 1:
        return f"It was last taught {kinds}, and knows little else."
    return (
        f"It was last taught {kinds}, in conversations of up to {max_turns} questions, of which the"
        " later ones are about the first. It knows little else."
    )


def example_prompts(stage: Stage | None) -> list[ExamplePrompt]:
    """Questions of the invented languages that a run was taught in conversations, one of each
    language first. None of them was in its training text.
    """
    if stage is None:
        return []
    own = [_language_prompts(one, stage.corpus) for one in taught_languages(stage.corpus)]
    in_turn = chain.from_iterable(zip_longest(*own))
    return [prompt for prompt in in_turn if prompt is not None]


def _language_prompts(language: InventedLanguage, corpus: Corpus) -> list[ExamplePrompt]:
    prompts: list[ExamplePrompt] = []
    for one in islice(held_out_questions(language, corpus), N_PROMPTS):
        follow_ups: tuple[str, ...] = ()
        if language.max_turns > 1:
            follow_ups = _follow_ups(language, one.source)
        prompts.append(ExamplePrompt(one.question, follow_ups))
    return prompts


def _follow_ups(language: InventedLanguage, source: str) -> tuple[str, ...]:
    """A few different messages that can follow a question."""
    rng = Random(derive_seed(language.seed, "corpus", language.kind, source, "follow-up"))
    drawn = dict.fromkeys(draw_follow_up(language, source, rng) for _ in range(_N_DRAWS))
    return tuple(sorted(drawn)[:MAX_FOLLOW_UPS])
