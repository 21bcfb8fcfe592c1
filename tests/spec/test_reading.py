import difflib
import json
import re
from importlib import resources
from time import process_time

import pytest

from paribus.errors import SpecError
from paribus.masks import Causal, Window
from paribus.spec import (
    Architecture,
    Dense,
    Experts,
    LayerNorm,
    LearnedPositions,
    MultiHead,
    RotaryPositions,
    architecture_fingerprint,
    load,
    parse_architecture,
    presets,
    resolve,
)
from paribus.spec.design_reading import load_design
from paribus.spec.run import load_run

SMALL = {
    "n_vocab": 11,
    "max_length": 7,
    "d_model": 6,
    "n_layers": 5,
    "attention": {"kind": "multi_head", "n_heads": 3},
}
EXPERTS = {"kind": "experts", "n_experts": 5, "n_active": 2}


def _problems(table):
    with pytest.raises(SpecError) as caught:
        parse_architecture(table)
    return caught.value.problems


# Strictness


UNKNOWN = [
    (
        {"n_layer": 3},
        (
            "n_layer is not a key here; did you mean 'n_layers'? keys are n_vocab, max_length,"
            " d_model,"
        ),
    ),
    (
        {"attention": {**SMALL["attention"], "head_dim": 5}},
        "attention.head_dim is not a key here; it is called 'd_head'",
    ),
    (
        {"attention": {**SMALL["attention"], "n_kv_head": 1}},
        "attention.n_kv_head is not a key here; did you mean 'n_kv",
    ),
    (
        {"encoder": {"n_layers": 2, "masks": "full"}},
        "encoder.masks is not a key here; did you mean 'mask'? keys are n_l",
    ),
    ({"norm": {"kind": "rms", "bias": True}}, "norm.bias is not a key here; keys are kind, eps"),
    (
        {"feed_forward": {**EXPERTS, "router": {"score": "sigmoid"}}},
        "feed_forward.router.score is not a key here; did",
    ),
    (
        {"feed_forward": {**EXPERTS, "balance": {"kind": "sequence", "wait": 1.0}}},
        "feed_forward.balance.wait is not a key here; did you mean 'weight'? keys are kind, weight",
    ),
    (
        {"positions": {"kind": "rotary", "base": 1e4}},
        "positions.base is not a key here; keys are kind, theta",
    ),
]
WRONG = [
    ({"n_layers": True}, "n_layers is True (bool); use a whole number"),
    ({"n_layers": 5.0}, "n_layers is 5.0 (float); use a whole number"),
    ({"n_layers": "5"}, "n_layers is '5' (str); use a whole number"),
    ({"n_layers": None}, "n_layers is None (NoneType); use a whole number"),
    ({"n_vocab": 0}, "n_vocab is 0 (int); use 1 or more"),
    ({"dropout": "0.1"}, "dropout is '0.1' (str); use a number"),
    ({"dropout": 1.0}, "dropout is 1.0 (float); use less than 1"),
    ({"norm": {"kind": "layer", "eps": 0.0}}, "norm.eps is 0.0 (float); use more than 0"),
    (
        {"norm": {"kind": "layer", "eps": float("inf")}},
        "norm.eps is inf (float); use a finite number",
    ),
    ({"norm": {"kind": "layer", "bias": 1}}, "norm.bias is 1 (int); use true or false"),
    ({"attention": 3}, "attention is 3 (int); use the name of a kind, or a table with a kind"),
    (
        {"head": "tied"},
        "head is 'tied' (str); write a table with keys tied, bias, scale, transform",
    ),
    (
        {"positions": {"kind": "relative_bias", "n_buckets": 6}},
        "positions.n_buckets is 6 (int); use a multiple of 4",
    ),
    ({"mask": 3}, "mask is 3 (int); write a rule as text, such as 'causal & window(8)'"),
    (
        {"encoder": {"n_layers": 2, "mask": ["full"]}},
        "encoder.mask is ['full'] (list); write a rule as text",
    ),
    (
        {"embedding": {"scale": "sqrt"}},
        "embedding.scale is 'sqrt'; use 'sqrt_d_model' or 'rsqrt_d_model'",
    ),
]
NEAR = [
    (
        {"placement": "prep"},
        "placement is 'prep'; did you mean 'pre'? use 'pre', 'post' or 'parallel'",
    ),
    ({"placement": 3}, "placement is 3; use 'pre', 'post' or 'parallel'"),
    (
        {"feed_forward": {"kind": "dense", "activation": "gelu_tan"}},
        "feed_forward.activation is 'gelu_tan'; did you",
    ),
    ({"norm": "rsm"}, "norm.kind is 'rsm'; did you mean 'rms'? use one of layer, rms"),
    (
        {"positions": {"kind": "absolute"}},
        "positions.kind is 'absolute'; it is called 'learned' here; use one of none, learned",
    ),
    (
        {"attention": {"kind": "multihead", "n_heads": 3}},
        "attention.kind is 'multihead'; did you mean 'multi_head'?",
    ),
    ({"mask": "caual"}, "mask 'caual' is no rule; did you mean 'causal'?"),
]
MISSING = [
    ({"attention": {"n_heads": 3}}, "attention.kind is missing; say which kind it is"),
    ({"attention": {"kind": "multi_head"}}, "attention.n_heads is missing; give it a value"),
    (
        {"feed_forward": {"kind": "experts", "n_active": 2}},
        "feed_forward.n_experts is missing; give it a value",
    ),
    ({"feed_forward": "experts"}, "feed_forward.n_experts is missing; give it a value"),
]


@pytest.mark.parametrize(("changes", "message"), [*UNKNOWN, *WRONG, *NEAR, *MISSING])
def test_a_fault_is_named_by_its_path_with_what_was_given_and_what_would_do(changes, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        parse_architecture({**SMALL, **changes})


def test_everything_missing_is_named():
    names = ["n_vocab", "max_length", "d_model", "n_layers", "attention"]
    assert _problems({}) == tuple(f"{name} is missing; give it a value" for name in names)


def test_all_faults_are_told_at_once():
    table = {
        **SMALL,
        "n_layer": 3,
        "d_model": "6",
        "norm": "rsm",
        "mask": "caual",
        "head": {"tie": True},
    }
    del table["n_vocab"]
    starts = {problem.split(" ")[0] for problem in _problems(table)}
    assert starts == {"n_layer", "d_model", "norm.kind", "mask", "head.tie", "n_vocab"}


def test_what_does_not_fit_together_is_told_beside_unknown_keys():
    table = {**SMALL, "n_layer": 3, "d_model": 7, "attention": {**SMALL["attention"], "bogus": 1}}
    problems = _problems(table)
    assert [problem.split(" ")[0] for problem in problems] == [
        "attention.bogus",
        "n_layer",
        "attention.n_heads",
    ]
    assert problems[-1].startswith("attention.n_heads is 3, which does not divide d_model 7")


def test_reading_checks_that_the_spec_resolves():
    assert _problems({**SMALL, "d_model": 7}) == (
        (
            "attention.n_heads is 3, which does not divide d_model 7; use 1 or 7, or set"
            " attention.d_head"
        ),
    )


def test_the_table_that_is_read_is_left_as_it_was():
    table = {"preset": "gpt2", "n_layers": 3, "attention": {"n_heads": 6}}
    before = json.dumps(table)
    parse_architecture(table)
    load(table, n_heads=4, changes={"attention.bias": False})
    assert json.dumps(table) == before


# Files


def _toml(table):
    return "\n".join(
        (
            f"{key} = {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in value.items())} }}"
            if isinstance(value, dict)
            else f"{key} = {json.dumps(value)}"
        )
        for key, value in table.items()
    )


def test_toml_json_and_mapping_give_one_spec(tmp_path):
    table = {**SMALL, "mask": "causal & window(3)", "norm": "rms"}
    (tmp_path / "a.toml").write_text(_toml(table))
    (tmp_path / "b.json").write_text(json.dumps(table))
    (tmp_path / "spec.json").write_text(json.dumps(table))
    spec = Architecture.model_validate(table)
    assert load(table) == spec
    assert load(tmp_path / "a.toml") == spec
    assert load(str(tmp_path / "b.json")) == spec
    assert load(tmp_path) == spec  # a checkpoint folder


def test_a_file_may_stand_on_a_preset(tmp_path):
    (tmp_path / "a.toml").write_text(
        'preset = "llama"\nn_layers = 3\n[attention]\nn_kv_heads = 8\n'
    )
    spec = load(tmp_path / "a.toml")
    assert (spec.n_layers, spec.d_model) == (3, 4096)
    assert spec.attention == MultiHead(n_heads=32, n_kv_heads=8)


def test_a_name_that_is_no_preset_is_refused_with_the_nearest():
    match = (
        r"^gpt3 is neither a preset nor a .toml or .json file; did you mean 'gpt2'\? presets are"
        r" bart,"
        r" bert,"
    )
    with pytest.raises(SpecError, match=match):
        load("gpt3")
    with pytest.raises(
        SpecError, match=r"^zzz is neither a preset nor a .toml or .json file; presets are bart,"
    ):
        load("zzz")


@pytest.mark.parametrize("name", ["gtp2", "zzz", 3])
def test_a_preset_that_does_not_exist_is_refused(name):
    advice = "did you mean 'gpt2'? " if name == "gtp2" else ""
    with pytest.raises(
        SpecError,
        match=re.escape(f"preset is {name!r}, which does not exist; {advice}presets are ba"),
    ):
        parse_architecture({**SMALL, "preset": name})


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        SpecError,
        match=r"a.toml cannot be read: No such file or directory; give a preset or a read",
    ):
        load(tmp_path / "a.toml")
    with pytest.raises(SpecError, match=r"spec.json cannot be read: No such file"):
        load(tmp_path)


def test_a_folder_where_a_file_should_be_is_refused(tmp_path):
    (tmp_path / "spec.json").mkdir()
    with pytest.raises(SpecError, match=r"spec.json cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"mask = \xff")
    with pytest.raises(SpecError, match=r"a.toml is not UTF-8 at byte 7; save it as UTF-8 text"):
        load(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", "n_layers = \n"), ("a.json", '{"n_layers": }')]
)
def test_a_file_that_cannot_be_parsed_is_refused_with_the_place(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    format_name = name[2:].upper()
    with pytest.raises(
        SpecError, match=rf"{name} cannot be parsed: .*line 1.*; correct the {format_name} there$"
    ):
        load(tmp_path / name)


@pytest.mark.parametrize("name", ["a.toml", "a.json"])
@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000])
def test_endless_numbers_and_nesting_cannot_be_parsed(tmp_path, name, value):
    (tmp_path / name).write_text(
        f"n_layers = {value}" if name == "a.toml" else f'{{"n_layers": {value}'
    )
    with pytest.raises(SpecError, match=rf"{name} cannot be parsed: "):
        load(tmp_path / name)


@pytest.mark.parametrize(("text", "kind"), [("[1, 2]", "list"), ('"gpt2"', "str"), ("3", "int")])
def test_a_file_that_holds_no_table_is_refused(tmp_path, text, kind):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(
        SpecError, match=rf"a.json holds a {kind}, not a table; write key = value pairs"
    ):
        load(tmp_path / "a.json")


# What lies over a preset


def test_a_table_of_the_same_kind_is_filled_in():
    spec = parse_architecture(
        {
            "preset": "gpt2",
            "attention": {"n_heads": 6},
            "feed_forward": {"kind": "dense", "gated": True},
        }
    )
    assert spec.attention == MultiHead(n_heads=6, bias=True)
    assert spec.feed_forward == Dense(activation="gelu_tanh", bias=True, gated=True)


def test_a_table_of_another_kind_replaces():
    spec = parse_architecture({"preset": "gpt2", "feed_forward": EXPERTS})
    assert spec.feed_forward == Experts(n_experts=5, n_active=2)
    assert parse_architecture({"preset": "bert", "norm": {"kind": "layer"}}).norm == LayerNorm(
        eps=1e-12
    )
    assert parse_architecture({"preset": "bert", "norm": "rms"}).norm.eps == 1e-6


def test_a_kind_in_short_is_filled_in_like_its_table():
    # The preset says rotary in short, the table gives theta; or the preset gives theta and the
    # table says rotary.
    assert parse_architecture(
        {"preset": "llama", "positions": {"theta": 5e5}}
    ).positions == RotaryPositions(theta=5e5)
    assert parse_architecture(
        {"preset": "mixtral", "positions": "rotary"}
    ).positions == RotaryPositions(theta=1e6)
    assert parse_architecture(
        {"preset": "mixtral", "positions": {"kind": "rotary"}}
    ).positions == RotaryPositions(theta=1e6)
    assert (
        parse_architecture({"preset": "mixtral", "positions": "learned"}).positions
        == LearnedPositions()
    )


def test_a_table_that_names_no_kind_is_of_the_default_kind():
    assert parse_architecture({**SMALL, "norm": {"eps": 0.5}}).norm == LayerNorm(eps=0.5)
    assert parse_architecture({**SMALL, "feed_forward": {"d_ff": 13}}).feed_forward == Dense(
        d_ff=13
    )
    balanced = {**EXPERTS, "balance": {}}
    assert (
        parse_architecture({**SMALL, "feed_forward": balanced}).feed_forward.balance.kind == "none"
    )
    with pytest.raises(SpecError, match=r"^positions.theta is not a key here; keys are kind$"):
        parse_architecture({**SMALL, "positions": {"theta": 5.0}})


def test_tables_without_a_kind_are_filled_in_too():
    spec = parse_architecture(
        {"preset": "bert", "head": {"tied": False}, "embedding": {"n_segments": 3}}
    )
    assert (spec.head.tied, spec.head.bias, spec.head.transform) == (False, True, "gelu")
    assert (spec.embedding.norm, spec.embedding.n_segments) == (True, 3)


# Changes


def test_sizes_are_changed_by_name_wherever_they_live():
    spec = load(
        "gpt2",
        n_layers=3,
        d_model=10,
        n_heads=5,
        n_kv_heads=1,
        d_head=7,
        d_ff=13,
        n_vocab=11,
        max_length=17,
        mask="window(3)",
    )
    assert (spec.n_layers, spec.d_model, spec.n_vocab, spec.max_length) == (3, 10, 11, 17)
    assert spec.attention == MultiHead(n_heads=5, n_kv_heads=1, d_head=7, bias=True)
    assert spec.feed_forward.d_ff == 13
    assert spec.mask == Window(3)


def test_changes_are_paths():
    spec = load(
        "gpt2",
        changes={"feed_forward.gated": True, "positions.offset": 2, "dropout": 0.1, "n_heads": 6},
    )
    assert spec.feed_forward == Dense(activation="gelu_tanh", bias=True, gated=True)
    assert spec.positions == LearnedPositions(offset=2)
    assert (spec.dropout, spec.attention.n_heads) == (0.1, 6)
    assert load("t5", changes={"encoder.n_layers": 5}).encoder.n_layers == 5
    assert load("gpt2", changes={"encoder.n_layers": 5}).encoder.n_layers == 5


def test_the_order_of_changes_does_not_matter():
    paths = {
        "feed_forward.d_ff": 13,
        "feed_forward.balance.weight": 0.5,
        "feed_forward.every": 2,
        "feed_forward.balance.kind": "batch",
        "feed_forward.n_active": 2,
        "feed_forward.n_experts": 5,
        "feed_forward.kind": "experts",
        "positions.theta": 7.0,
        "positions": "rotary",
    }
    spec = load("gpt2", changes=paths)
    assert load("gpt2", changes=dict(reversed(paths.items()))) == spec
    assert spec.feed_forward.balance.weight == 0.5
    assert spec.feed_forward.d_ff == 13
    assert spec.positions == RotaryPositions(theta=7.0)


def test_a_named_size_is_not_lost_to_a_change_of_kind():
    table = {**EXPERTS, "every": 2}
    assert load("gpt2", d_ff=13, changes={"feed_forward": table}).feed_forward.d_ff == 13


def test_a_change_may_take_a_table_away():
    assert load("t5", changes={"encoder": None}).encoder is None
    assert load("t5", changes={"attention.d_head": None}).attention.d_head is None


def test_nothing_lies_inside_a_number():
    message = "n_layers is 12, which has no fields to set as n_layers.first; set it as a whole"
    with pytest.raises(SpecError, match=re.escape(message)):
        load("gpt2", changes={"n_layers.first": 3})
    message = (
        "attention.n_heads is 12, which has no fields to set as attention.n_heads.a.b; set it"
        " as a whole"
    )
    with pytest.raises(SpecError, match=re.escape(message)):
        load("gpt2", changes={"attention.n_heads.a.b": 3})


def test_a_change_is_read_as_strictly_as_a_file():
    with pytest.raises(SpecError, match=r"head.x is not a key here; keys are tied"):
        load("gpt2", changes={"head.x": 3})
    with pytest.raises(
        SpecError, match=r"positions.offse is not a key here; did you mean 'offset'\?"
    ):
        load("gpt2", changes={"positions.offse": 3})
    with pytest.raises(SpecError, match=r"attention.n_heads is '5' \(str\); use a whole number"):
        load("gpt2", n_heads="5")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_layer'"):
        load("gpt2", n_layer=5)  # pyright: ignore[reportCallIssue]


# Presets


def test_these_are_the_presets():
    assert presets() == (
        "bart",
        "bert",
        "deepseek-v3",
        "encdec-causal-encoder",
        "encdec-mixed-encoder",
        "encdec-shared",
        "encdec-turns",
        "fixed-head",
        "gpt1",
        "gpt2",
        "hybrid",
        "llama",
        "mixed-heads",
        "mixed-layers",
        "mixtral",
        "palm",
        "switch",
        "t5",
        "t5-v1.1",
        "unilm",
    )


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_few_lines_and_resolves(name):
    text = (resources.files("paribus.spec") / "presets" / f"{name}.toml").read_text()
    assert len(text.splitlines()) <= 30
    assert text.startswith("# ")
    assert resolve(load(name)).stack.layers


def test_presets_are_different_models():
    assert len({architecture_fingerprint(resolve(load(name))) for name in presets()}) == len(
        presets()
    )


def test_presets_can_be_any_size():
    for name in presets():
        small = {"n_layers": 2, "d_model": 24, "max_length": 11, "n_vocab": 13}
        changes = {"encoder.n_layers": 2} if load(name).encoder else {}
        changes |= {"feed_forward.n_dense_layers": 1} if name == "deepseek-v3" else {}
        changes |= {"n_kv_heads": 2} if name == "mixtral" else {}
        spec = load(name, **small, n_heads=4, changes=changes)
        assert (len(resolve(spec).stack.layers), spec.d_model) == (2, 24)


def test_the_masks_of_presets_are_those_of_their_names():
    masks = {name: str(load(name).mask) for name in presets()}
    assert masks["unilm"] == "prefix"
    assert masks["mixed-heads"] == "by_head(causal, reverse)"
    assert masks["mixed-layers"] == "alternate(causal, reverse)"
    assert masks["hybrid"] == "by_layer(full, causal)"
    assert masks["bert"] == masks["fixed-head"] == "full"
    assert load("gpt2").mask == Causal()
    assert str(load("encdec-causal-encoder").encoder.mask) == "causal"
    assert str(load("encdec-mixed-encoder").encoder.mask) == "by_head(causal, reverse)"
    assert load("encdec-shared").encoder.shared


def test_a_key_that_appears_twice_in_json_is_refused(tmp_path):
    path = tmp_path / "twice.json"
    path.write_text('{"preset": "gpt2", "n_layers": 2, "n_layers": 3}')
    with pytest.raises(
        SpecError, match=r"twice\.json cannot be parsed: key 'n_layers' appears twice"
    ):
        load(path)


def test_a_name_too_long_for_a_file_is_no_preset():
    with pytest.raises(SpecError, match="is neither a preset nor a"):
        load("x" * 300)


def test_a_bad_mask_does_not_hide_what_else_is_wrong():
    with pytest.raises(SpecError) as caught:
        load("gpt2", changes={"mask": "causl", "attention.n_kv_heads": 5, "n_layer": 3})
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "mask",
        "n_layer",
        "attention.n_kv_heads",
    ]


def test_what_hangs_on_a_fault_is_not_judged():
    with pytest.raises(SpecError) as caught:
        load("deepseek-v3", changes={"positions": "rotery", "attention.n_heads": 0})
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "attention.n_heads",
        "positions.kind",
    ]


def test_a_preset_is_no_change():
    with pytest.raises(SpecError, match="preset cannot be changed here; load 'bert' itself"):
        load("gpt2", changes={"preset": "bert"})


@pytest.mark.parametrize(
    "changes",
    [
        {"n_vocab": 10**24},
        {"n_layers": 10**9},
        {"d_model": 10**12, "attention.n_heads": 7},
        {"max_length": 10**30},
    ],
)
def test_sizes_beyond_all_sense_are_refused_at_once(changes):
    with pytest.raises(SpecError, match=r"use [0-9]+ or less"):
        load("gpt2", changes=changes)


def test_minus_nothing_is_nothing():
    assert architecture_fingerprint(
        resolve(load("gpt2", changes={"dropout": -0.0}))
    ) == architecture_fingerprint(resolve(load("gpt2")))


@pytest.mark.parametrize("path", ["attention", "feed_forward", "positions"])
def test_an_empty_table_over_a_preset_s_own_is_refused(path):
    with pytest.raises(
        SpecError,
        match=rf"^{path} is set to {{}}, an empty table, which changes nothing of what is",
    ):
        load("gpt2", changes={path: {}})


def test_a_key_that_appears_twice_is_found_in_one_pass(tmp_path):
    """Ten times as many keys take about ten times as long; counted one by one, a hundred times."""
    path, seconds = tmp_path / "many.json", []
    for n_keys in (20_000, 200_000):
        inside = ",".join(f'"k{number}": 1' for number in range(n_keys))
        path.write_text(f'{{{inside}, "late": 1, "late": 2}}')
        begin = process_time()
        with pytest.raises(SpecError, match="key 'late' appears twice"):
            load(path)
        seconds.append(process_time() - begin)
    assert seconds[1] / seconds[0] < 40


def test_of_many_unknown_keys_the_first_ten_are_named(tmp_path, monkeypatch):
    path, words = tmp_path / "many.json", []
    near = difflib.get_close_matches
    monkeypatch.setattr(
        difflib,
        "get_close_matches",
        lambda word, *rest, **more: words.append(word) or near(word, *rest, **more),
    )
    path.write_text(
        json.dumps({"preset": "gpt2", **{f"n_layer{number}": 1 for number in range(50_000)}})
    )
    with pytest.raises(SpecError) as caught:
        load(path)
    assert len(words) == 10
    *named, last = caught.value.problems
    assert [problem.count("did you mean 'n_layers'?") for problem in named] == [1] * 10
    assert last == "and 49,990 more keys that are not known; correct these first"


@pytest.mark.parametrize("where", [load_run, load_design])
def test_of_many_unknown_keys_of_runs_and_designs_the_first_ten_are_named(where):
    with pytest.raises(SpecError) as caught:
        where({f"trainin{number}": 1 for number in range(2_000)})
    assert "and 1,990 more keys that are not known; correct these first" in caught.value.problems
    assert sum("is not a key here" in problem for problem in caught.value.problems) == 10


def nested(depth: int) -> dict:
    table: dict = {}
    for _ in range(depth):
        table = {"attention": table}
    return table


@pytest.mark.parametrize("read_it", [load, load_run, load_design])
@pytest.mark.parametrize("depth", [100, 3_000, 100_000])
def test_tables_in_one_another_without_end_are_refused(read_it, depth):
    with pytest.raises(
        SpecError,
        match="the table nests tables or lists more than 64 deep; no field",
    ):
        read_it(nested(depth))


def test_a_file_of_lists_in_one_another_is_refused(tmp_path):
    for name, text in {
        "a.json": '{"d_ff": ' + "[" * 500 + "]" * 500 + "}",
        "a.toml": "d_ff = " + "[" * 100 + "]" * 100,
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(SpecError, match=f"{name} (nests tables or lists|cannot be parsed)"):
            load(tmp_path / name)


def test_a_path_of_many_names_is_refused():
    with pytest.raises(
        SpecError,
        match=r"attention\.attention.*… has 3,000 names in a row; no field lies deeper than 64",
    ):
        load("gpt2", changes={".".join(["attention"] * 3_000): 1})
    with pytest.raises(SpecError, match="d_ff nests tables or lists more than 64 deep"):
        load("gpt2", changes={"d_ff": nested(3_000)})


@pytest.mark.parametrize("preset", ["t5", "bart", "encdec-shared"])
def test_an_encoder_follows_the_depth_of_the_decoder_unless_it_is_given(preset):
    as_published = load(preset)
    assert as_published.encoder.n_layers == as_published.n_layers
    assert load(preset, n_layers=2).encoder.n_layers == 2
    assert load({"preset": preset, "n_layers": 2}).encoder.n_layers == 2
    assert load("gpt2", n_layers=3, changes={"encoder.mask": "full"}).encoder.n_layers == 3
    if preset == "t5":
        given = load(preset, n_layers=2, changes={"encoder.n_layers": 5})
        assert (given.n_layers, given.encoder.n_layers) == (2, 5)
        alone = load({"preset": preset, "encoder": {"n_layers": 5}})
        assert (alone.n_layers, alone.encoder.n_layers) == (12, 5)
