"""What a page offers to try is what a run was taught, with other questions."""

from __future__ import annotations

from pathlib import Path

from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.serve.taught import N_PROMPTS, example_prompts, taught_words


def test_prompts_are_new_questions_of_the_languages_that_a_run_was_taught(
    served_runs: Path,
) -> None:
    stage = load_checkpoint("causal", served_runs).stage
    assert taught_words(stage) == "It was last taught reverse, and knows little else."
    prompts = example_prompts(stage)
    assert len(prompts) == N_PROMPTS
    for prompt in prompts:
        assert set(prompt.removesuffix("=")) <= set("abcde")
        assert prompt.endswith("=")
    assert example_prompts(stage) == prompts


def test_a_run_without_conversations_offers_none(served_runs: Path) -> None:
    assert example_prompts(load_checkpoint("base", served_runs).stage) == []
    assert example_prompts(None) == []
    assert taught_words(None) is None
