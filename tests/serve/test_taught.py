"""What a page offers to try is what a run was taught, with questions that it has not read."""

from __future__ import annotations

from pathlib import Path

from paribus.corpus.languages.questions import language_questions, turn_answer
from paribus.corpus.splits import split_digest, split_of
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.serve.taught import MAX_FOLLOW_UPS, N_PROMPTS, example_prompts, taught_words
from paribus.spec.corpus import Corpus
from paribus.spec.run import Stage
from paribus.spec.training import Training
from paribus.watcher import Watcher

SEVERAL = Corpus.model_validate(
    {
        "sources": [
            {
                "kind": kind,
                "form": "conversations",
                "phrasings": f"{kind} {{source}}.",
                "min_turns": 2,
                "max_turns": 3,
                "n_documents": 300,
            }
            for kind in ("sort", "recall", "translation")
        ],
        "test": 0.2,
    }
)


def stage_of(corpus: Corpus) -> Stage:
    return Stage(kind="instruct", corpus=corpus, training=Training(n_steps=1))


def test_prompts_are_questions_that_a_run_has_not_read(served_runs: Path) -> None:
    stage = load_checkpoint("causal", served_runs).stage
    assert stage is not None
    assert taught_words(stage) == "It was last taught reverse, and knows little else."
    prompts = example_prompts(stage)
    assert len(prompts) == N_PROMPTS
    (language,) = stage.corpus.sources
    for prompt in prompts:
        assert set(prompt.text.removesuffix("=")) <= set("abcde")
        assert prompt.text.endswith("=")
        assert prompt.follow_ups == ()
    trained = set()
    for question in language_questions(language, Watcher()):
        split = split_of(split_digest(question.documents[0]), stage.corpus.valid, stage.corpus.test)
        if split == "train":
            trained.add(question.question)
    assert trained
    assert not trained & {prompt.text for prompt in prompts}
    assert example_prompts(stage) == prompts


def test_every_language_has_prompts_and_what_can_follow_them() -> None:
    stage = stage_of(SEVERAL)
    prompts = example_prompts(stage)
    assert [prompt.text.split()[0] for prompt in prompts[:3]] == ["sort", "recall", "translation"]
    assert len(prompts) == 3 * N_PROMPTS
    for number, prompt in enumerate(prompts):
        language = SEVERAL.sources[number % 3]
        assert 1 <= len(prompt.follow_ups) <= MAX_FOLLOW_UPS
        for message in prompt.follow_ups:
            assert turn_answer(language, (prompt.text, message))
    assert taught_words(stage) == (
        "It was last taught sort, recall, translation, in conversations of up to 3 questions, of"
        " which the later ones are about the first. It knows little else."
    )


def test_a_run_without_conversations_offers_none(served_runs: Path) -> None:
    assert example_prompts(load_checkpoint("base", served_runs).stage) == []
    assert example_prompts(None) == []
    assert taught_words(None) is None
