"""Cards and tables of architectures."""

import json

import pytest

import paribus as pb
from paribus.spec import load, presets, price, resolve


def test_without_an_architecture_all_presets_stand_side_by_side(ask):
    answer = ask("show")
    assert answer.status == 0
    first_words = [line.split()[0] for line in answer.out.splitlines() if line.strip()]
    assert [word for word in first_words if word in presets()] == list(presets())


def test_several_stand_side_by_side_with_their_numbers(ask):
    out = ask("show", "gpt2", "mixtral", "t5").out
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert "124M" in rows["gpt2"]
    assert "46.7B" in rows["mixtral"]
    assert "12.9B" in rows["mixtral"]
    assert "12+12" in rows["t5"]


@pytest.mark.parametrize("name", presets())
def test_every_preset_has_a_card(ask, name):
    answer = ask("show", name)
    assert answer.status == 0
    assert answer.out.startswith(f"{name}\n")
    for part in (
        "fingerprint",
        "attention",
        "feed-forward",
        "┌────────────────┐",
        "training, one sequence · visible",
    ):
        assert part in answer.out


def test_a_card_says_what_the_blocks_are(ask):
    out = ask("show", "deepseek-v3").out
    assert "layers 0–2 " in out
    assert "layers 3–60 " in out
    assert "8 of 256 experts + 1 shared, gated silu × 2048" in out
    assert "latent 512: 128 heads × (128 + 64 rotary), values × 128, queries from 1536" in out


def test_a_card_names_what_is_not_usual_about_attention(ask):
    out = ask(
        "show",
        "t5",
        "--set",
        "n_kv_heads=4",
        "--set",
        "attention.qk_norm=true",
        "--set",
        "encoder.shared=true",
    ).out
    assert "12 heads × 64, 4 key/value heads, query-key norm, scores × 1" in out
    assert "the encoder's blocks are the stack's own, without the cross-attention" in out


def test_a_card_says_that_gains_are_fixed(ask):
    out = ask("show", "gpt2", "--set", "attention.qk_norm=fixed").out
    assert "12 heads × 64, bias, query-key norm without gains" in out


def test_changes_are_made_and_named(ask):
    out = ask("show", "gpt2", "--set", "n_layers=4", "--set", "mask=causal & window(8)").out
    assert out.startswith("gpt2, n_layers = 4, mask = causal & window(8)\n")
    assert "layers 0–3" in out


def test_a_file_is_shown_with_its_first_comment(ask, tmp_path):
    (tmp_path / "mine.toml").write_text('# An idea of mine.\npreset = "gpt2"\nn_layers = 2\n')
    assert ask("show", "mine.toml").out.startswith("mine.toml\nAn idea of mine.\n")


def test_json_holds_the_architecture_and_its_exact_price(ask):
    (given,) = json.loads(ask("show", "unilm", "--length", "100", "--prefix", "30", "--json").out)
    assert given["architecture"] == load("unilm").model_dump(mode="json")
    expected = price(resolve(load("unilm")), 100, prefix=30)
    assert given["price"]["training"] == {
        "dense": expected.training.dense,
        "visible": expected.training.visible,
    }


def test_a_narrow_page_says_what_it_left_out_and_cuts_nothing(ask, monkeypatch):
    monkeypatch.setattr("paribus.cli.terminal.console._PIPE_WIDTH", 100)
    out = ask("show").out
    assert "No room for: " in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_the_function_prints_what_the_verb_prints(ask, capsys):
    expected = ask("show", "gpt2", "bert").out
    pb.show("gpt2", "bert")
    assert capsys.readouterr().out == expected


def test_an_architecture_in_hand_is_called_by_its_fingerprint(capsys):
    pb.show(pb.load("gpt2", n_layers=2))
    name = capsys.readouterr().out.splitlines()[0]
    assert pb.load("gpt2", n_layers=2) == pb.load({"preset": "gpt2", "n_layers": 2})
    assert len(name) == 12


@pytest.mark.parametrize("verb", [("show",), ("price",), ("show", "gpt2"), ("price", "gpt2")])
def test_verbs_print_the_note(ask, verb):
    out = " ".join(ask(*verb, "t5-v1.1", "--set", "d_model=96").out.split())
    assert (
        "note: t5-v1.1, d_model = 96: d_model is 96, and t5-v1.1 has 768; d_head 64 and d_ff 2048"
        " stay" in out
    )
    assert "note:" not in ask(*verb, "t5-v1.1").out


def test_sinusoids_that_drown_embeddings_are_told(ask):
    note = "note: gpt2, positions = sinusoidal: positions are sinusoids of size 0.71, 35.4 times"
    assert note in ask("show", "gpt2", "--set", "positions=sinusoidal").out
    scaled = ("--set", "positions=sinusoidal", "--set", "embedding.scale=sqrt_d_model")
    assert "note:" not in ask("show", "gpt2", *scaled).out


def test_a_card_says_how_a_source_is_seen(ask):
    merged = {"positions": "rotary", "encoder.cross_form": "merged", "encoder.cross": "nothing"}
    norms = {"attention.value_norm": "true", "attention.output_norm": "true"}
    changes = merged | norms | {"encoder.cross_positions": "rotary"}
    words = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    card = ask("show", "encdec-shared", *words)
    assert card.status == 0, card.err
    for part in (
        "rotary(theta=10000), in cross-attention rotary",
        "to the source, nothing, merged with self-attention",
        "the encoder is the stack itself, and has no parameter of its own",
        "value norm, output norm",
    ):
        assert part in card.out
