"""Tensors in: older and newer names, base models, shards, and every way a file can be wrong."""

import json
import re
from pathlib import Path

import pytest
import torch
from hf_folder import (
    CHANGES,
    Tensors,
    change_config,
    change_tensors,
    drop_key,
    export_random_model,
    read_tensors,
    same_model,
)
from safetensors.torch import save_file

from paribus.errors import ParibusError, RecordError
from paribus.interop import import_


def renamed(pattern: str, by: str):
    return lambda tensors: {re.sub(pattern, by, name): tensor for name, tensor in tensors.items()}


def added(name: str, shape: tuple[int, ...]):
    return lambda tensors: tensors | {name: torch.ones(shape)}


@pytest.mark.parametrize("preset", CHANGES)
def test_what_was_exported_is_imported_bit_for_bit(preset: str, tmp_path: Path):
    model = export_random_model(preset, tmp_path / "theirs")
    assert same_model(import_(tmp_path / "theirs").model, model)


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
def test_stored_weights_are_converted_to_the_asked_dtype(
    stored: torch.dtype, wanted: torch.dtype, tmp_path: Path
):
    model = export_random_model("deepseek-v3", tmp_path / "theirs")
    change_tensors(
        tmp_path / "theirs",
        lambda tensors: {name: tensor.to(stored) for name, tensor in tensors.items()},
    )
    found = import_(tmp_path / "theirs", dtype=wanted).model.state_dict()
    for name, tensor in model.state_dict().items():
        # a bias moves in steps too small for half
        kept = torch.float32 if name.endswith("selection_bias") else wanted
        assert torch.equal(found[name], tensor.to(stored).to(kept)), name


BASE = {
    "gpt1": "transformer.",
    "gpt2": "transformer.",
    "bert": "bert.",
    "bart": "model.",
    "llama": "model.",
}


@pytest.mark.parametrize("preset", BASE)
def test_names_without_the_base_models_prefix_are_read(preset: str, tmp_path: Path):
    model = export_random_model(preset, tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", renamed(rf"^{re.escape(BASE[preset])}", ""))
    assert same_model(import_(tmp_path / "theirs").model, model)


@pytest.mark.parametrize(
    ("preset", "name", "shape"),
    [
        ("gpt1", "transformer.h.0.attn.bias", (1, 1, 13, 13)),
        ("gpt2", "transformer.h.1.attn.bias", (1, 1, 13, 13)),
        ("gpt2", "transformer.h.1.attn.masked_bias", ()),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq", (2,)),
        ("mixtral", "model.rotary_emb.inv_freq", (2,)),
        ("bert", "bert.embeddings.position_ids", (1, 13)),
        ("bert", "bert.pooler.dense.weight", (15, 15)),
        ("bert", "cls.seq_relationship.bias", (2,)),
        ("t5", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", (32, 3)),
        ("bart", "model.encoder.version", (1,)),
        ("deepseek-v3", "model.layers.2.eh_proj.weight", (15, 30)),
    ],
)
def test_tensors_that_hold_nothing_learned_for_us_are_passed_over(
    preset: str, name: str, shape: tuple[int, ...], tmp_path: Path
):
    model = export_random_model(preset, tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", added(name, shape))
    if preset == "deepseek-v3":
        change_config(tmp_path / "theirs", {"num_nextn_predict_layers": 1})
    assert same_model(import_(tmp_path / "theirs").model, model)


def test_a_layer_beyond_those_announced_is_not_passed_over(tmp_path: Path):
    export_random_model("deepseek-v3", tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", added("model.layers.3.eh_proj.weight", (15, 30)))
    change_config(tmp_path / "theirs", {"num_nextn_predict_layers": 1})
    with pytest.raises(
        RecordError, match=r"model.layers.3.eh_proj.weight does not belong to it, remove it"
    ):
        import_(tmp_path / "theirs")


def test_gamma_and_beta_are_read(tmp_path: Path):
    model = export_random_model("bert", tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", renamed(r"LayerNorm\.weight", "LayerNorm.gamma"))
    change_tensors(tmp_path / "theirs", renamed(r"LayerNorm\.bias", "LayerNorm.beta"))
    assert same_model(import_(tmp_path / "theirs").model, model)


def test_a_tensor_under_two_names_is_refused(tmp_path: Path):
    export_random_model("bert", tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", added("bert.embeddings.LayerNorm.gamma", (15,)))
    message = (
        r"bert.embeddings.LayerNorm.(gamma|weight) is another name of"
        r" bert.embeddings.LayerNorm.weight, which is"
    )
    with pytest.raises(RecordError, match=message):
        import_(tmp_path / "theirs")


def test_a_config_of_absurd_size_is_held_against_the_weights_before_anything_is_built(
    tmp_path: Path,
):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"n_embd": 3 * 10**6})
    with pytest.raises(
        RecordError, match=r"transformer.wte.weight has shape \[19, 15\], give \[19, 3000000\]"
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("preset", "branch", "gate", "up", "down"),
    [
        ("mixtral", "block_sparse_moe", "w1", "w3", "w2"),
        ("deepseek-v3", "mlp", "gate_proj", "up_proj", "down_proj"),
    ],
)
def test_fused_experts_are_read(
    preset: str, branch: str, gate: str, up: str, down: str, tmp_path: Path
):
    def fused(tensors: Tensors) -> Tensors:
        found = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
        for layer in (0, 1):
            here = f"model.layers.{layer}.{branch}.experts"
            count = sum(
                bool(re.fullmatch(rf"{re.escape(here)}\.\d+\.{down}.weight", name))
                for name in tensors
            )
            if count:
                parts = {
                    role: torch.stack(
                        [tensors[f"{here}.{number}.{role}.weight"] for number in range(count)]
                    )
                    for role in (gate, up, down)
                }
                found[f"{here}.gate_up_proj"] = torch.cat([parts[gate], parts[up]], 1)
                found[f"{here}.down_proj"] = parts[down]
        return renamed("block_sparse_moe", "mlp")(found)

    model = export_random_model(preset, tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", fused)
    assert any(
        name.endswith(".mlp.experts.gate_up_proj") for name in read_tensors(tmp_path / "theirs")
    )
    assert same_model(import_(tmp_path / "theirs").model, model)


def test_a_fused_tensor_of_the_wrong_shape_is_named(tmp_path: Path):
    export_random_model("mixtral", tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", added("model.layers.0.mlp.experts.gate_up_proj", (3, 4)))
    with pytest.raises(RecordError, match=r"experts.gate_up_proj does not belong to it"):
        import_(tmp_path / "theirs")


HEADS = {
    "gpt1": ("lm_head.weight", "transformer.tokens_embed.weight"),
    "gpt2": ("lm_head.weight", "transformer.wte.weight"),
    "llama": ("lm_head.weight", "model.embed_tokens.weight"),
    "bert": ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    "t5": ("lm_head.weight", "shared.weight"),
    "bart": ("lm_head.weight", "model.shared.weight"),
    "mixtral": ("lm_head.weight", "model.embed_tokens.weight"),
    "deepseek-v3": ("lm_head.weight", "model.embed_tokens.weight"),
}


@pytest.mark.parametrize("preset", HEADS)
@pytest.mark.parametrize("says", [True, False])
def test_whether_the_head_is_tied_is_read_off_the_weights(preset: str, says: bool, tmp_path: Path):
    head, words = HEADS[preset]
    tied = export_random_model(preset, tmp_path / "tied", {"head.tied": True})
    untied = export_random_model(preset, tmp_path / "untied", {"head.tied": False})
    change_tensors(tmp_path / "tied", lambda tensors: tensors | {head: tensors[words]})
    for folder in ("tied", "untied"):
        change_config(tmp_path / folder, {"tie_word_embeddings": says})
    assert same_model(import_(tmp_path / "tied").model, tied)
    assert same_model(import_(tmp_path / "untied").model, untied)


@pytest.mark.parametrize("preset", HEADS)
def test_a_tied_table_may_stand_under_the_heads_name(preset: str, tmp_path: Path):
    head, words = HEADS[preset]
    model = export_random_model(preset, tmp_path / "theirs", {"head.tied": True})
    change_tensors(tmp_path / "theirs", renamed(rf"^{re.escape(words)}$", head))
    assert same_model(import_(tmp_path / "theirs").model, model)


def test_a_head_that_was_not_tied_and_is_missing_is_named(tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", renamed("^lm_head.weight$", "model.rotary_emb.inv_freq"))
    with pytest.raises(
        RecordError, match=r"lm_head.weight is missing, give one of shape \[19, 15\]"
    ):
        import_(tmp_path / "theirs")
    drop_key(tmp_path / "theirs", "tie_word_embeddings")
    with pytest.raises(RecordError, match=r"lm_head.weight is missing"):
        import_(tmp_path / "theirs")


def test_a_table_of_words_that_was_not_tied_and_is_missing_is_named(tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    change_tensors(
        tmp_path / "theirs", renamed("^model.embed_tokens.weight$", "model.rotary_emb.inv_freq")
    )
    with pytest.raises(RecordError, match=r"model.embed_tokens.weight is missing"):
        import_(tmp_path / "theirs")


def test_t5_takes_the_scale_of_its_outputs_from_either_key(tmp_path: Path):
    export_random_model("t5", tmp_path / "theirs")
    scaled = 15**-0.5
    for keys, scale in (
        ({"scale_decoder_outputs": True, "tie_word_embeddings": False}, scaled),
        ({"scale_decoder_outputs": False, "tie_word_embeddings": True}, 1.0),
    ):
        change_config(tmp_path / "theirs", keys)
        assert import_(tmp_path / "theirs").model.spec.head.scale == scale
    drop_key(tmp_path / "theirs", "scale_decoder_outputs")
    for tied, scale in ((False, 1.0), (None, scaled)):
        change_config(tmp_path / "theirs", {"tie_word_embeddings": tied})
        assert import_(tmp_path / "theirs").model.spec.head.scale == scale


@pytest.mark.parametrize("preset", ["t5", "bart"])
def test_copies_of_the_table_of_words_must_equal_it(preset: str, tmp_path: Path):
    _, words = HEADS[preset]
    copy = words.replace("shared", "encoder.embed_tokens")
    model = export_random_model(preset, tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", lambda tensors: tensors | {copy: tensors[words]})
    assert same_model(import_(tmp_path / "theirs").model, model)
    change_tensors(tmp_path / "theirs", lambda tensors: tensors | {copy: tensors[words] + 1})
    with pytest.raises(
        RecordError, match=f"{copy} differs from {words}, but both stacks .*; give equal ones"
    ):
        import_(tmp_path / "theirs")


def test_barts_bias_is_zero_where_a_base_model_has_none(tmp_path: Path):
    export_random_model("bart", tmp_path / "theirs")
    change_tensors(
        tmp_path / "theirs",
        lambda tensors: {name: t for name, t in tensors.items() if name != "final_logits_bias"},
    )
    assert not import_(tmp_path / "theirs").model.state_dict()["head.bias"].any()


def test_every_tensor_that_is_off_is_named_at_once(tmp_path: Path):
    def damaged(tensors: Tensors) -> Tensors:
        del tensors["transformer.ln_f.bias"]
        tensors["transformer.h.0.mlp.c_fc.weight"] = torch.ones(60, 15)
        tensors["transformer.wpe.weight"] = torch.ones(13, 15, dtype=torch.int32)
        return tensors | {"score.weight": torch.ones(2, 15)}

    export_random_model("gpt2", tmp_path / "theirs")
    change_tensors(tmp_path / "theirs", damaged)
    with pytest.raises(RecordError) as raised:
        import_(tmp_path / "theirs")
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'theirs'} does not hold this model: ")
    assert "transformer.ln_f.bias is missing, give one of shape [15]" in message
    assert "transformer.h.0.mlp.c_fc.weight has shape [60, 15], give [15, 60]" in message
    assert "transformer.wpe.weight holds int32, give float64, float32, float16, bfloat16" in message
    assert "score.weight does not belong to it, remove it" in message


def test_a_missing_config_and_one_that_is_no_json_are_named(tmp_path: Path):
    with pytest.raises(
        RecordError, match=r"config.json cannot be read: No such file or directory; give a folder"
    ):
        import_(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": ')
    with pytest.raises(RecordError, match=r"config.json is not JSON: .*; fetch or write it again"):
        import_(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match=r"config.json is not JSON: .*; fetch or write it again"):
        import_(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(RecordError, match=r"config.json holds a list, not a table"):
        import_(tmp_path)


def test_a_truncated_or_corrupt_weights_file_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    whole = path.read_bytes()
    for torn in (
        b"",
        whole[:4],
        whole[:100],
        whole[:-1],
        b"\xff" * 8 + whole[8:],
        whole[:8] + b"!" + whole[9:],
    ):
        path.write_bytes(torn)
        with pytest.raises(
            RecordError,
            match=r"model.safetensors cannot be read as safetensors: .*; fetch or write it",
        ):
            import_(tmp_path / "theirs")


def test_a_folder_with_no_weights_or_pickles_alone_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    (tmp_path / "theirs" / "model.safetensors").unlink()
    with pytest.raises(
        RecordError, match=r"theirs holds no weights; give model.safetensors or shards with"
    ):
        import_(tmp_path / "theirs")
    (tmp_path / "theirs" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(
        RecordError, match=r"holds only pytorch_model.bin, and nothing is unpickled; give"
    ):
        import_(tmp_path / "theirs")


SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def sharded(folder: Path) -> dict[str, str]:
    """Half of the tensors in each of two files; the map that says which."""
    tensors = read_tensors(folder)
    (folder / "model.safetensors").unlink()
    places = {name: SHARDS[number % 2] for number, name in enumerate(tensors)}
    for shard in SHARDS:
        save_file(
            {name: tensor for name, tensor in tensors.items() if places[name] == shard},
            folder / shard,
        )
    put_index(folder, places)
    return places


def put_index(folder: Path, places: object) -> None:
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": places})
    )


def test_shards_are_read(tmp_path: Path):
    model = export_random_model("mixtral", tmp_path / "theirs")
    sharded(tmp_path / "theirs")
    assert same_model(import_(tmp_path / "theirs").model, model)


def test_a_missing_shard_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    sharded(tmp_path / "theirs")
    (tmp_path / "theirs" / SHARDS[1]).unlink()
    with pytest.raises(
        RecordError, match=rf"{SHARDS[1]} does not exist; give a folder that holds it"
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/outside.safetensors", "sub/x.safetensors", "..", "a\\b"]
)
def test_a_shard_outside_the_folder_is_refused(name: str, tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    places = sharded(tmp_path / "theirs")
    (tmp_path / "theirs" / SHARDS[1]).rename(tmp_path / "outside.safetensors")
    put_index(
        tmp_path / "theirs",
        {key: name if place == SHARDS[1] else place for key, place in places.items()},
    )
    with pytest.raises(
        RecordError, match=r"index.json names the file .*; use a plain file name in the same folder"
    ):
        import_(tmp_path / "theirs")


def test_an_index_that_disagrees_with_its_shards_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    places = sharded(tmp_path / "theirs")
    del places["transformer.ln_f.bias"]
    put_index(tmp_path / "theirs", places)
    with pytest.raises(
        RecordError,
        match=r"index.json disagree on transformer.ln_f.bias; fetch or write both again",
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize("places", [None, [], {"a": 1}])
def test_an_index_without_a_map_is_named(places: object, tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    sharded(tmp_path / "theirs")
    put_index(tmp_path / "theirs", places)
    with pytest.raises(
        RecordError, match=r"index.json has no weight_map from tensors to files; fetch or write it"
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"architectures": ["GPT2ForSequenceClassification"]},
            "no class with a language-model head",
        ),
        (
            {"dtype": "int4"},
            'dtype is "int4", which we do not read; use float64, float32, float16, bfloat16',
        ),
        ({"vocab_size": 10**18}, "use 10000000 or less"),
    ],
)
def test_a_config_that_says_its_files_hold_something_else_is_refused(
    keys, message: str, tmp_path: Path
):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", keys)
    with pytest.raises(ParibusError, match=message):
        import_(tmp_path / "theirs")


def test_a_key_that_appears_twice_is_refused(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    path = tmp_path / "theirs/config.json"
    path.write_text(path.read_text().replace("{", '{"n_layer": 7,', 1))
    with pytest.raises(RecordError, match="key 'n_layer' appears twice"):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (float("nan"), torch.float32, "holds values that are not finite"),
        (1e6, torch.float16, "has values too large for float16; read it in float32 or bfloat16"),
    ],
)
def test_weights_that_are_not_finite_are_refused(
    value: float, dtype: torch.dtype, message: str, tmp_path: Path
):
    export_random_model("gpt2", tmp_path / "theirs")
    name = "transformer.wte.weight"
    change_tensors(
        tmp_path / "theirs", lambda tensors: {**tensors, name: tensors[name].fill_(value)}
    )
    with pytest.raises(RecordError, match=message):
        import_(tmp_path / "theirs", dtype)


def test_others_may_read_what_was_written(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    modes = {path.stat().st_mode for path in (tmp_path / "theirs").iterdir()}
    assert len(modes) == 1
