"""The control table: six marks, and none of them hides what could have been equal."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from trained_study import design_table

from paribus.design.arms import arms_of
from paribus.design.control import describe_confounds, field_lines, judge_pairs
from paribus.design.field_paths import unused_allowances
from paribus.design.role_rate_lines import role_rate_lines
from paribus.errors import SpecError
from paribus.record import ControlLine
from paribus.spec.design import arm_tables, compared_pairs
from paribus.spec.design_reading import load_design
from paribus.spec.run import load_run
from paribus.spec.training import Muon

HALVES = {"kind": "halves", "n_items": 5}
# Full attention can only be asked for the last token, an encoder-decoder never: the objective is
# forced.
FORCED: dict[str, Any] = {
    "primary.measure": HALVES,
    "factor": ["architecture.mask", "architecture.encoder"],
    "arms.causal": None,
    "arms.reverse": None,
    "arms.full.objective": {"kind": "last_token", "most": 0.75},
    "arms.pair": {
        "architecture": {"mask": "causal", "encoder": {"n_layers": 1}},
        "objective": "prefix",
    },
}


def lines(changes: dict[str, Any] | None = None) -> dict[str, ControlLine]:
    design = load_design(design_table(changes))
    arms = arms_of(design)
    return {line.path: line for line in field_lines(design, arms, judge_pairs(design, arms))}


def marks(changes: dict[str, Any] | None = None) -> dict[str, str]:
    return {path: line.mark for path, line in lines(changes).items() if line.mark != "✓"}


def test_the_factor_alone_differs_in_the_little_design() -> None:
    assert marks() == {"architecture.mask": "Δ"}
    assert len(lines()) > 50


def test_what_could_have_been_set_equal_is_a_confound_with_its_path_and_values() -> None:
    found = lines({"arms.causal.training": {"warmup": 2}})
    assert found["training.warmup"].mark == "✗"
    (said,) = describe_confounds(found.values())
    assert (
        said == "training.warmup is 0 in full, 0 in reverse, 2 in causal, but it is not the factor:"
        " full's 0 is accepted in causal too; set it equal, name it in factor, or list it under"
        " allow with a reason"
    )


def test_a_confound_may_be_allowed_with_a_reason_which_is_kept() -> None:
    allow = {"training.warmup": "longer text needs it"}
    found = lines({"arms.causal.training": {"warmup": 2}, "allow": allow})
    assert found["training.warmup"].allowed == "longer text needs it"
    assert found["training.warmup"].mark == "✗"
    assert describe_confounds(found.values()) == ()


def test_what_the_factor_forces_follows_and_the_refusal_is_told() -> None:
    found = lines(FORCED)
    assert found["objective.kind"].mark == "→"
    assert found["objective.kind"].note.startswith(
        "objective.kind is 'last_token' for an encoder-decoder, but"
    )
    assert {path: line.mark for path, line in found.items() if line.mark not in "✓→"} == {
        "architecture.mask": "Δ",
        "architecture.encoder": "Δ",
        "architecture.encoder.n_layers": "Δ",
        "architecture.encoder.mask": "Δ",
        "architecture.encoder.shared": "Δ",
    }


def test_an_objective_that_the_other_arm_could_take_is_a_confound() -> None:
    """Full attention forces the last token, but a causal mask could be asked for it too."""
    objective = {
        "base.objective": "causal",
        "primary.measure": HALVES,
        "arms.reverse": None,
        "baseline": "causal",
    }
    found = lines(objective | {"arms.full.objective": "last_token"})["objective.kind"]
    assert (found.mark, found.note) == ("✗", "full's 'last_token' is accepted in causal too")


def test_fields_that_can_only_move_together_are_confounds_beside_one_that_is_forced() -> None:
    """Heads must divide the width: 2 of 16 and 3 of 15 are refused one by one; together they
    could be equal.
    """
    sizes = {
        "arms.pair.architecture.d_model": 15,
        "arms.pair.architecture.attention": {"n_heads": 3},
    }
    found = lines(FORCED | sizes | {"base.architecture.positions": "none"})
    assert found["objective.kind"].mark == "→"
    width = found["architecture.d_model"]
    assert width.mark == found["architecture.attention.n_heads"].mark == "✗"
    assert (
        width.note
        == "full's 16 is accepted in pair too, together with its architecture.attention.n_heads"
    )


def test_a_second_thing_that_differs_is_a_confound_beside_one_that_is_forced() -> None:
    found = marks(FORCED | {"arms.pair.training": {"z_loss": 0.1}})
    assert found["training.z_loss"] == "✗"
    assert found["objective.kind"] == "→"


def test_a_factor_that_names_a_part_of_a_list_does_not_free_the_rest_of_it() -> None:
    copy = {"kind": "copy", "form": "text", "n_documents": 300}
    changes = {
        "factor": ["architecture.mask", "corpus.sources.0.weight"],
        "arms.causal.corpus": {"sources": [copy]},
    }
    assert marks(changes)["corpus.sources"] == "✗"
    changes["factor"] = ["architecture.mask", "corpus.sources"]
    assert marks(changes)["corpus.sources"] == "Δ"


def test_a_kind_in_short_is_the_same_as_its_table() -> None:
    same = {"base.architecture.norm": "rms", "arms.causal.architecture.norm": {"kind": "rms"}}
    assert marks(same) == {"architecture.mask": "Δ"}
    assert (
        marks(same | {"arms.causal.architecture.norm": {"kind": "rms", "eps": 0.1}})[
            "architecture.norm.eps"
        ]
        == "✗"
    )
    other = {
        "base.architecture.norm": {"kind": "rms", "eps": 0.1},
        "arms.causal.architecture.norm": {"kind": "layer"},
    }
    assert set(marks(other)) == {
        "architecture.mask",
        "architecture.norm.kind",
        "architecture.norm.eps",
        "architecture.norm.bias",
    }


def test_what_was_moved_is_matched_and_a_rate_that_is_swept_is_tuned_alike() -> None:
    design = load_design(design_table())
    arms = arms_of(design)
    findings = judge_pairs(design, arms)
    wide = load_design(design_table({"base.architecture.feed_forward": {"d_ff": 60}}))
    final = [*arms[:2], replace(arms[2], run=arms_of(wide)[2].run)]
    moved = {"causal": {"architecture.feed_forward.d_ff": "moved so that parameters agree"}}
    tuning = {"training.optimizer.rate": "5 rates"}
    found = {line.path: line for line in field_lines(design, final, findings, moved, tuning)}
    assert found["architecture.feed_forward.d_ff"].mark == "≈"
    assert found["architecture.feed_forward.d_ff"].note == "moved so that parameters agree"
    assert (found["training.optimizer.rate"].mark, found["training.optimizer.rate"].note) == (
        "⟳",
        "5 rates",
    )


def test_rates_written_apart_stay_a_confound_that_is_allowed_though_they_are_swept() -> None:
    """Each arm's grid lies around the rate as written; so the allowance lets something pass."""
    rate = "training.optimizer.rate"
    apart = {"arms.causal.training": {"optimizer": {"rate": 0.01}}, "allow": {rate: "its own grid"}}
    design = load_design(design_table(apart))
    arms = arms_of(design)
    found = field_lines(
        design, arms, judge_pairs(design, arms), tuning_descriptions={rate: "5 rates"}
    )
    line = next(one for one in found if one.path == rate)
    assert (line.mark, line.allowed) == ("✗", "its own grid")
    assert unused_allowances(design, found) == {}


def test_a_line_has_the_worst_mark_of_its_pairs_and_says_which_trial() -> None:
    """Reverse and causal are compared too, and only they could be equal in what the third
    cannot have.
    """
    pairs = [["causal", "full"], ["causal", "reverse"]]
    found = lines({"comparisons": pairs, "arms.reverse.training": {"z_loss": 0.1}})[
        "training.z_loss"
    ]
    assert (found.mark, found.note) == ("✗", "reverse's 0.1 is accepted in causal too")


def test_a_line_that_follows_in_one_pair_and_not_in_another_is_a_confound() -> None:
    """An encoder-decoder cannot be asked for the last token, so there the objective follows; a
    causal mask can.
    """
    causal = {"architecture": {"mask": "causal"}, "objective": "prefix"}
    for pairs in ([["pair", "full"], ["causal", "full"]], [["causal", "full"], ["pair", "full"]]):
        found = lines(FORCED | {"arms.causal": causal, "comparisons": pairs})["objective.kind"]
        assert (found.mark, found.note) == ("✗", "full's 'last_token' is accepted in causal too")
    assert (
        lines(FORCED | {"arms.causal": causal, "comparisons": pairs[1:]})["objective.kind"].mark
        == "→"
    )


def test_arms_that_are_not_compared_may_differ_and_the_line_says_so() -> None:
    changes = {"comparisons": [["causal", "full"]], "arms.reverse.training": {"z_loss": 0.1}}
    found = lines(changes)["training.z_loss"]
    assert (found.mark, found.note) == ("✓", "equal in every pair that is compared")


def test_simple_effects_of_a_factorial_are_compared_too() -> None:
    """The interaction needs causal+none against full+none, though neither is judged against the
    other.
    """
    mask = {"path": "architecture.mask", "levels": ["full", "causal"]}
    positions = {
        "levels": {
            "rotary": {"architecture": {"positions": "rotary"}},
            "none": {"architecture": {"positions": "none"}},
        }
    }
    changes = {
        "arms": None,
        "factor": None,
        "factors": {"mask": mask, "positions": positions},
        "baseline": "full+rotary",
    }
    design = load_design(design_table(changes))
    assert {frozenset(pair) for pair in compared_pairs(design)} == {
        frozenset(pair) for pair in itertools.combinations(arm_tables(design), 2)
    }


def test_arms_of_a_contrast_are_compared() -> None:
    """Reverse is judged against nothing, but enters a contrast with causal."""
    changes = {"comparisons": [["causal", "full"]], "arms.reverse.training": {"z_loss": 0.1}}
    contrast = {"contrasts": {"gap": {"reverse": 1, "causal": -1}}}
    assert lines(changes | contrast)["training.z_loss"].mark == "✗"


def test_an_optimizer_is_a_factor_and_its_own_fields_follow() -> None:
    changes: dict[str, Any] = {"factor": "training.optimizer.kind", "baseline": "adamw"}
    changes |= {f"arms.{arm}": None for arm in ("full", "reverse", "causal")}
    for kind in ("adamw", "adafactor", "muon"):
        own = {"kind": kind, "rate": 0.01}
        changes[f"arms.{kind}"] = {"training": {"optimizer": own}}
    found = lines(changes)
    kind = found["training.optimizer.kind"]
    assert kind.mark == "Δ"
    assert kind.values == {"adamw": "adamw", "adafactor": "adafactor", "muon": "muon"}
    assert found["training.optimizer.rate"].mark == "✓"
    assert found["training.optimizer.momentum"].mark == "→"
    # Adafactor decays nothing by default, and could
    assert {path for path, line in found.items() if line.mark == "✗"} == {
        "training.optimizer.decay"
    }


def test_an_arm_that_names_the_kind_of_the_base_keeps_its_rate() -> None:
    """The base has AdamW by default; another kind takes nothing over from it."""
    changes: dict[str, Any] = {
        "factor": "training.optimizer",
        "baseline": "plain",
        "base.training.optimizer": {"rate": 0.03},
        "arms": None,
        "arms.plain": {},
        "arms.named": {"training": {"optimizer": "adamw"}},
        "arms.table": {"training": {"optimizer": {"kind": "adamw", "beta2": 0.9}}},
        "arms.other": {"training": {"optimizer": "muon"}},
    }
    rates = {
        arm.name: arm.run.last.training.optimizer.rate
        for arm in arms_of(load_design(design_table(changes)))
    }
    assert rates == {"plain": 0.03, "named": 0.03, "table": 0.03, "other": Muon().rate}


def test_an_optimizer_that_is_not_the_factor_is_a_confound() -> None:
    own = {"training": {"optimizer": {"kind": "muon", "rate": 0.01}}}
    assert (
        lines({"arms.causal": {**own, "architecture": {"mask": "causal"}}})[
            "training.optimizer.kind"
        ].mark
        == "✗"
    )


def test_schedules_and_optimizers_are_factors_that_can_be_crossed() -> None:
    schedules = ("cosine", "constant", "linear", "trapezoid", "inverse_sqrt")
    optimizers = {}
    for kind in ("adamw", "muon"):
        optimizers[kind] = {"training": {"optimizer": {"kind": kind, "rate": 0.03}}}
    changes: dict[str, Any] = {
        "factor": None,
        "arms": None,
        "baseline": "cosine+adamw",
        "base.training.warmup": 2,
        "factors.schedule": {"path": "training.schedule", "levels": list(schedules)},
        "factors.optimizer": {"levels": optimizers},
    }
    found = lines(changes)
    for path in ("training.schedule.kind", "training.optimizer.kind"):
        assert found[path].mark == "Δ"
    assert not [path for path, line in found.items() if line.mark == "✗"]
    runs = {arm.name: arm.run.last.training for arm in arms_of(load_design(design_table(changes)))}
    assert set(runs) == {f"{one}+{two}" for one in schedules for two in optimizers}
    for name, training in runs.items():
        assert f"{training.schedule.kind}+{training.optimizer.kind}" == name
        assert (training.optimizer.rate, training.warmup) == (0.03, 2)


def test_a_schedule_that_is_not_the_factor_is_a_confound() -> None:
    found = lines({"arms.causal.training": {"schedule": "constant"}})
    assert found["training.schedule.kind"].mark == "✗"


def mup_lines(architectures: dict[str, dict[str, Any]]) -> dict[str, ControlLine]:
    runs = {}
    for arm, architecture in architectures.items():
        table = {"preset": "gpt2", "n_layers": 1, "attention": {"n_heads": 2}, **architecture}
        runs[arm] = load_run({"architecture": table, "training": {"n_steps": 5, "length": 16}})
    return {line.path: line for line in role_rate_lines(runs)}


def test_rates_by_role_follow_from_the_initialisation() -> None:
    sizes: dict[str, Any] = {"d_model": 128, "init": "mup"}
    found = mup_lines({"plain": {"d_model": 128}, "mup": sizes})
    assert found["rate of inward weights"].mark == "→"
    assert found["rate of inward weights"].note == "follows from architecture.init and the widths"
    assert found["rate of inward weights"].values == {"plain": "× 1", "mup": "× 0.5"}
    assert found["rate of residual weights"].values["mup"] == "× 0.125, × 0.5"
    assert found["eps of adamw"].values == {"plain": "× 1", "mup": "× 0.0001"}
    assert found["rate of word weights"].mark == "✓"
    assert found["reach of mup"].values == {"plain": "–", "mup": "within the paper"}


def test_experts_under_mup_are_marked_as_beyond_the_paper() -> None:
    experts = {"kind": "experts", "n_experts": 4, "n_active": 2}
    sizes: dict[str, Any] = {"d_model": 64, "init": "mup"}
    found = mup_lines({"dense": sizes, "experts": {**sizes, "feed_forward": experts}})
    assert found["reach of mup"].mark == "→"
    assert found["reach of mup"].values["experts"] == "experts are beyond the paper"
    assert mup_lines({"one": {"d_model": 64}}) == {}


def test_a_match_by_depth_is_refused_under_mup() -> None:
    changes = {
        "base.architecture.init": "mup",
        "match": {"by": "parameters", "moves": ["depth"]},
    }
    with pytest.raises(SpecError, match=r"match.moves has depth with architecture.init 'mup'"):
        lines(changes)


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ({"architecture": {"placement": "post"}}, "placement is 'post' with init 'mup'"),
        ({"training": {"optimizer": "muon"}}, "training.optimizer is 'muon' with"),
        ({"training": {"optimizer": "adafactor"}}, "training.optimizer is 'adafactor' with"),
    ],
)
def test_an_arm_that_mup_has_no_rates_for_is_refused(arm: dict[str, Any], message: str) -> None:
    changes = {"base.architecture.init": "mup", "arms.causal": arm}
    with pytest.raises(SpecError, match=rf"arms.causal: .*{message}"):
        lines(changes)
