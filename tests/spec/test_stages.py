"""Stages: how a chain is written, what a later stage may change, and what it is named after."""

from pathlib import Path
from typing import Any

import pytest

from paribus.errors import SpecError
from paribus.record import run_address
from paribus.spec.corpus import BPETokenizer, TokenizerFile
from paribus.spec.run import addressed_stages, load_run, load_text
from paribus.spec.stages import stage_architectures, stage_corpus

TRAINING = {"n_steps": 4, "length": 16}


def table(*later: dict[str, Any], preset: str = "gpt2", **fields: Any) -> dict[str, Any]:
    sizes = {"n_layers": 2, "d_model": 16, "attention": {"n_heads": 2}}
    positions = {} if preset == "t5" else {"positions": "rotary"}
    return {
        "architecture": {"preset": preset, **positions, **sizes},
        "training": TRAINING,
        "stages": [{"kind": "pretrain"}, *later],
        **fields,
    }


def problems(source: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        load_run(source)
    return caught.value.problems


def test_each_stage_stands_on_the_tables_beside_the_stages():
    run = load_run(table({"kind": "adapt", "objective": "prefix", "training": {"n_steps": 9}}))
    first, second = run.stages
    assert (first.objective.kind, second.objective.kind) == ("causal", "prefix")
    assert (first.training.n_steps, second.training.n_steps) == (4, 9)
    assert (first.training.length, second.training.length) == (16, 16)


@pytest.mark.parametrize(
    ("own", "rate"),
    [
        ("adamw", 0.007),
        ({"kind": "adamw", "decay": 0.0}, 0.007),
        ({"decay": 0.0}, 0.007),
        ({"kind": "muon", "rate": 0.01}, 0.01),
    ],
)
def test_a_stage_that_names_the_default_kind_keeps_what_is_shared_of_it(own, rate):
    shared = {**TRAINING, "optimizer": {"rate": 0.007}}
    later = {"kind": "adapt", "training": {"optimizer": own}}
    first, second = load_run(table(later, training=shared)).stages
    assert first.training.optimizer.rate == 0.007
    assert second.training.optimizer.rate == rate


def test_one_table_each_is_one_stage():
    alone = {"architecture": {"preset": "gpt2"}, "training": TRAINING}
    assert load_run(alone).stages == load_run({**alone, "stages": [{}]}).stages


def test_a_stage_changes_mask_dropout_and_length_from_there_on():
    run = load_run(
        table(
            {"kind": "adapt", "architecture": {"mask": "prefix", "dropout": 0.1}},
            {"kind": "adapt", "architecture": {"max_length": 64}},
        )
    )
    first, second, third = stage_architectures(run)
    assert [str(own.mask) for own in (first, second, third)] == ["causal", "prefix", "prefix"]
    assert [own.dropout for own in (first, second, third)] == [0, 0.1, 0.1]
    assert [own.max_length for own in (first, second, third)] == [16, 16, 64]
    assert run.last_architecture == third


def test_the_encoder_has_a_mask_of_its_own():
    change = {"kind": "adapt", "architecture": {"encoder": {"mask": "causal"}}}
    run = load_run(table(change, preset="bart"))
    encoder = run.last_architecture.encoder
    assert encoder is not None
    assert str(encoder.mask) == "causal"
    (fault,) = problems(table(change))
    assert fault.startswith("stages.1.architecture.encoder.mask is given, but there is no encoder")


def test_anything_else_of_the_architecture_is_refused_by_name():
    (fault,) = problems(table({"kind": "adapt", "architecture": {"d_model": 32}}))
    assert fault.startswith("stages.1.architecture.d_model is not a key here")
    assert "mask, encoder, dropout, max_length" in fault


def test_a_length_that_learned_positions_have_no_weights_for_is_refused():
    source = table({"kind": "adapt", "architecture": {"max_length": 32}})
    source["architecture"]["positions"] = "learned"
    (fault,) = problems(source)
    assert fault == (
        "stages.1.architecture.max_length is 32, but learned positions have weights for 16; leave"
        " it out, or use positions without weights"
    )


@pytest.mark.parametrize("mask", ["full", "prefix"])
def test_a_direction_in_which_relative_biases_mean_something_else_is_refused(mask):
    source = table({"kind": "adapt", "architecture": {"mask": mask}})
    source["architecture"]["positions"] = "relative_bias"
    (fault,) = problems(source)
    assert fault.startswith(f"stages.1.architecture.mask is '{mask}' after 'causal'")
    assert "buckets" in fault


def test_a_window_does_not_change_what_relative_biases_mean():
    source = table({"kind": "adapt", "architecture": {"mask": "causal & window(4)"}})
    source["architecture"]["positions"] = "relative_bias"
    assert str(load_run(source).last_architecture.mask) == "causal & window(4)"


def test_only_the_first_stage_is_pretraining():
    first = {**table(), "stages": [{"kind": "adapt"}]}
    assert problems(first)[0].startswith("stages.0.kind is 'adapt', but nothing was trained before")
    assert problems(table({}))[0].startswith("stages.1.kind is 'pretrain'")


def test_a_kind_beside_stages_is_refused():
    fault = "kind is 'adapt' beside stages; write it in one of them"
    assert fault in problems(table(kind="adapt"))


def test_the_first_stage_changes_nothing():
    source = {**table(), "stages": [{"architecture": {"mask": "full"}}]}
    assert problems(source)[0].startswith("stages.0.architecture changes what the run begins with")


def test_a_run_has_one_tokenizer():
    corpus = {"tokenizer": {"kind": "bpe", "n_vocab": 300}}
    later = {"kind": "tune", "corpus": {"sources": [{"kind": "copy"}]}, "objective": "seq2seq"}
    run = load_run(table(later, corpus=corpus))
    assert run.last.corpus.tokenizer == BPETokenizer(n_vocab=300)
    other = {**later, "corpus": {"tokenizer": "byte"}}
    (fault,) = problems(table(other, corpus=corpus))
    assert fault.startswith("stages.1.corpus.tokenizer is {'kind': 'byte'}")


def test_the_text_of_a_later_stage_is_tokenised_with_the_first_ones_tokenizer():
    later = {"kind": "tune", "corpus": {"sources": [{"kind": "copy"}]}, "objective": "seq2seq"}
    run = load_run(table(later, {"kind": "adapt"}))
    first, second, third = (stage.corpus for stage in run.stages)
    tokenizer = Path("tokenizer.json")
    assert stage_corpus(third, first, tokenizer) == first
    assert stage_corpus(second, first, tokenizer).tokenizer == TokenizerFile(path="tokenizer.json")


def test_a_fault_names_the_stage_it_lies_in():
    later = {"kind": "adapt", "objective": "guess", "training": {"n_step": 3}}
    faults = problems(table(later))
    assert any(fault.startswith("stages.1.training.n_step is not a key here") for fault in faults)
    assert any(fault.startswith("stages.1.objective") for fault in faults)


@pytest.mark.parametrize(
    ("stages", "begins"),
    [
        ([], "stages is {}"),
        ("two", "stages is 'two'"),
        ({"0": {}, "2": {"kind": "adapt"}}, "stages has the numbers 0, 2"),
        ([{}, "adapt"], "stages.1 is 'adapt'"),
    ],
)
def test_stages_that_are_no_list_of_tables_are_refused(stages, begins):
    assert problems({**table(), "stages": stages})[0].startswith(begins)


def test_a_path_names_a_stage_by_its_number():
    run = load_run(table({"kind": "adapt"}), {"stages.1.training.n_steps": 7})
    assert run.last.training.n_steps == 7


def test_the_address_is_that_of_the_chain():
    run = load_run(table({"kind": "adapt", "architecture": {"mask": "prefix"}}))
    assert run.parent is not None
    whole, parent = addressed_stages(run, ["a", "b"]), addressed_stages(run.parent, ["a"])
    assert whole[:1] == parent
    assert whole[1]["architecture"]["mask"] == "prefix"
    assert run_address(whole) != run_address(whole[1:])


def test_a_run_of_one_stage_is_named_as_one_without_stages():
    alone = load_run({"architecture": {"preset": "gpt2"}, "training": TRAINING})
    listed = load_run({"architecture": {"preset": "gpt2"}, "stages": [{"training": TRAINING}]})
    assert addressed_stages(alone, ["a"]) == addressed_stages(listed, ["a"])


def test_the_files_of_a_stage_lie_beside_the_file_that_names_them(tmp_path):
    spec = tmp_path / "run.toml"
    spec.write_text(
        """
        architecture = { preset = "gpt2" }
        training = { n_steps = 4, length = 16 }
        [[stages]]
        [[stages]]
        kind = "adapt"
        corpus.sources = [{ kind = "files", paths = "more.txt" }]
        """
    )
    (tmp_path / "more.txt").write_text("text")
    (source,) = load_run(spec).last.corpus.sources
    assert source.paths == (str(tmp_path / "more.txt"),)


def test_the_text_of_a_chain_is_that_of_its_first_stage():
    later = {"kind": "tune", "corpus": {"sources": [{"kind": "copy"}]}, "objective": "seq2seq"}
    source = table(later, corpus={"sources": [{"kind": "sort", "form": "text"}]})
    assert [own.kind for own in load_text(source).corpus.sources] == ["sort"]
