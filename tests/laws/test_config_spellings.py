"""A config means to us what it means to transformers, however it is spelled, or import refuses
it.

Each key of each family is left out, written as null and given other values, and rotary positions
are written in every old and new way beside each other. transformers builds a model from that
config.json; its redrawn weights and the same config.json are imported, and the logits must agree
wherever import accepts them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from kin_models import (
    CAUSAL,
    CLOSE,
    DEEPSEEK_SIZES,
    EAGER_EXPERTS,
    KIN,
    LLAMA_SIZES,
    MIXTRAL_SIZES,
    Kin,
    apart,
    inputs,
    named,
    ours,
    redraw,
    reference,
    theirs,
)
from safetensors.torch import save_file
from torch import Tensor

from paribus.errors import ParibusError
from paribus.interop import FAMILIES, import_
from paribus.interop.config_keys import COMMON_KEYS, split_config
from paribus.interop.importing import CONFIG_FILE, architecture_from_config
from paribus.interop.rope import ROPE_KEYS
from paribus.interop.safetensors_folder import TENSORS_FILE
from paribus.model import Transformer

transformers = pytest.importorskip("transformers")

ABSENT = "‹absent›"
Config = dict[str, Any]

# Where a derived width is odd, rates of rotation may be wrong and still have the right shape.
ODD = (
    Kin(
        "deepseek-v3 of odd width",
        "DeepseekV3Config",
        CAUSAL,
        DEEPSEEK_SIZES | {"hidden_size": 15},
        EAGER_EXPERTS,
    ),
    Kin(
        "llama without head_dim",
        "LlamaConfig",
        CAUSAL,
        LLAMA_SIZES | {"hidden_size": 18, "head_dim": 6},
    ),
    Kin(
        "mixtral without head_dim",
        "MixtralConfig",
        CAUSAL,
        MIXTRAL_SIZES | {"hidden_size": 12, "head_dim": 2},
        EAGER_EXPERTS,
    ),
)
ASKED = tuple(kin for kin in KIN if kin.name != "deepseek-v3")
ROTARY = tuple(kin for kin in KIN if "rope_parameters" in kin.sizes)

# Keys of other families, other names of the same size, and what older files say.
OTHERS = (
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
    "head_dim",
    "d_kv",
    "num_key_value_heads",
    "num_experts",
    "num_local_experts",
    "num_mtp_layers",
    "qk_head_dim",
    "n_inner",
    "n_ctx",
    "partial_rotary_factor",
    "rope_interleave",
    "rope_interleaved",
    "original_max_position_embeddings",
    "attention_bias",
    "mlp_bias",
    "sliding_window",
    "layer_types",
    "scale_decoder_outputs",
    "dense_act_fn",
    "is_gated_act",
    "scale_embedding",
    "scale_attn_weights",
    "reorder_and_upcast_attn",
    "tie_word_embeddings",
    "is_llama_config",
    "normalize_before",
    "chunk_size_feed_forward",
)
# What the files are, and how an answer is handed over: no matter of logits.
NOT_ASKED = {
    "model_type",
    "architectures",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "return_dict",
}

TABLES = (
    ABSENT,
    None,
    {},
    {"rope_type": "default"},
    {"type": "default"},
    {"rope_theta": 31.0},
    {"rope_theta": 50, "rope_type": "default"},
    {"rope_theta": None},
    {"rope_theta": "50"},
    {"rope_type": None, "rope_theta": 50.0},
    {"rope_type": "default", "type": "linear", "rope_theta": 50.0},
    {"rope_type": "default", "partial_rotary_factor": 1.0},
    {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 50.0},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0},
)
THETAS = (ABSENT, None, 31.0, 50)


def spelled_otherwise(config: Config) -> Iterator[Config]:
    """The config with one key left out, null or of another value; what no logit depends on is
    left out together.
    """
    tables = FAMILIES[config["model_type"]].config_keys
    kept = (COMMON_KEYS.extra | tables.extra) & config.keys()
    yield config | dict.fromkeys(kept, ABSENT)
    asked = dict.fromkeys(
        (*config, *tables.modelled, *tables.unsupported, *COMMON_KEYS.unsupported, *OTHERS)
    )
    for key in asked.keys() - kept - NOT_ASKED:
        for value in other_values(config.get(key)):
            if value != config.get(key, ABSENT):
                yield config | {key: value}


def other_values(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return ABSENT, None, not value
    if isinstance(value, int | float):
        return ABSENT, None, value + 1, 2 * value, float(value)
    return ABSENT, None, False, True, 1, 2, "gelu"


def rotary_spellings(config: Config) -> Iterator[Config]:
    """The config with pairs of tables and every theta beside them; all of Llama's, whose tables
    the others share.
    """
    tables = TABLES if config["model_type"] == "llama" else TABLES[:7]
    for parameters, scaling, theta in product(tables, tables, THETAS):
        yield config | {"rope_parameters": parameters, "rope_scaling": scaling, "rope_theta": theta}


class Bench:
    """One folder, in which a config is written and both sides are asked; what both read alike
    is asked once.
    """

    def __init__(self, kin: Kin, folder: Path):
        self.kin, self.folder, self.given = kin, folder, inputs(kin, left=False)
        self.base = reference(kin)
        self.base.config.save_pretrained(folder)
        self.config: Config = json.loads((folder / "config.json").read_text())
        self.differences: dict[tuple[str, str], float | None] = {}

    def difference(self, config: Config) -> float | None:
        """Between the logits of both sides; None where one of them refuses."""
        present = {key: value for key, value in config.items() if value is not ABSENT}
        mine = our_reading(present)
        read = None if mine is None else self.their_reading(present)
        if mine is None or read is None:
            return None
        both = (mine, json.dumps(read.to_dict(), sort_keys=True, default=str))
        if both not in self.differences:
            self.differences[both] = self.measured_difference(present, read)
        return self.differences[both]

    def measured_difference(self, config: Config, read: Any) -> float | None:
        model, logits = self.their_model(read)
        if logits is None:
            return None
        save_file(
            {name: tensor.clone() for name, tensor in model.state_dict().items()},
            self.folder / TENSORS_FILE,
        )
        (self.folder / CONFIG_FILE).write_text(json.dumps(config))
        mine = self.our_model()
        if mine is None or mine.spec.max_length < self.given.tokens.shape[1]:
            return None
        return apart(logits, ours(mine, self.given), self.given)

    def their_reading(self, config: Config) -> Any:
        """What transformers reads in the config; None where it refuses."""
        try:
            return getattr(transformers, self.kin.config).from_dict(
                copy.deepcopy(config), **self.kin.eager
            )
        except Exception:  # of many kinds, none of them ours to judge
            return None

    def their_model(self, read: Any) -> tuple[Any, Tensor | None]:
        """What transformers builds, its weights redrawn, and its logits; None where it cannot."""
        try:
            with transformers.initialization.no_init_weights():  # all of them are drawn anew
                model = getattr(transformers, self.kin.auto).from_config(read).eval()
            self.fill(model)
            return model, theirs(model, self.given)
        except Exception:  # of many kinds, none of them ours to judge
            return None, None

    def fill(self, model: Any) -> None:
        """Weights of the first model where the shapes are its own, which is quick; else drawn
        anew.
        """
        shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        if shapes == {name: tensor.shape for name, tensor in self.base.state_dict().items()}:
            model.load_state_dict(self.base.state_dict())
        else:
            redraw(model, self.kin)

    def our_model(self) -> Transformer | None:
        try:
            return import_(self.folder).model
        except ParibusError:
            return None


def our_reading(config: Config) -> str | None:
    """What import reads in the config, whatever the weights; None where it refuses."""
    family = FAMILIES[config["model_type"]]
    try:
        given, _ = split_config(config, family.config_keys, Path(CONFIG_FILE))
        architecture = architecture_from_config(family, given, True, Path(CONFIG_FILE))
    except ParibusError:
        return None
    # of which the architecture has the theta
    others = {key: value for key, value in given.items() if key not in ROPE_KEYS}
    return f"{architecture!r} {others!r}"


def silent(bench: Bench, configs: Iterator[Config]) -> tuple[int, list[str]]:
    """How many configs both sides read, and those they read differently."""
    n_read, wrong = 0, []
    for config in configs:
        difference = bench.difference(config)
        n_read += difference is not None
        if difference is not None and not difference < CLOSE:
            changed = {
                key: value
                for key, value in config.items()
                if value != bench.config.get(key, ABSENT)
            }
            wrong.append(f"{changed}: {difference:.2g}")
    return n_read, wrong


@pytest.mark.parametrize("kin", [*ASKED, *ODD], ids=named)
def test_a_key_left_out_null_or_changed_means_what_it_means_to_transformers(
    kin: Kin, tmp_path: Path
):
    bench = Bench(kin, tmp_path)
    n_read, wrong = silent(bench, spelled_otherwise(bench.config))
    assert not wrong
    assert n_read > 20


@pytest.mark.parametrize("kin", ROTARY, ids=named)
def test_rotary_positions_in_old_and_new_spellings_mean_what_they_mean_to_transformers(
    kin: Kin, tmp_path: Path
):
    bench = Bench(kin, tmp_path)
    n_read, wrong = silent(bench, rotary_spellings(bench.config))
    assert not wrong
    assert n_read > 20
