"""The field's usual words are answered with ours, wherever they are written, and never accepted."""

import re

import pytest

from paribus.cli import main
from paribus.errors import SpecError
from paribus.masks.notation import NOTATION
from paribus.spec import load
from paribus.spec.design_reading import load_design
from paribus.spec.fields import all_tables, find_fields
from paribus.spec.run import load_objective, load_run
from paribus.spec.spelling import key_advice, word_advice
from paribus.spec.usual_words import USUAL_KEYS, USUAL_MEANINGS, USUAL_VALUES
from paribus.spec.yardstick import load_yardstick

RUN = {"architecture": "gpt2", "training": {"n_steps": 3}}
DESIGN = {
    "question": "?",
    "baseline": "a",
    "factor": "architecture.mask",
    "base": RUN,
    "arms": {"a": {}, "b": {}},
}


def complaint(function, *given) -> str:
    with pytest.raises(SpecError) as caught:
        function(*given)
    return str(caught.value)


@pytest.mark.parametrize("word", USUAL_KEYS)
def test_a_usual_key_leads_to_a_field_that_there_is_and_is_none_itself(word):
    for target in USUAL_KEYS[word]:
        path = target.partition(" = ")[0]
        assert find_fields(path), path
        outer = path.rpartition(".")[0]
        if outer:
            keys = [field.key for table in find_fields(outer).tables for field in table.fields]
            assert word not in keys


def test_a_usual_value_leads_to_a_value_that_some_field_allows():
    kinds = {table.kind for table in all_tables()}
    values = " ".join(field.values for table in all_tables() for field in table.fields)
    allowed = (
        kinds
        | set(re.findall(r"`([^`]*)`", values))
        | {word.partition("(")[0] for word in NOTATION}
    )
    assert {ours for targets in USUAL_VALUES.values() for ours in targets} <= allowed


def test_a_usual_meaning_stands_at_a_field_that_there_is():
    keys = {field.key for table in all_tables() for field in table.fields}
    assert set(USUAL_MEANINGS) <= keys


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "training.lr",
            1e-3,
            "training.lr is not a key here; it is called 'training.optimizer.rate' here; keys",
        ),
        ("training.optimizer.lr", 1e-3, "it is called 'rate' here; keys are kind, rate, beta1"),
        (
            "lr",
            1e-3,
            (
                "lr is not a key here; it is called 'training.optimizer.rate' here; keys are"
                " architecture"
            ),
        ),
        ("training.batch_size", 8, "it is called 'n_sequences' here"),
        ("training.max_steps", 8, "it is called 'n_steps' here"),
        ("training.weight_decay", 0.1, "it is called 'training.optimizer.decay' here"),
        ("training.warmup_steps", 8, "it is called 'warmup' here"),
        ("training.Warmup-Steps", 8, "it is called 'warmup' here"),
        ("training.seq_len", 8, "it is called 'length' here"),
        ("training.context_length", 8, "it is called 'length' here"),
        ("architecture.context_length", 8, "it is called 'max_length' here"),
        (
            "architecture.hidden_size",
            8,
            "architecture.hidden_size is not a key here; it is called 'd_model' here",
        ),
        ("architecture.n_embd", 8, "it is called 'd_model' here"),
        ("architecture.num_hidden_layers", 8, "it is called 'n_layers' here"),
        ("architecture.num_attention_heads", 8, "it is called 'attention.n_heads' here"),
        ("architecture.n_head", 8, "it is called 'attention.n_heads' here"),
        ("architecture.n_heads", 8, "did you mean 'attention.n_heads'?"),
        ("architecture.attention.num_heads", 8, "it is called 'n_heads' here"),
        ("architecture.rope", True, "write positions = 'rotary'"),
        (
            "architecture.positions",
            "rope",
            "architecture.positions.kind is 'rope'; it is called 'rotary' here; use",
        ),
        ("architecture.positions.kind", "RoPE", "it is called 'rotary' here"),
        ("architecture.norm", "rmsnorm", "it is called 'rms' here"),
        ("architecture.placement", "pre-norm", "it is called 'pre' here"),
        (
            "architecture.feed_forward",
            "swiglu",
            "write { kind = 'dense', activation = 'silu', gated = true }",
        ),
        ("architecture.feed_forward.activation", "swiglu", "write 'silu' with gated = true"),
        ("architecture.mask", "bidirectional", "; 'bidirectional' is called 'full' here"),
        (
            "architecture.mask",
            "causal & sliding_window(8)",
            "; 'sliding_window' is called 'window' here",
        ),
        ("objective", "mlm", "objective.kind is 'mlm'; it is called 'masked' here"),
        ("objective", "clm", "it is called 'causal' here"),
        ("objective.kind", "span_corruption", "it is called 'spans' here"),
        ("training.optimizer", "adam", "write { kind = 'adamw', decay = 0.0 }"),
        ("training.optimizer", "lion", "optimizers are 'adamw', 'adafactor' and 'muon'"),
        ("training.optimizer.kind", "adamw_torch", "it is called 'adamw' here"),
        ("training.schedule", "linear_decay", "it is called 'linear' here"),
        ("training.schedule", "wsd", "it is called 'trapezoid' here"),
        ("corpus.tokenizer", "huggingface", "it is called 'file' here"),
        ("corpus.sources", [{"kind": "jsonl", "paths": "x"}], "it is called 'files' here"),
        ("training.epochs", 3, "write n_steps = STEPS"),
        ("model", "gpt2", "it is called 'architecture' here"),
    ],
)
def test_a_usual_word_in_a_run_is_answered_with_ours(path, value, said):
    assert said in complaint(load_run, RUN, {path: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_seeds": 5}, "n_seeds is not a key here; it is called 'seeds' here"),
        ({"metric": "ppl"}, "it is called 'primary.measure' here"),
        (
            {"primary": {"measure": "perplexity"}},
            "primary.measure.kind is 'perplexity'; it is called 'halves' here",
        ),
        ({"primary": {"test": "non-inferiority"}}, "it is called 'not worse' here"),
        ({"match": {"by": "params"}}, "it is called 'parameters' here"),
        ({"budget": "tokens"}, "it is called 'tokens_read' here"),
        ({"tune": {"split": "validation"}}, "it is called 'valid' here"),
        (
            {"base": {**RUN, "lr": 3}},
            "base.lr is not a key here; it is called 'training.optimizer.rate' here",
        ),
        (
            {"arms": {"a": {}, "b": {"model": "gpt2"}}},
            "b.model is not a key here; it is called 'architecture' here",
        ),
        ({"scales": {"debug": {}}}, "scales.debug is not a key here; it is called 'smoke' here"),
    ],
)
def test_a_usual_word_in_a_design_is_answered_with_ours(change, said):
    assert said in complaint(load_design, {**DESIGN, **change})


def test_a_usual_word_is_answered_wherever_a_spec_is_read(capsys):
    assert "it is called 'attention.n_heads' here" in complaint(
        lambda: load("gpt2", changes={"n_head": 4})
    )
    assert "it is called 'masked' here" in complaint(load_objective, "mlm")
    assert "it is called 'pseudo' here" in complaint(load_yardstick, "pll")
    for words, said in [
        (("show", "mlm"), "it is called 'masked' here; objectives are"),
        (("show", "gpt2", "--set", "hidden_size=8"), "it is called 'd_model' here"),
        (("fields", "training.lr"), "it is called 'training.optimizer.rate' here"),
        (("fields", "rope"), "write architecture.positions = 'rotary'"),
    ]:
        assert main(list(words)) == 2
        assert said in capsys.readouterr().err


def test_a_usual_word_that_is_not_allowed_at_its_place_is_not_offered():
    assert word_advice("rope", ["multi_head", "latent"]) == ""
    assert word_advice("t5", ["causal", "spans"]) == "it is called 'spans' here; "
    assert word_advice("zzz", ["causal"]) == ""
    assert key_advice("zzz", "training", ["n_steps"]) == ""
