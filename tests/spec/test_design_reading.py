"""A design is read strictly: every slip is named by its path before anything is trained."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from factorial_design import (
    FACTORS,
    complaint,
    factorial,
)
from trained_study import LENGTH, design_table

from paribus.errors import SpecError
from paribus.spec.design import (
    Design,
    Match,
    arm_levels,
    arm_tables,
    compute_margin,
    declared_paths,
    judged_pairs,
    leaves_of,
)
from paribus.spec.design_reading import load_design, require_valid_design
from paribus.spec.must import Must

TWO = {"kind": "pseudo", "n_items": 5}


def test_a_design_is_read_with_its_defaults() -> None:
    design = load_design(design_table({"tune": True, "seeds": 5}))
    assert design.seeds == (1, 2, 3, 4, 5)
    assert design.tune is not None
    assert (design.tune.n_rates, design.tune.n_seeds, design.tune.split) == (5, 2, "valid")
    assert (design.report, design.factor, design.looks) == ("last", ("architecture.mask",), None)
    assert load_design(design_table()).tune is None
    assert load_design(design_table({"match": "nothing"})).match == Match(by="nothing")


SLIPS = [
    ({"sedes": 4}, "sedes is not a key here; did you mean 'seeds'? keys are question, "),
    ({"scale": {}}, "scale is not a key here; did you mean 'scales'?"),
    (
        {"seeds": 2},
        "seeds has 2; use 3 or more, for fewer give no interval; 5 is a good start, and 10 if you",
    ),
    ({"seeds": 2}, "10 if you want to show that arms are equivalent"),
    ({"seeds": []}, "seeds is an empty list; use 3 or more, for fewer give no interval"),
    ({"seeds": -4}, "seeds is -4; use 3 or more, for fewer give no interval"),
    (
        {"seeds": 4.5},
        (
            "seeds is 4.5; use how many, such as 5, or a list of them, or 'open' to decide as"
            " results come"
        ),
    ),
    ({"seeds": True}, "seeds is True; use how many, such as 5, or a list"),
    (
        {"arms": [{"architecture": {}}]},
        "arms is a list of 1, and each needs a name; write [arms.NAME], not [[arms]]",
    ),
    (
        {"factors": [{}, {}]},
        "factors is a list of 2, and each needs a name; write [factors.NAME], not [[factors]]",
    ),
    (
        {"seeds": [1, 2, 2, 3]},
        "seeds are [1, 2, 2, 3], one of them twice; a seed is one replicate, name it once",
    ),
    ({"seeds": 5000}, "seeds is 5000; use fewer than 1001, where the seeds of sweeps begin"),
    ({"seeds": [1, 2, 1001]}, "seeds.2 is 1001 (int); use less than 1001"),
    (
        {"seeds": "many"},
        "seeds is 'many'; use how many, a list of them, or 'open' to decide as results come",
    ),
    (
        {"seeds": "open", "looks": {"5": 0.05}},
        (
            "looks are given beside seeds = 'open', whose verdict may be read at any number of"
            " them; leave one out"
        ),
    ),
    (
        {"equal_noise": True},
        "equal_noise is true, and one noise for all arms is no longer offered: where the baseline",
    ),
    (
        {"equal_noise": True, "comparisons": [["causal", "full"]]},
        "8 to 17 % of such studies say something false",
    ),
    (
        {"equal_noise": True, "seeds": "open"},
        "leave it out, and every pair is judged by its own noise",
    ),
    ({"equal_noise": 7}, "equal_noise is 7 (int); use true or false"),
    ({"factor": []}, "factor is missing; name the paths in which the arms may differ, such as"),
    (
        {"factor": None},
        (
            "factor is missing; name the paths in which the arms may differ, such as"
            " 'architecture.mask'"
        ),
    ),
    (
        {"factor": "architectur.mask"},
        "factor 'architectur.mask' is no path of a run; begin with architecture, corpus",
    ),
    (
        {"arms": None},
        "arms and factors: give one of them, either a table of arms or the factors of a factorial",
    ),
    ({"factors": FACTORS}, "arms and factors: give one of them"),
    (
        {"arms.causal": None, "arms.reverse": None},
        "arms has only full, and a comparison needs two; add the arm that it",
    ),
    (
        {"arms.full.archtecture": {}},
        "arms.full.archtecture is not a key here; did you mean 'architecture'? keys are ",
    ),
    (
        {"base.trainin": {}},
        "base.trainin is not a key here; did you mean 'training'? keys are architecture, corpus",
    ),
    (
        {"baseline": "ful"},
        "baseline is 'ful', which is not an arm; did you mean 'full'? arms are reverse, full,"
        " causal",
    ),
    ({"control": "none"}, "control is 'none', which is not an arm; arms are reverse, full, causal"),
    (
        {"control": "full"},
        "control is 'full', the baseline itself; name an arm that must come out worse than it",
    ),
    (
        {"comparisons": []},
        "comparisons is an empty list; name at least one pair, or leave it out: every arm against",
    ),
    (
        {"comparisons": ["causal"]},
        "comparisons is ['causal']; write pairs of an arm and what it is judged against: [[",
    ),
    (
        {"comparisons": "causal"},
        "comparisons is 'causal'; write pairs of an arm and what it is judged against",
    ),
    (
        {"comparisons": [["casual", "full"]]},
        (
            "comparisons has 'casual', which is not an arm; did you mean 'causal'? arms are"
            " reverse,"
            " full, causal"
        ),
    ),
    (
        {"comparisons": [["causal", "causal"]]},
        "comparisons has 'causal' against itself; name the arm it is judged",
    ),
    (
        {"comparisons": [["causal", "full"], ["full", "causal"]]},
        "comparisons has 'full' and 'causal' twice; one of them is judged against the other, once",
    ),
    ({"report": "best"}, "report is 'best'; use 'last'"),
    (
        {"tune": {"split": "test"}},
        "tune.split is 'test', on which the primary yardstick reports; rates must be chosen",
    ),
    ({"tune": {"n_rates": 4}}, "tune.n_rates is 4 (int); use 5 or more"),
    ({"tune": {"n_seeds": 1}}, "tune.n_seeds is 1 (int); use 2 or more"),
    (
        {"looks": {"5": 0.05}},
        "looks are at [5] of 3 seeds; look at 3 or more, the last time at all 3",
    ),
    (
        {"looks": {"2": 0.01, "3": 0.04}},
        "looks are at [2, 3] of 3 seeds; look at 3 or more, the last time at all 3",
    ),
    (
        {"looks": {"3": 0.06}},
        "looks has shares [0.06], 0.06 in all; let them be above 0 and add up to 0.05",
    ),
    ({"looks": {}}, "looks has shares [], 0 in all"),
    (
        {"looks": {"soon": 0.05}},
        "looks are at ['soon']; write numbers of seeds, as in { 5 = 0.01, 10 = 0.04 }",
    ),
    ({"looks": 3}, "looks is 3 (int); use a table"),
    (
        {"others": [TWO]},
        "others: the yardsticks are pseudo on test, pseudo on test; use each kind once on a split",
    ),
    (
        {"primary.margin": "5 % more"},
        "primary.margin is '5 % more'; use a number, or such as '5 % compute', up to 300",
    ),
    ({"primary.margin": "301 % compute"}, "primary.margin is '301 % compute'; use a number"),
    (
        {"primary.margin": "5 % compute"},
        (
            "primary.margin is '5 % compute', which is priced from runs of 3 lengths or more, and"
            " lengths is missing; write lengths = [0.25, 0.5, 1], or a margin in bits per byte"
        ),
    ),
    (
        {"primary.margin": "5 % compute", "lengths": [0.5, 1]},
        "runs of 3 lengths or more, and lengths is [0.5, 1.0]; w",
    ),
    (
        {"primary.test": "not worse", "primary.margin": None},
        (
            "primary.test is 'not worse', and there is no margin to lose; give primary.margin, such"
            " as 0.02"
        ),
    ),
    (
        {"primary.test": "better", "primary.margin": 0.1},
        "primary.test is 'better'; use 'two-sided' or 'not worse'",
    ),
    (
        {"lengths": [0.5, 0.25, 1]},
        "lengths is [0.5, 0.25, 1]; write ascending shares of the full length that end w",
    ),
    (
        {"lengths": [0.25, 0.5]},
        "lengths is [0.25, 0.5]; write ascending shares of the full length that end with 1: l",
    ),
    ({"lengths": [0, 0.5, 1]}, "lengths is [0, 0.5, 1]; write ascending shares"),
    (
        {"lengths": [1]},
        (
            "lengths is [1]; write ascending shares of the full length that end with 1: lengths ="
            " [0.25,"
        ),
    ),
    ({"lengths": []}, "lengths is []; write ascending shares"),
    ({"lengths": 0.5}, "lengths is 0.5; write ascending shares"),
    ({"lengths": ["half", 1]}, "lengths is ['half', 1]; write ascending shares"),
    ({"primary.margn": 1}, "primary.margn is not a key here; did you mean 'margin'?"),
    (
        {"primary.measure.n_item": 1},
        "primary.measure.n_item is not a key here; did you mean 'n_items'?",
    ),
    (
        {"allow": {"training.warmup": " "}},
        "allow.training.warmup has no reason; say why it may differ all the same",
    ),
    (
        {"primary": "halves"},
        (
            "primary is 'halves' (str); write a table with keys measure, margin, test, such as {"
            " measure = 'halves' }"
        ),
    ),
    ({"primary": 3}, "primary is 3 (int); write a table with keys measure, margin, test"),
    ({"base": 3}, "base is 3 (int); use a table"),
    ({"question": 3}, "question is 3 (int); use text"),
    ({"match": {"by": "size"}}, "match.by is 'size'; use 'nothing', 'parameters'"),
    (
        {"base.training.seed": 4},
        "base.training.seed is set by seeds, one run for each; leave it out",
    ),
    (
        {"arms.full.training": {"seed": 4}},
        "arms.full.training.seed is 4, but seeds sets it, one run for each; leave it out",
    ),
    (
        {"arms.full.training": {"data_seed": 4}, "arms.causal.training": {"data_seed": 4}},
        "arms.causal.training.data_seed is 4, but seeds sets it, one run for each; leave it out",
    ),
    (
        {"factor": "training", "arms.full.training": {"data_seed": 4}},
        (
            "factor: arms differ in training.data_seed, which seeds sets; compare them in something"
            " else"
        ),
    ),
    (
        {
            "factor": "training.optimizer.rate",
            "tune": True,
            "arms.full.training": {"optimizer": {"rate": 0.1}},
        },
        (
            "factor: arms differ in training.optimizer.rate, which the sweep finds; set tune ="
            " false to compare rates as"
        ),
    ),
    (
        {
            "factor": "training.n_steps",
            "budget": "tokens_read",
            "arms.full.training": {"n_steps": 3},
        },
        (
            "factor: arms differ in training.n_steps, which budget = 'tokens_read' moves; write the"
            " same in every arm, or leave the budget out"
        ),
    ),
]


@pytest.mark.parametrize(("changes", "said"), SLIPS)
def test_a_slip_is_named_with_what_would_do(changes: dict[str, Any], said: str) -> None:
    assert said in complaint(design_table(changes))


@pytest.mark.parametrize("margin", [-0.1, 0, float("nan"), float("inf"), True, [1]])
def test_a_margin_that_is_none_gets_one_line(margin: Any) -> None:
    said = (
        f"primary.margin is {margin!r}; use a number of bits per byte above 0, or such as '5 %"
        " compute'"
    )
    assert complaint(design_table({"primary.margin": margin})) == said


def test_the_number_of_seeds_may_be_left_open_and_one_noise_be_declared() -> None:
    design = load_design(design_table({"seeds": "open"}))
    assert (design.seeds, design.equal_noise) == ("open", False)
    assert Design.model_validate(design.model_dump()) == design
    assert design.model_dump(mode="json")["seeds"] == "open"
    assert load_design(design_table(), changes={"seeds": "open"}).seeds == "open"
    assert (
        load_design(
            design_table({"seeds": 4, "equal_noise": False, "looks": {"3": 0.01, "4": 0.04}})
        ).looks
        is not None
    )


CROSSED = [
    (
        {"factors.mask.levels": ["full"]},
        "factors.mask.levels is ['full']; give at least two levels: a list beside a",
    ),
    ({"factors.mask.levels": []}, "factors.mask.levels is []; give at least two levels"),
    ({"factors.mask.levels": 7}, "factors.mask.levels is 7; give at least two levels"),
    (
        {"factors.mask.path": None},
        "factors.mask.levels is a list without a path; say at which path these are",
    ),
    (
        {"factors.mask.levels": ["full", "full"]},
        "factors.mask.levels has values that would get the same name: full",
    ),
    (
        {"factors.positions.path": "architecture.positions"},
        (
            "factors.positions.levels is a table of levels beside the path"
            " 'architecture.positions'; leave the path out"
        ),
    ),
    (
        {"factors.positions.levels.none": "none"},
        "factors.positions.levels has none = 'none'; write a table, as { arch",
    ),
    (
        {"factors.positions.levels": {"a+b": {}, "c": {}}},
        "factors.positions.levels has a level 'a+b'; use up to 40 le",
    ),
    (
        {"factors.positions.levels.none": {"architectur": {}}},
        (
            "factors.positions.levels.none.architectur is not a key here; did you mean"
            " 'architecture'? keys are architecture"
        ),
    ),
    ({"factors.mask.path": "mask"}, "factor 'mask' is no path of a run; begin with architecture"),
    ({"factors.mask.pth": "mask"}, "factors.mask.pth is not a key here; did you mean 'path'?"),
    (
        {"factors.again": FACTORS["mask"]},
        "factors.mask and factors.again both write architecture.mask; let each level",
    ),
    ({"equal_noise": True}, "equal_noise is true, and one noise for all arms is no longer offered"),
    (
        {"factor": "architecture"},
        "factor is given beside factors, whose paths are the ones that differ; leave it out",
    ),
]


@pytest.mark.parametrize(("changes", "said"), CROSSED)
def test_a_slip_in_a_factorial_is_named_with_what_would_do(
    changes: dict[str, Any], said: str
) -> None:
    assert said in complaint(factorial(changes))


@pytest.mark.parametrize("name", ["..", "../up", "a/b", ".hidden", "", "a\nb", "x" * 81, "-x"])
def test_an_arm_is_called_by_letters_and_cannot_be_a_path(name: str) -> None:
    table = design_table()
    table["arms"][name] = {}
    assert (
        f"arms.{name} cannot be an arm's name; use up to 80 letters, digits, spaces, '.', '_'"
        in complaint(table)
    )


def test_every_arm_is_compared_with_the_baseline_unless_pairs_are_named() -> None:
    assert judged_pairs(load_design(design_table())) == (("reverse", "full"), ("causal", "full"))
    named = load_design(design_table({"comparisons": [["causal", "reverse"], ["causal", "full"]]}))
    assert judged_pairs(named) == named.comparisons == (("causal", "reverse"), ("causal", "full"))
    assert (
        load_design(named.model_dump(mode="json", exclude_defaults=True)).comparisons
        == named.comparisons
    )


def test_every_slip_is_told_at_once() -> None:
    said = complaint(
        design_table({"sedes": 4, "seeds": 2, "control": "none", "tune": {"split": "test"}})
    )
    assert len(said.splitlines()) == 4


def test_a_design_made_in_python_is_held_to_the_same() -> None:
    table = load_design(design_table()).model_dump()
    with pytest.raises(SpecError, match="seeds has 2; use 3 or more"):
        require_valid_design(Design(**{**table, "seeds": (1, 2)}))
    require_valid_design(Design(**table))


def test_the_levels_of_a_factorial_are_crossed() -> None:
    design = load_design(factorial())
    assert arm_tables(design) == {
        "full+turned": {"architecture": {"mask": "full", "positions": "rotary"}},
        "full+none": {"architecture": {"mask": "full", "positions": "none"}},
        "causal+turned": {"architecture": {"mask": "causal", "positions": "rotary"}},
        "causal+none": {"architecture": {"mask": "causal", "positions": "none"}},
    }
    assert arm_levels(design)["causal+turned"] == {"mask": "causal", "positions": "turned"}
    assert declared_paths(design) == ("architecture.mask", "architecture.positions")


def test_a_level_that_is_a_value_is_called_by_its_kind_or_its_letters() -> None:
    values = [{"kind": "rotary", "theta": 9.0}, "none"]
    table = factorial(
        {
            "factors": {
                "p": {"path": "architecture.positions", "levels": values},
                "m": {"path": "architecture.mask", "levels": ["causal & window(8)", "full"]},
            },
            "baseline": "none+full",
        }
    )
    assert list(arm_tables(load_design(table))) == [
        "rotary+causal-window-8",
        "rotary+full",
        "none+causal-window-8",
        "none+full",
    ]


def test_the_arms_of_a_list_are_their_own_levels() -> None:
    assert arm_levels(load_design(design_table()))["causal"] == {"arm": "causal"}


def test_a_scale_is_laid_over_the_rest() -> None:
    table = design_table(
        {"scales": {"smoke": {"seeds": 4, "base": {"training": {"n_steps": 2}}}, "hour": {}}}
    )
    design = load_design(table, "smoke")
    assert len(design.seeds) == 4
    assert design.base["training"]["n_steps"] == 2
    assert design.base["training"]["length"] == LENGTH
    assert len(load_design(table).seeds) == 3


SCALES = [
    (
        {"smok": {}},
        "smoke",
        "scales.smok is not a key here; did you mean 'smoke'? scales are smoke, laptop",
    ),
    ({"smoke": 3}, "smoke", "scales.smoke is 3; write a table that is laid over the rest"),
    (7, None, "scales is 7; write tables smoke, laptop, hour, paper"),
    ({"hour": {}}, "smoke", "scale is 'smoke'; this design has hour"),
    ({}, "smoke", "scale is 'smoke'; this design has none: leave it out"),
    (
        {"smoke": {"sedes": 3}},
        "smoke",
        "scales.smoke.sedes is not a key here; did you mean 'seeds'?",
    ),
]


@pytest.mark.parametrize(("scales", "scale", "said"), SCALES)
def test_a_slip_in_a_scale_is_named(scales: Any, scale: str | None, said: str) -> None:
    assert said in complaint({**design_table(), "scales": scales}, scale)


def test_changes_are_made_by_path_and_a_kind_before_its_fields() -> None:
    changes = {"primary.measure.n_items": 9, "primary.measure.kind": "halves", "seeds": 7}
    design = load_design(design_table(), changes=changes)
    assert (design.primary.measure.kind, design.primary.measure.n_items, len(design.seeds)) == (
        "halves",
        9,
        7,
    )
    assert "sedes is not a key here" in complaint(design_table(), changes={"sedes": 3})


def test_a_base_may_be_a_file_beside_the_design_and_is_kept_as_what_it_holds(
    tmp_path: Path,
) -> None:
    table = design_table()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "run.json").write_text(json.dumps(table["base"]))
    (tmp_path / "design.json").write_text(json.dumps({**table, "base": "runs/run.json"}))
    design = load_design(tmp_path / "design.json")
    assert design == load_design(table)
    changed = load_design(tmp_path / "design.json", changes={"base.training.n_steps": 7})
    assert changed.base["training"]["n_steps"] == 7
    absolute = load_design({**table, "base": str(tmp_path / "runs" / "run.json")})
    assert absolute == design
    other = {**table["base"], "training": {**table["base"]["training"], "length": 9}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    scaled = {**table, "base": "runs/run.json", "scales": {"smoke": {"base": "other.json"}}}
    (tmp_path / "scaled.json").write_text(json.dumps(scaled))
    assert load_design(tmp_path / "scaled.json", "smoke").base == other
    assert (
        load_design(tmp_path / "design.json", changes={"base": str(tmp_path / "other.json")}).base
        == other
    )


def test_a_base_may_be_a_preset_which_says_nothing_of_training() -> None:
    said = complaint({**design_table(), "base": "gpt2"})
    assert said.startswith(
        "base.training is missing, and reverse, full, causal gives none; say how long to train, suc"
    )
    assert said.endswith(
        "base = { architecture = 'gpt2', training = { n_steps = 600 } }: a preset is an"
        " architecture alone"
    )
    scales = {"smoke": {"base": {"training": {"n_steps": 5}}}}
    design = load_design({**design_table(), "base": "gpt2", "scales": scales}, "smoke")
    assert design.base == {"architecture": {"preset": "gpt2"}, "training": {"n_steps": 5}}
    set_there = load_design(
        {**design_table(), "base": "bert"}, changes={"base": "gpt2", "base.training.n_steps": 5}
    )
    assert set_there == design


def test_a_base_that_is_neither_is_met_with_the_nearest(tmp_path: Path) -> None:
    assert complaint({**design_table(), "base": "gtp2"}).startswith(
        "base is 'gtp2', which is neither a preset nor a .toml or .json file; did you mean 'gpt2'?"
        " presets are bart, bert, "
    )
    (tmp_path / "design.json").write_text(json.dumps({**design_table(), "base": "gone.toml"}))
    with pytest.raises(
        SpecError,
        match=r"gone.toml cannot be read: No such file or directory; give base a preset, a ",
    ):
        load_design(tmp_path / "design.json")


def test_files_are_read_as_mappings_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(design_table()))
    assert load_design(path) == load_design(design_table())
    assert (
        "nowhere.toml cannot be read: No such file or directory; give a file that describes"
        in complaint(Path("nowhere.toml"))
    )
    assert "mine.txt is no .toml or .json file; give one that describes a design" in complaint(
        "mine.txt"
    )


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("5 % compute", 0.05),
        ("12.5%compute", 0.125),
        ("0 % compute", None),
        ("5", None),
        ("400 % compute", None),
    ],
)
def test_a_margin_may_be_given_in_compute(text: str, share: float | None) -> None:
    assert compute_margin(text) == share


def test_the_leaves_of_a_table_are_its_paths() -> None:
    assert leaves_of({"a": {"b": 1, "c": {}}, "d": [1, 2]}) == {"a.b": 1, "a.c": {}, "d": [1, 2]}


def test_the_designs_in_the_documentation_are_sound() -> None:
    text = (Path(__file__).parents[2] / "docs" / "designs.md").read_text("utf-8")
    blocks = map(tomllib.loads, re.findall(r"```toml\n(.*?)```", text, re.DOTALL))
    one_arm, two_factors, reasons, checks = blocks
    first, crossed = load_design(one_arm), load_design(two_factors)
    assert list(reasons) == ["compound"]
    assert [Must.model_validate(one).claim.arm for one in checks["must"]] == [
        "causal tuned",
        "prefix tuned",
    ]
    assert list(arm_tables(first)) == ["causal", "prefix"]
    assert list(arm_tables(crossed)) == [
        "full+rotary",
        "full+no positions",
        "causal+rotary",
        "causal+no positions",
    ]


@pytest.mark.parametrize("level", [{"training": {"seed": 4}}, {"training": {"data_seed": 4}}])
def test_a_seed_in_the_levels_of_a_factor_is_refused(level: dict[str, Any]) -> None:
    levels = {"one": level, "other": level}
    (path,) = leaves_of(level)
    said = complaint(factorial({"factors": {"mask": FACTORS["mask"], "seeds": {"levels": levels}}}))
    assert (
        f"factor: arms differ in {path}, which seeds sets; compare them in something else" in said
    )


def test_a_seed_set_by_a_change_is_refused_where_every_arm_has_it() -> None:
    changes = {"arms.full.training.seed": 7, "arms.causal.training.seed": 7}
    said = complaint(design_table(), changes=changes)
    for arm in ("full", "causal"):
        assert (
            f"arms.{arm}.training.seed is 7, but seeds sets it, one run for each; leave it out"
            in said
        )


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (
            "arms",
            {},
            (
                "arms is set to {}, an empty table, which changes nothing of what is there"
                " (reverse, full, causal"
            ),
        ),
        ("base", {}, "base is set to {}, an empty table, which changes nothing of what is there ("),
        (
            "base.training",
            {},
            "base.training is set to {}, an empty table, which changes nothing of what is there (",
        ),
        (
            "base",
            {"training": {}},
            "base.training is set to {}, an empty table, which changes nothing of what",
        ),
        (
            "arms.full",
            {},
            "arms.full is set to {}, an empty table, which changes nothing of what is there (",
        ),
    ],
)
def test_an_empty_table_over_one_that_is_not_is_refused(path: str, value: Any, named: str) -> None:
    said = complaint(
        design_table({"arms.full": {"architecture": {"mask": "full"}}}), changes={path: value}
    )
    assert named in said
    assert said.endswith("; set the keys inside, or change them in the file")


def test_an_empty_table_where_nothing_is_does_what_it_says() -> None:
    assert (
        load_design(design_table({"arms.other": {}}), changes={"arms.other": {}}).arms["other"]
        == {}
    )
    assert load_design(design_table({"tune": False}), changes={"tune": {}}).tune is not None


@pytest.mark.parametrize("own", [{"arms": {}}, {"base": {}}, {"base": {"training": {}}}])
def test_an_empty_table_in_a_scale_is_refused_where_it_would_change_nothing(
    own: dict[str, Any],
) -> None:
    with pytest.raises(
        SpecError,
        match=r"^scales\.smoke\.(arms|base|base\.training) is set to \{\}, an empty table",
    ):
        load_design(design_table({"scales": {"smoke": own}}), "smoke")


MANY_NAMES = {
    "comparisons": [[f"causa{number}", "full"] for number in range(2_000)],
    "contrasts": {f"gap {number}": {f"causa{number}": 1, "full": -1} for number in range(2_000)},
}


@pytest.mark.parametrize("field", MANY_NAMES)
def test_of_many_names_that_no_arm_has_the_first_ten_are_told(field: str) -> None:
    said = complaint(design_table({field: MANY_NAMES[field]})).split("\n")
    assert sum("did you mean 'causal'?" in line for line in said) == 10
    assert said[-1] == "and 1,990 more names that no arm has; correct these first"


@pytest.mark.parametrize("n_arms", [64, 65])
def test_a_design_has_at_most_so_many_arms(n_arms: int) -> None:
    table = design_table()
    baseline = table["baseline"]
    others = {f"arm {number}": table["arms"][baseline] for number in range(n_arms - 1)}
    table["arms"] = {baseline: table["arms"][baseline], **others}
    table |= {"control": None, "comparisons": [["arm 1", baseline]]}
    if n_arms == 64:
        assert len(load_design(table).arms) == 64
        return
    assert complaint(table) == "arms has 65 arms; use at most 64, or several designs"


def test_of_many_bad_comparisons_the_first_are_told() -> None:
    said = complaint(design_table({"comparisons": [["causal", "causal"]] * 20_000})).split("\n")
    assert len(said) == 21
    assert said[-1] == "and 19,980 more problems; correct these first"


def test_a_value_is_quoted_in_a_line() -> None:
    many = complaint(design_table({"comparisons": [["causal", ["x"]]] * 20_000}))
    assert many.startswith("comparisons is [['causal', ['x']], ")
    assert " … " in many
    assert len(many) < 200
    assert len(complaint(design_table({"question": ["x"] * 100_000}))) < 200
    assert len(complaint(design_table({"q" * 100_000: 1}))) < 1500


def test_a_factorial_of_a_billion_arms_is_refused_before_they_are_made() -> None:
    factors = {f"f{n}": {"path": f"training.f{n}", "levels": [1, 2]} for n in range(30)}
    table = {key: value for key, value in design_table().items() if key not in ("factor", "arms")}
    with pytest.raises(
        SpecError,
        match=r"^factors have 1,073,741,824 combinations of levels; use at most 64, or",
    ):
        load_design({**table, "factors": factors})
