"""What has a class in transformers is written whole; what has none is refused with the reason."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hf_folder import (
    CHANGES,
    export_random_model,
    random_model,
    read_config,
    read_tensors,
    same_model,
    tiny_hf_architecture,
)
from safetensors import safe_open

from paribus.errors import RecordError, UnsupportedError
from paribus.interop import FAMILIES, export, import_
from paribus.interop.family_choice import choose_family
from paribus.model import build, read_origin, restore, save
from paribus.spec import load, presets, resolve

REFUSED = {
    "unilm": r"GPT-2 .*: stack.layers.0-11.mask is 'prefix', GPT-2 has 'causal'; change these",
    "hybrid": r"GPT-2 .*: stack.layers.0-5.mask is 'full', GPT-2 has 'causal'",
    "mixed-heads": (
        r"BERT .*: stack.layers.0-11.mask is 'by_head\(causal, reverse\)', BERT has 'full'"
    ),
    "mixed-layers": r"BERT .*: stack.layers.0,2,4,6,8,10.mask is 'causal', BERT has 'full'",
    "fixed-head": r"BERT .*: stack.layers.0-11.attention.d_head is 128, BERT has 24",
    "palm": r"Llama .*placement is 'parallel', Llama has 'pre'",
    "encdec-causal-encoder": r"T5 .*: encoder.layers.0-11.mask is 'causal', T5 has 'full'",
    "encdec-turns": r"T5 .*: stack.layers.0-11.cross is 'documents_so_far', T5 has 'full'",
    "encdec-mixed-encoder": (
        r"T5 .*: encoder.layers.0-11.mask is 'by_head\(causal, reverse\)', T5 has 'full'"
    ),
    "encdec-shared": r"T5 .*: shared is True, T5 has False",
    "switch": r"T5 .*: stack.layers.1,3,5,7,9,11.feed_forward is 'experts', T5 has 'dense'",
}


def test_every_preset_is_written_or_refused():
    assert {*CHANGES, *REFUSED} == {*presets()}


@pytest.mark.parametrize("preset", CHANGES)
def test_a_preset_of_published_size_has_its_class(preset: str):
    choose_family(resolve(load(preset)))


@pytest.mark.parametrize("preset", REFUSED)
def test_what_no_class_computes_is_refused_with_the_reason(preset: str):
    with pytest.raises(
        UnsupportedError, match=rf"^no class of transformers .* the nearest, {REFUSED[preset]}"
    ):
        choose_family(resolve(load(preset)))


@pytest.mark.parametrize(
    ("preset", "changes", "message"),
    [
        (
            "gpt2",
            {"mask": "causal & strided(8)"},
            "mask is 'causal & strided.8.', GPT-2 has 'causal'",
        ),
        (
            "gpt2",
            {"mask": "causal & same_document"},
            "mask is 'causal & same_document', GPT-2 has 'causal'",
        ),
        ("gpt2", {"attention.score_scale": 0.3}, "score_scale is 0.3, GPT-2 has 0.44"),
        ("gpt2", {"embedding.scale": 2.0}, "embedding.scale is 2.0, GPT-2 has 1.0"),
        ("gpt1", {"feed_forward.activation": "gelu"}, "activation is 'gelu', GPT has 'gelu_tanh'"),
        ("gpt1", {"feed_forward.d_ff": 17}, "d_ff is 17, GPT has 60"),
        ("llama", {"attention.qk_norm": True}, "qk_norm is True, Llama has False"),
        ("llama", {"attention.qk_norm": "fixed"}, "qk_norm is 'fixed', Llama has False"),
        ("llama", {"positions": "alibi"}, "stack.positions is 'alibi', Llama has 'rotary'"),
        ("llama", {"d_model": 13}, "hidden_size is 13, no multiple of num_attention_heads 3"),
        ("bert", {"head.transform": "relu"}, "head.transform is 'relu', BERT has 'gelu'"),
        (
            "bert",
            {"embedding.n_segments": 0},
            "type_vocab_size is 0, but BERT always adds a segment",
        ),
        ("t5", {"head.scale": 2.0}, "head.scale is 2.0, T5 has 0.25"),
        ("bart", {"head.bias": False}, "head.bias is False, BART has True"),
        ("bart", {"norm.eps": 1e-6}, "norm.eps is 1e-06, BART has 1e-05"),
        (
            "mixtral",
            {"feed_forward.router.normalise": False},
            "router.normalise is False, Mixtral has True",
        ),
        ("mixtral", {"feed_forward.n_shared": 1}, "n_shared is 1, Mixtral has 0"),
        ("mixtral", {"feed_forward.router.bias_rate": 0.1}, "bias_rate is 0.1, Mixtral has none"),
        (
            "deepseek-v3",
            {"norm.eps": 1e-5},
            "rms_norm_eps is 1e-05, but the norms within its attention",
        ),
        (
            "deepseek-v3",
            {"feed_forward.n_shared": 0},
            "n_shared_experts is 0, but there is always one",
        ),
        (
            "deepseek-v3",
            {"feed_forward.router.bias_rate": None},
            "bias_rate is none, DeepSeek-V3 has 0.001",
        ),
    ],
)
def test_a_field_a_class_lacks_is_named(preset: str, changes: dict[str, Any], message: str):
    with pytest.raises(UnsupportedError, match=message):
        choose_family(resolve(tiny_hf_architecture(preset, changes)))


def test_a_decoder_alone_is_held_against_decoders():
    spec = load(tiny_hf_architecture("t5").model_dump(mode="json") | {"encoder": None})
    with pytest.raises(UnsupportedError, match=r"stack.positions is 'relative_bias', "):
        choose_family(resolve(spec))


@pytest.mark.parametrize(
    ("model_type", "preset", "message"),
    [
        (
            "mixtral",
            "llama",
            "feed_forward.kind is 'dense', but Mixtral has experts; use 'experts'",
        ),
        (
            "deepseek_v3",
            "mixtral",
            "attention.kind is 'multi_head', but DeepSeek-V3 has latent attention; use 'latent'",
        ),
        ("t5", "gpt2", "encoder is missing, but T5 has one; add encoder ="),
        ("bart", "gpt2", "encoder is missing, but BART has one; add encoder ="),
    ],
)
def test_a_family_says_which_whole_part_a_spec_lacks(model_type: str, preset: str, message: str):
    with pytest.raises(UnsupportedError, match=message):
        FAMILIES[model_type].config(resolve(tiny_hf_architecture(preset)))


def test_what_no_logit_depends_on_does_not_stand_in_the_way():
    training = {"init.std": 0.5, "dropout": 0.3}
    routing = {"feed_forward.balance": "batch", "feed_forward.router.bias_rate": 0.5}
    assert choose_family(resolve(tiny_hf_architecture("gpt2", training))).family.title == "GPT-2"
    assert (
        choose_family(resolve(tiny_hf_architecture("deepseek-v3", training | routing))).family.title
        == "DeepSeek-V3"
    )


@pytest.mark.parametrize(
    ("activation", "word"),
    [("gelu", "gated-gelu_python"), ("gelu_tanh", "gated-gelu"), ("silu", "gated-silu")],
)
def test_a_gated_t5_says_which_gelu_it_means(activation: str, word: str, tmp_path: Path):
    model = export_random_model(
        "t5-v1.1", tmp_path / "ours", {"feed_forward.activation": activation}
    )
    assert read_config(tmp_path / "ours")["feed_forward_proj"] == word
    assert same_model(import_(tmp_path / "ours").model, model)


def test_a_folder_says_its_class_its_dtype_and_its_format(tmp_path: Path):
    export(build(tiny_hf_architecture("gpt2"), dtype=torch.bfloat16), tmp_path / "ours")
    config = read_config(tmp_path / "ours")
    assert (config["architectures"], config["dtype"]) == (["GPT2LMHeadModel"], "bfloat16")
    assert {tensor.dtype for tensor in read_tensors(tmp_path / "ours").values()} == {torch.bfloat16}
    with safe_open(tmp_path / "ours" / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


def test_kept_keys_survive_a_native_checkpoint(tmp_path: Path):
    export_random_model("bart", tmp_path / "theirs")
    kept = {"dropout": 0.7, "pad_token_id": 3, "id2label": {"0": "no"}}
    save(import_(tmp_path / "theirs").model, tmp_path / "native", kept)
    export(restore(tmp_path / "native"), tmp_path / "ours", read_origin(tmp_path / "native"))
    assert read_config(tmp_path / "ours") == read_config(tmp_path / "theirs") | kept


def test_a_folder_that_holds_something_is_left_as_it_was(tmp_path: Path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "mine.txt").write_text("mine")
    with pytest.raises(
        RecordError, match="ours already holds something; give a new or an empty folder"
    ):
        export(random_model("gpt2"), tmp_path / "ours")
    assert [path.name for path in tmp_path.rglob("*")] == ["ours", "mine.txt"]


def test_an_empty_folder_is_filled(tmp_path: Path):
    (tmp_path / "ours").mkdir()
    export(random_model("gpt2"), tmp_path / "ours")
    import_(tmp_path / "ours")


def test_a_refusal_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(UnsupportedError):
        export(build(tiny_hf_architecture("gpt2", {"mask": "prefix"})), tmp_path / "ours")
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, tensors: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("paribus.interop.exporting.write_tensors", full)
    with pytest.raises(
        RecordError,
        match=r"ours cannot be written: .*No space left on device; choose another folder",
    ):
        export(random_model("gpt2"), tmp_path / "ours")
    assert not list(tmp_path.iterdir())
