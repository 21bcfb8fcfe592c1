"""The maximal update parametrisation: its scales and rates by hand, and what it refuses."""

from typing import Any

import pytest

from paribus.errors import SpecError
from paribus.spec import Architecture, load, parameters, resolve
from paribus.spec.mup import growth_problems, mup_note
from paribus.spec.role_rates import adam_eps_factor, rate_share, role_rate_shares
from paribus.spec.run import load_run

EXPERTS = {"kind": "experts", "n_experts": 4, "n_active": 2, "d_expert": 96}
T5 = {"head__scale": 1.0, "attention__score_scale": None}  # whose own would be refused
SMALL = {"n_layers": 2, "d_model": 192, "attention.n_heads": 3, "n_vocab": 101, "init": "mup"}


def small(preset: str = "gpt2", **changes: Any) -> Architecture:
    return load(preset, changes={**SMALL, **{k.replace("__", "."): v for k, v in changes.items()}})


def test_logits_of_a_tied_head_and_scores_are_scaled_by_the_width() -> None:
    spec = resolve(small(head__scale=6.0))
    assert spec.head.scale == pytest.approx(2.0)  # 6 × 64/192
    attention = spec.stack.layers[0].attention
    assert attention.kind == "multi_head"
    assert attention.score_scale == pytest.approx(32**0.5 / 64)
    own = resolve(small(init={"kind": "mup", "d_head_base": 64})).stack.layers[0].attention
    assert own.kind == "multi_head"
    assert own.score_scale == pytest.approx(1 / 8)  # as it is without the parametrisation


def test_a_head_of_its_own_has_a_rate_and_a_start_instead_of_a_scale() -> None:
    spec = resolve(small(head__tied=False))
    assert spec.head.scale == 1.0
    assert rate_share(parameters(spec)["head.weight"], spec) == pytest.approx(64 / 192)


def test_rates_by_role() -> None:
    spec = resolve(small(feed_forward=EXPERTS))
    shares = role_rate_shares(spec)
    assert shares.pop("residual") == pytest.approx((64 / 192, 64 / 96))
    assert {role: shares.pop(role) for role in ("query", "inward", "router")} == {
        "query": (pytest.approx(64 / 192),),
        "inward": (pytest.approx(64 / 192),),
        "router": (pytest.approx(64 / 192),),
    }
    assert shares == dict.fromkeys(("word", "position", "gain", "bias"), (1.0,))
    assert adam_eps_factor(spec) == 1e-4


def test_any_other_initialisation_has_one_rate() -> None:
    spec = resolve(small(init="fan_in"))
    assert set(role_rate_shares(spec).values()) == {(1.0,)}
    assert adam_eps_factor(spec) == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"placement": "post"}, "placement is 'post' with init 'mup'"),
        ({"attention__score_scale": 0.5}, "attention.score_scale is 0.5 with init 'mup'"),
        ({"attention__qk_norm": True}, "attention.qk_norm is true with init 'mup'"),
        ({"attention__qk_norm": "fixed"}, "attention.qk_norm is fixed with init 'mup'"),
        ({"embedding__scale": "sqrt_d_model"}, "embedding.scale is 'sqrt_d_model' with init"),
        ({"head__scale": "rsqrt_d_model"}, "head.scale is 'rsqrt_d_model' with init 'mup'"),
    ],
)
def test_what_it_does_not_go_with_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as fault:
        resolve(small(**changes))
    assert any(problem.startswith(message) for problem in fault.value.problems)


def test_latent_attention_is_refused() -> None:
    with pytest.raises(SpecError, match=r"attention.kind is 'latent' with init 'mup'"):
        resolve(load("deepseek-v3", changes={"init": "mup"}))


@pytest.mark.parametrize("kind", ["muon", "adafactor"])
def test_an_optimizer_without_rates_by_role_is_refused(kind: str) -> None:
    run = {"architecture": {"preset": "gpt2", "init": "mup"}, "training": {"n_steps": 5}}
    said = f"training.optimizer is '{kind}' with architecture.init 'mup', whose rates are AdamW's"
    with pytest.raises(SpecError, match=said):
        load_run(run, {"training.optimizer": kind})
    load_run(run)


def test_experts_are_marked() -> None:
    note = mup_note(small(feed_forward=EXPERTS))
    assert note is not None
    assert "experts are beyond the paper" in note
    assert mup_note(small()) is None
    assert mup_note(small(init="normal", feed_forward=EXPERTS)) is None


def test_only_the_width_may_grow() -> None:
    assert not list(growth_problems(small(), small(d_model=384, attention__n_heads=6)))
    (deeper,) = growth_problems(small(), small(n_layers=3))
    assert deeper.startswith("n_layers changes from 2 to 3 with init 'mup', which transfers rates")
    (larger,) = growth_problems(small(), small(d_model=384))
    assert larger.startswith("attention.d_head changes from 64 to 128 with init 'mup'")
    assert not list(growth_problems(small(init="normal"), small(init="normal", n_layers=3)))
    pair = [small("t5", encoder__n_layers=n, **T5) for n in (2, 3)]
    (encoder,) = growth_problems(*pair)
    assert encoder.startswith("encoder.n_layers changes from 2 to 3")
