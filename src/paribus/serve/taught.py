"""What a model was taught, in words, and messages of the kind that it can answer."""

from __future__ import annotations

from paribus.corpus.languages.questions import language_questions
from paribus.spec.languages import Language
from paribus.spec.run import Stage
from paribus.watcher import Watcher

N_PROMPTS = 3  # of each invented language


def taught_words(stage: Stage | None) -> str | None:
    """What the last stage of a run read; None where nobody knows."""
    if stage is None:
        return None
    kinds = dict.fromkeys(source.kind for source in stage.corpus.sources)
    return f"It was last taught {', '.join(kinds)}, and knows little else."


def example_prompts(stage: Stage | None) -> list[str]:
    """New questions of the invented languages that a run was taught in conversations."""
    prompts: list[str] = []
    if stage is None:
        return prompts
    for source in stage.corpus.sources:
        if isinstance(source, Language) and source.form == "conversations":
            changes = {"seed": source.seed + 1, "n_documents": N_PROMPTS}
            other = source.model_copy(update=changes)
            prompts += [one.question for one in language_questions(other, Watcher())]
    return prompts
