"""Every key of a config is obeyed, kept or refused."""

from pathlib import Path
from typing import Any

import pytest
from hf_folder import (
    CHANGES,
    change_config,
    drop_key,
    export_random_model,
    read_config,
    tiny_hf_architecture,
)

from paribus.errors import RecordError, UnsupportedError
from paribus.interop import FAMILIES, export, import_
from paribus.interop.config_keys import COMMON_KEYS, split_config
from paribus.interop.family import ModelFamily
from paribus.interop.family_choice import choose_family
from paribus.spec import resolve

EVERY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
# Said by the files' own nature, or asked where the tensors are read: whether a missing head was to
# be there.
READ_ELSEWHERE = {"model_type", "architectures", "dtype", "torch_dtype", "tie_word_embeddings"}


class Watched(dict[str, Any]):
    """A table that remembers what was asked of it."""

    def __init__(self, table: dict[str, Any]):
        super().__init__(table)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)


@EVERY
def test_no_key_is_in_two_tables(family: ModelFamily):
    own = family.config_keys
    assert not own.modelled.keys() & own.extra
    assert not own.modelled.keys() & own.unsupported.keys()
    assert not own.extra & own.unsupported.keys()
    assert not COMMON_KEYS.extra & (
        own.modelled.keys()
        | own.unsupported.keys()
        | COMMON_KEYS.unsupported.keys()
        | COMMON_KEYS.modelled.keys()
    )


@EVERY
def test_every_key_of_a_fresh_config_of_transformers_is_known(family: ModelFamily):
    auto = pytest.importorskip("transformers").AutoConfig
    fresh = auto.for_model(family.model_type).to_dict()
    split_config(fresh, family.config_keys, Path("config.json"))


@pytest.mark.parametrize("preset", CHANGES)
def test_every_obeyed_key_is_read(preset: str):
    family, _, given = choose_family(resolve(tiny_hf_architecture(preset)))
    watched = Watched(given)
    spec = resolve(tiny_hf_architecture(preset))
    family.architecture(watched, True)
    list(family.problems(watched))
    list(family.tensor_pairs(spec, watched))
    family.ignored_tensors(watched)
    assert watched.asked | READ_ELSEWHERE >= given.keys()


@EVERY
def test_a_refused_key_passes_at_the_values_that_mean_nothing_and_at_no_other(family: ModelFamily):
    config = {
        name: 1 for name, key in family.config_keys.modelled.items() if key.default == "required"
    }
    config |= {"model_type": family.model_type, "vocab_size": 1}
    for name, refused in {**COMMON_KEYS.unsupported, **family.config_keys.unsupported}.items():
        for value in refused.allowed_values:
            split_config(config | {name: value}, family.config_keys, Path("config.json"))
        with pytest.raises(
            UnsupportedError,
            match=rf"^config.json cannot be imported: {name} is \"odd\", but .*; use ",
        ):
            split_config(config | {name: "odd"}, family.config_keys, Path("config.json"))


def test_zero_is_not_taken_for_false(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"is_decoder": 0})
    with pytest.raises(UnsupportedError, match=r"is_decoder is 0, but .*; use null or false"):
        import_(tmp_path / "theirs")


def test_unknown_keys_are_refused_by_name_all_at_once(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"n_embed": 3, "logit_softcap": 30.0})
    with pytest.raises(UnsupportedError) as raised:
        import_(tmp_path / "theirs")
    assert (
        "n_embed is 3, a key we do not know; did you mean n_embd? take it out if it changes nothing"
        in str(raised.value)
    )
    assert "logit_softcap is 30.0, a key we do not know" in str(raised.value)


def test_of_many_unknown_keys_the_first_ten_are_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {f"n_embd{number:04}": 3 for number in range(2_000)})
    with pytest.raises(UnsupportedError) as raised:
        import_(tmp_path / "theirs")
    assert str(raised.value).count("did you mean n_embd?") == 10
    assert str(raised.value).endswith(
        "; and 1,990 more keys that we do not know; correct these first"
    )


def test_code_of_the_checkpoints_own_is_refused(tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"auto_map": {"AutoModel": "modeling.Mine"}})
    with pytest.raises(
        UnsupportedError,
        match=r"auto_map is .*modeling.Mine.*no remote code is run; use null or {}",
    ):
        import_(tmp_path / "theirs")


def test_a_missing_size_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    drop_key(tmp_path / "theirs", "n_embd")
    with pytest.raises(RecordError, match=r"config.json has no n_embd; give a whole number"):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("n_embd", "15", "a whole number"),
        ("n_embd", True, "a whole number"),
        ("n_embd", 15.0, "a whole number"),
        ("layer_norm_epsilon", "small", "a number"),
        ("scale_attn_weights", 1, "true or false"),
        ("activation_function", None, "a text"),
        ("architectures", "GPT2LMHeadModel", "a list"),
        ("scale_attn_weights", None, "true or false"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(key: str, value: Any, wanted: str, tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {key: value})
    with pytest.raises(RecordError, match=rf"config.json: {key} is .*; give {wanted}$"):
        import_(tmp_path / "theirs")


def test_a_config_that_describes_no_model_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"n_head": 4})
    with pytest.raises(
        RecordError,
        match=r"config.json does not describe a GPT-2 model: attention.n_heads is 4, which does"
        r" not div",
    ):
        import_(tmp_path / "theirs")


def test_an_unknown_or_missing_model_type_is_named(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"model_type": "gpt3"})
    with pytest.raises(
        UnsupportedError,
        match=r"model_type is 'gpt3'; did you mean 'gpt2'\? use one of openai-gpt, gpt2",
    ):
        import_(tmp_path / "theirs")
    drop_key(tmp_path / "theirs", "model_type")
    with pytest.raises(
        RecordError, match=r"config.json has no model_type; use one of openai-gpt, gpt2"
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("preset", "key", "value", "message"),
    [
        (
            "gpt2",
            "activation_function",
            "mish",
            "activation_function is 'mish', which we do not model; use one of relu, ",
        ),
        ("gpt1", "afn", "gelu_new", "afn is 'gelu_new'; use one of gelu, relu, silu, swish"),
        (
            "t5",
            "feed_forward_proj",
            "half-gelu",
            "feed_forward_proj is 'half-gelu'; use an activation or 'gated-'",
        ),
        ("t5", "dense_act_fn", "mish", "dense_act_fn is 'mish', which we do not model"),
        (
            "bert",
            "type_vocab_size",
            0,
            "type_vocab_size is 0, but BERT always adds a segment; use 1 or more",
        ),
        (
            "bart",
            "encoder_ffn_dim",
            7,
            "encoder_ffn_dim is 7 and decoder_ffn_dim is 60; give the same",
        ),
        (
            "bart",
            "encoder_attention_heads",
            5,
            "encoder_attention_heads is 5 and decoder_attention_heads is 3; give",
        ),
        (
            "bart",
            "num_hidden_layers",
            9,
            "num_hidden_layers is 9 and encoder_layers is 1; give the same",
        ),
        (
            "llama",
            "num_attention_heads",
            4,
            "hidden_size is 15, no multiple of num_attention_heads 4",
        ),
        ("mixtral", "sliding_window", 4096, "sliding_window is 4096, but .*; use null"),
        (
            "deepseek-v3",
            "rms_norm_eps",
            1e-5,
            "rms_norm_eps is 1e-05, but the norms within .* have 1e-06; use 1e-06",
        ),
        (
            "deepseek-v3",
            "num_key_value_heads",
            1,
            "num_key_value_heads is 1, but the latent serves every head; use 3",
        ),
        (
            "deepseek-v3",
            "head_dim",
            8,
            "head_dim is 8, but it is another name for qk_rope_head_dim; use 4",
        ),
        (
            "deepseek-v3",
            "qk_head_dim",
            8,
            "qk_head_dim is 8, but it is the sum of its two parts; use 7",
        ),
        (
            "deepseek-v3",
            "n_shared_experts",
            0,
            "n_shared_experts is 0, but there is always one; use 1 or more",
        ),
        (
            "deepseek-v3",
            "n_group",
            4,
            "n_group is 4 of n_routed_experts 4, but .*; use groups of 2 or more",
        ),
    ],
)
def test_what_we_do_not_model_is_refused(
    preset: str, key: str, value: Any, message: str, tmp_path: Path
):
    export_random_model(preset, tmp_path / "theirs")
    change_config(tmp_path / "theirs", {key: value})
    with pytest.raises(
        UnsupportedError, match=rf"theirs/config.json cannot be imported: {message}"
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    "older", [{"rope_theta": 31.0, "rope_scaling": None}, {"rope_scaling": {"rope_theta": 31.0}}]
)
def test_the_older_spelling_of_rotary_positions_is_read(older: dict[str, Any], tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs", {"positions.theta": 7.0})
    assert import_(tmp_path / "theirs").model.spec.stack.positions.theta == 7.0
    for key in ("rope_parameters", "rope_theta"):
        drop_key(tmp_path / "theirs", key)
    change_config(tmp_path / "theirs", older)
    assert import_(tmp_path / "theirs").model.spec.stack.positions.theta == 31.0


@pytest.mark.parametrize(
    ("preset", "theta"), [("llama", 1e4), ("mixtral", 1e6), ("deepseek-v3", 1e4)]
)
def test_rotary_positions_without_a_theta_have_that_of_the_family(
    preset: str, theta: float, tmp_path: Path
):
    export_random_model(preset, tmp_path / "theirs")
    for key in ("rope_parameters", "rope_theta"):
        drop_key(tmp_path / "theirs", key)
    assert import_(tmp_path / "theirs").model.spec.stack.positions.theta == theta


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_scaling", {"type": "linear", "factor": 2.0}),
        ("rope_scaling", {"rope_type": "yarn", "factor": 40}),
        (
            "rope_parameters",
            {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
        ),
        ("rope_parameters", {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}),
    ],
)
def test_scaled_partial_and_nested_rotary_positions_are_refused(
    key: str, value: dict[str, Any], tmp_path: Path
):
    export_random_model("llama", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {key: value})
    with pytest.raises(
        UnsupportedError,
        match=f"{key} is .*not modelled; use rope_type 'default' with a rope_theta alone",
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"rope_theta": None},
            "rope_parameters.rope_theta is None; give a number, or leave it out",
        ),
        (
            {"rope_theta": "50"},
            "rope_parameters.rope_theta is '50'; give a number, or leave it out",
        ),
        (
            {"rope_theta": True},
            "rope_parameters.rope_theta is True; give a number, or leave it out",
        ),
        ({"rope_type": ["default"]}, r"rope_parameters is .*, but scaled, partial or nested"),
    ],
)
def test_a_table_of_rotary_positions_is_read_strictly(
    table: dict[str, Any], message: str, tmp_path: Path
):
    export_random_model("llama", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"rope_parameters": table})
    with pytest.raises(UnsupportedError, match=message):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize("table", [{"rope_type": "default"}, {"type": "default"}])
def test_a_theta_that_transformers_would_not_read_is_refused(table: dict[str, str], tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs", {"positions.theta": 50.0})
    change_config(tmp_path / "theirs", {"rope_scaling": table})
    assert (
        import_(tmp_path / "theirs").model.spec.stack.positions.theta == 50.0
    )  # rope_theta says so too
    drop_key(tmp_path / "theirs", "rope_theta")
    message = (
        "beside which transformers does not read rope_parameters: rope_theta would be 10000.0, not"
        " 50.0; take out"
    )
    with pytest.raises(UnsupportedError, match=message):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize("key", ["rope_theta", "rms_norm_eps"])
def test_a_number_beyond_every_float_is_refused(key: str, tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    drop_key(tmp_path / "theirs", "rope_parameters")
    change_config(tmp_path / "theirs", {key: 10**400})
    with pytest.raises(
        RecordError,
        match=r"config.json does not describe a Llama model: .* is inf \(float\); use a finite"
        r" number",
    ):
        import_(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("preset", "key", "wanted"),
    [
        ("llama", "rope_theta", "a number"),
        ("deepseek-v3", "head_dim", "a whole number"),
        ("t5", "scale_decoder_outputs", "true or false"),
        ("t5-v1.1", "is_gated_act", "true or false"),
        ("t5", "dense_act_fn", "a text"),
        ("bart", "num_hidden_layers", "a whole number"),
    ],
)
def test_null_is_refused_where_transformers_takes_it_for_another_value(
    preset: str, key: str, wanted: str, tmp_path: Path
):
    export_random_model(preset, tmp_path / "theirs")
    change_config(tmp_path / "theirs", {key: None})
    with pytest.raises(RecordError, match=rf"config.json: {key} is null; give {wanted}$"):
        import_(tmp_path / "theirs")


def test_two_thetas_are_refused(tmp_path: Path):
    export_random_model("llama", tmp_path / "theirs")
    change_config(tmp_path / "theirs", {"rope_theta": 5.0})
    with pytest.raises(UnsupportedError, match=r"rope_theta is both 5.0 and 10000.0; give one"):
        import_(tmp_path / "theirs")


def test_kept_keys_come_out_as_they_went_in_and_tokens_are_not_made_up(tmp_path: Path):
    export_random_model("gpt2", tmp_path / "theirs")
    assert {
        read_config(tmp_path / "theirs")[key]
        for key in ("bos_token_id", "eos_token_id", "pad_token_id")
    } == {None}
    kept = {
        "resid_pdrop": 0.3,
        "eos_token_id": 5,
        "task_specific_params": {"x": [1]},
        "transformers_version": "4.1",
    }
    change_config(tmp_path / "theirs", kept)
    model, found = import_(tmp_path / "theirs")
    assert kept.items() <= found.items()
    export(model, tmp_path / "ours", found)
    assert read_config(tmp_path / "ours") == read_config(tmp_path / "theirs")


def test_a_kept_key_cannot_contradict_the_model(tmp_path: Path):
    model = export_random_model("gpt2", tmp_path / "theirs")
    export(
        model,
        tmp_path / "ours",
        {"n_embd": 99, "scale_attn_by_inverse_layer_idx": True, "n_ctx": 7},
    )
    assert read_config(tmp_path / "ours") == read_config(tmp_path / "theirs") | {"n_ctx": 7}
