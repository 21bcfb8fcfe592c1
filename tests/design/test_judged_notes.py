"""What a budget leaves unequal stands beside the pair."""

from pathlib import Path

import pytest
from sly_designs import plan_text

from paribus.errors import SpecError

SCORED = """
factor = ["objective", "objective.rate"]
budget = "{budget}"
base.corpus.sources = [{{ kind = "copy", n_documents = 400, form = "text" }}]
[arms.plain]
objective = "causal"
[arms.part]
objective = {{ kind = "continuation", rate = 0.1 }}
"""
STAGES = """
factor = "stages.0.training.n_sequences"
match = "nothing"
budget = "tokens_read"
baseline = "plain"
[base]
architecture = { preset = "gpt2", n_layers = 2, d_model = 16, attention = { n_heads = 2 } }
[[base.stages]]
kind = "pretrain"
objective = "prefix"
[[base.stages]]
kind = "adapt"
objective = "prefix"
[arms.plain]
[arms.more]
stages.0.training.n_sequences = SEQUENCES
"""


def notes(text: str, cache: Path) -> tuple[str, ...]:
    (one,) = plan_text(text, cache).judged
    assert all(note in one.description for note in one.notes)
    assert all(note in one.mark for note in one.notes)
    return one.notes


def test_a_budget_of_scored_tokens_says_how_much_more_text_an_arm_reads(study_cache: Path) -> None:
    scored = notes(SCORED.format(budget="tokens_scored"), study_cache)
    assert scored[0].startswith("reads 1")  # ten times, as near as items come
    assert scored[0].endswith(" × the bytes of text")
    assert scored[1].startswith("takes 1")
    assert scored[1].endswith(" steps for 12")
    read, work = notes(SCORED.format(budget="tokens_read"), study_cache)
    assert read.startswith("is scored on 0.")
    assert read.endswith(" × the tokens")
    assert work.endswith(" × the training FLOPs")


def test_a_budget_that_moves_the_steps_of_another_stage_says_so(study_cache: Path) -> None:
    moved = notes(STAGES.replace("SEQUENCES", "6"), study_cache)
    assert moved[-1] == "takes 6 steps in stage 1 for 12"


def test_nothing_is_noted_of_arms_that_read_alike(study_cache: Path) -> None:
    mask = 'factor = "architecture.mask"\n[arms.plain]\n[arms.w]\narchitecture.mask = "prefix"\n'
    assert notes(mask, study_cache) == ()


def test_a_second_name_of_a_run_makes_no_second_comparison(study_cache: Path) -> None:
    mask = """
factor = "architecture.mask"
comparisons = [["w", "plain"], ["w", "also plain"]]
[arms.plain]
[arms."also plain"]
[arms.w]
architecture.mask = "prefix"
"""
    first, second = plan_text(mask, study_cache).judged
    assert first.notes == ()
    assert second.notes == ("the same runs as w against plain",)


GENERATED = """
factor = "corpus.tokenizer"
match = "nothing"
budget = "bytes_read"
base.training.length = 96
base.corpus.sources = [{{ kind = "copy", n_documents = 400, form = "text" }}]
[primary]
margin = 2
[primary.measure]
kind = "task"
[primary.measure.task]
name = "copied"
kind = "generation"
language = {{ kind = "copy", n_documents = 400, min_length = 3, max_length = 6 }}
source = "{{question}}"
references = "{{answer}}"
n_items = 4
{most}
[arms.plain]
[arms.pieces]
corpus.tokenizer = {{ kind = "bpe", n_vocab = 300 }}
"""


def test_answers_of_so_many_tokens_need_one_tokenizer(study_cache: Path) -> None:
    said = (
        "primary.measure: task.max_tokens is 6, and plain and pieces have tokenizers of their own"
    )
    with pytest.raises(SpecError, match=said):
        plan_text(GENERATED.format(most="max_tokens = 6"), study_cache)
    assert plan_text(GENERATED.format(most=""), study_cache).judged


def test_what_padding_adds_to_the_work_of_an_encoder_stands_beside_the_pair(
    study_cache: Path,
) -> None:
    pairs = """
    factor = "architecture.encoder"
    match = { by = "training_flops", moves = ["d_ff"], tolerance = 0.02 }
    budget = "tokens_read"
    primary = { measure = { kind = "pairs", n_items = 4 }, margin = 0.1 }
    allow = { "cut contexts" = "windows are asked about" }
    [base]
    objective = "seq2seq"
    corpus.sources = [{ kind = "copy", n_documents = 400, min_length = 4, max_length = 8 }]
    [arms.plain]
    [arms.other]
    architecture.encoder = { n_layers = ENCODER }
    """
    (one,) = plan_text(pairs.replace("ENCODER", "2"), study_cache).judged
    (said,) = [detail for detail in one.details if "FLOPs in all" in detail]
    assert said.endswith(" × the positions with padding")
    assert said in one.description
    plain = pairs.replace(
        "architecture.encoder = { n_layers = ENCODER }", "architecture.norm = 'rms'"
    )
    plain = plain.replace(
        '"architecture.encoder"', '["architecture.norm", "architecture.norm.eps"]'
    )
    plain = plain.replace("'rms'", "{ kind = 'rms', eps = 1e-5 }")
    (one,) = plan_text(plain, study_cache).judged
    assert not any("FLOPs in all" in detail for detail in one.details)
