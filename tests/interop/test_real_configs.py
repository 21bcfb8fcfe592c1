"""Published configs are read: what no class reads is passed over with a note, what could change
logits is refused.

Each is the config.json of its name, at tiny sizes.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_folder import change_config, export_random_model

from paribus.batch import Batch
from paribus.errors import RecordError, UnsupportedError
from paribus.interop import export, import_
from paribus.runtime import torch_generator

transformers = pytest.importorskip("transformers")

SMOLLM2_INSTRUCT = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 18,
    "initializer_range": 0.041666666666666664,
    "intermediate_size": 23,
    "is_llama_config": True,
    "max_position_embeddings": 64,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 2,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers.js_config": {
        "dtype": "q4",
        "kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"},
        "use_external_data_format": {"model.onnx": True},
    },
    "transformers_version": "4.42.3",
    "use_cache": True,
    "vocab_size": 37,
}
DISTILGPT2 = {
    "_num_labels": 1,
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 36,
    "embd_pdrop": 0.1,
    "eos_token_id": 36,
    "id2label": {"0": "LABEL_0"},
    "initializer_range": 0.02,
    "label2id": {"LABEL_0": 0},
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 64,
    "n_embd": 21,
    "n_head": 3,
    "n_layer": 2,
    "n_positions": 64,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 37,
}
BART_LARGE_CNN = {
    "_num_labels": 3,
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["BartForConditionalGeneration"],
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "classifier_dropout": 0.0,
    "d_model": 15,
    "decoder_attention_heads": 3,
    "decoder_ffn_dim": 23,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 2,
    "decoder_start_token_id": 2,
    "dropout": 0.1,
    "early_stopping": True,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 23,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 2,
    "eos_token_id": 2,
    "extra_pos_embeddings": 2,
    "force_bos_token_to_be_generated": True,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "length_penalty": 2.0,
    "max_length": 142,
    "max_position_embeddings": 64,
    "min_length": 56,
    "model_type": "bart",
    "no_repeat_ngram_size": 3,
    "normalize_before": False,
    "normalize_embedding": True,
    "num_beams": 4,
    "num_hidden_layers": 2,
    "output_past": True,
    "pad_token_id": 1,
    "prefix": " ",
    "replacing_rate": 0,
    "scale_embedding": False,
    "static_position_embeddings": False,
    "student_decoder_layers": None,
    "student_encoder_layers": None,
    "task_specific_params": {
        "summarization": {
            "early_stopping": True,
            "length_penalty": 2.0,
            "max_length": 142,
            "min_length": 56,
            "no_repeat_ngram_size": 3,
            "num_beams": 4,
        }
    },
    "transformers_version": "4.7.0.dev0",
    "use_cache": True,
    "vocab_size": 37,
}
REAL = {
    "SmolLM2-135M-Instruct": (
        SMOLLM2_INSTRUCT,
        "LlamaForCausalLM",
        ["is_llama_config", "rope_interleaved", "transformers.js_config"],
    ),
    "distilgpt2": (DISTILGPT2, "GPT2LMHeadModel", ["_num_labels"]),
    "bart-large-cnn": (
        BART_LARGE_CNN,
        "BartForConditionalGeneration",
        ["_num_labels", "replacing_rate", "student_decoder_layers", "student_encoder_layers"],
    ),
}


def published(config: dict[str, Any], classname: str, folder: Path) -> Any:
    """A folder with this very config.json and redrawn weights, and transformers' model of it."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    auto = getattr(transformers, classname)
    model = auto(auto.config_class.from_pretrained(folder)).eval().float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch_generator(1, name)) * 0.4)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    return model


@pytest.mark.parametrize("name", REAL)
def test_a_published_config_is_read_with_a_note_on_each_key_that_is_passed_over(
    name: str, tmp_path: Path
):
    config, classname, passed_over = REAL[name]
    model = published(config, classname, tmp_path / "theirs")
    imported = import_(tmp_path / "theirs")
    assert sorted(note.partition(" is passed over: ")[0] for note in imported.notes) == passed_over
    tokens = torch.arange(3, 16)[None]
    encodes = imported.model.encoder is not None
    more = {"decoder_input_ids": tokens} if encodes else {}
    with torch.no_grad():
        exact = model(tokens, **more)
        mine = imported.model(Batch.of(tokens, source=tokens if encodes else None))
    assert (mine.logits_BTV - exact.logits).abs().max() < 1e-4 * exact.logits.std()


@pytest.mark.parametrize("name", REAL)
def test_what_was_passed_over_is_not_written_again(name: str, tmp_path: Path):
    config, classname, passed_over = REAL[name]
    published(config, classname, tmp_path / "theirs")
    model, kept = import_(tmp_path / "theirs")
    assert set(passed_over) <= kept.keys()
    export(model, tmp_path / "ours", kept)
    assert not json.loads((tmp_path / "ours" / "config.json").read_text()).keys() & set(passed_over)


def test_interleaved_rotary_channels_are_refused(tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"rope_interleaved": True})
    with pytest.raises(
        UnsupportedError,
        match=r"rope_interleaved is true, but rotary channels .*; use null or false",
    ):
        import_(tmp_path / "theirs")


def test_code_for_a_class_that_transformers_has_is_passed_over(tmp_path: Path):
    export_random_model("deepseek-v3", tmp_path / "theirs")
    auto_map = {
        "AutoConfig": "configuration_deepseek.DeepseekV3Config",
        "AutoModel": "modeling_deepseek.DeepseekV3Model",
        "AutoModelForCausalLM": "someone/somewhere--modeling_deepseek.DeepseekV3ForCausalLM",
    }
    change_config(tmp_path / "theirs", {"auto_map": auto_map})
    (note,) = import_(tmp_path / "theirs").notes
    assert (
        note == "auto_map is passed over: transformers has these classes itself, and no remote code"
        " is run"
    )


@pytest.mark.parametrize(
    "auto_map",
    [
        {"AutoModelForCausalLM": "modeling.DeepseekV3WindowForCausalLM"},
        {"AutoModelForCausalLM": "modeling.DeepseekV3ForCausalLM", "AutoModel": "modeling.Mine"},
        {"AutoTokenizer": ["tokenization.DeepseekV3Tokenizer", None]},
        "modeling.DeepseekV3ForCausalLM",
        [1],
    ],
)
def test_code_for_any_other_class_is_refused(auto_map: Any, tmp_path: Path):
    export_random_model("deepseek-v3", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"auto_map": auto_map})
    with pytest.raises(
        UnsupportedError, match=r"auto_map is .*, but .* no remote code is run; use null or {}"
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    "files",
    [
        ("pytorch_model.bin",),
        ("pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"),
        ("a.pt",),
    ],
)
def test_a_folder_of_pickles_says_how_to_convert_it(files: tuple[str, ...], tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    (tmp_path / "theirs" / "model.safetensors").unlink()
    for name in files:
        (tmp_path / "theirs" / name).write_bytes(b"\x80\x04 not to be read")
    with pytest.raises(RecordError) as raised:
        import_(tmp_path / "theirs")
    folder = str(tmp_path / "theirs")
    assert (
        str(raised.value)
        == f"{folder} holds only {', '.join(files)}, and nothing is unpickled; give"
        " model.safetensors, which transformers writes beside it, if you trust what is there:\n"
        f"    model = transformers.LlamaForCausalLM.from_pretrained({folder!r})\n   "
        f" model.save_pretrained({folder!r})"
    )


def test_the_conversion_that_is_named_works(tmp_path: Path):
    model = published(DISTILGPT2, "GPT2LMHeadModel", tmp_path / "theirs")
    (tmp_path / "theirs" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "theirs" / "pytorch_model.bin")
    with pytest.raises(RecordError) as raised:
        import_(tmp_path / "theirs")
    exec(
        "\n".join(line.strip() for line in str(raised.value).splitlines()[1:]),
        {"transformers": transformers},
    )
    assert torch.equal(
        import_(tmp_path / "theirs").model.embedding.weight, model.transformer.wte.weight
    )
