"""Manipulation checks as a design writes them: obeyed, or refused by name."""

import json
from typing import Any

import pytest
from factorial_design import complaint
from trained_study import design_table

from paribus.canonical import canonical_json
from paribus.report.toml_text import design_toml
from paribus.spec.design import declared_contrasts, judged_pairs
from paribus.spec.design_reading import load_design
from paribus.spec.fields import find_fields
from paribus.spec.must import Claim, hanging_contrasts, hanging_pairs, parse_claim

OTHER = {"kind": "pseudo", "split": "valid", "max_bytes": 32}


def with_must(*tables: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return design_table({"must": list(tables), "others": [OTHER], **changes})


def test_what_must_hold_is_one_arm_above_another_or_a_threshold_on_the_gain_over_chance() -> None:
    assert parse_claim("tuned > untuned") == Claim("tuned", "untuned")
    assert parse_claim("full+none>causal+none") == Claim("full+none", "causal+none")
    assert parse_claim("a b > 90 % of c-d") == Claim("a b", "c-d", share=0.9)
    assert parse_claim("tuned > chance + 0.05") == Claim("tuned", None, points=0.05)
    assert not parse_claim("tuned > untuned").is_threshold
    assert parse_claim("tuned > 12.5% of untuned").is_threshold


def test_a_check_is_read_as_it_is_written_and_again_from_plain_values() -> None:
    table = with_must(
        {"that": "reverse > causal", "for": ["reverse", ["causal", "full"]], "on": "pseudo.valid"},
        {"that": "full > 50 % of causal", "for": "reverse"},
    )
    design = load_design(table)
    assert [must.scope for must in design.must] == [("reverse", ("causal", "full")), ("reverse",)]
    plain = design.model_dump(mode="json")
    assert plain["must"] == [
        {
            "that": "reverse > causal",
            "on": "pseudo.valid",
            "for": ["reverse", ["causal", "full"]],
        },
        {"that": "full > 50 % of causal", "for": ["reverse"]},
    ]
    assert load_design(json.loads(json.dumps(plain))) == design
    assert '{ that = "full > 50 % of causal", for = ["reverse"] }' in design_toml(plain)


def test_a_design_without_checks_is_written_and_hashed_as_it_was() -> None:
    plain = load_design(design_table()).model_dump(mode="json")
    assert "must" not in plain
    assert load_design(design_table({"must": []})).model_dump(mode="json") == plain
    checked = load_design(with_must({"that": "full > causal", "for": "reverse"}))
    unchecked = load_design(design_table({"others": [OTHER]}))
    assert canonical_json(checked.model_dump(mode="json")) != canonical_json(
        unchecked.model_dump(mode="json")
    )


def test_all_that_is_judged_hangs_on_a_check_that_names_nothing() -> None:
    gap = {"gap": {"reverse": 1, "full": -1}, "other gap": {"causal": 1, "reverse": -1}}
    design = load_design(design_table({"contrasts": gap, "comparisons": [["causal", "full"]]}))
    pairs, contrasts = judged_pairs(design), declared_contrasts(design)
    assert hanging_pairs(None, pairs) == [("causal", "full")]
    assert hanging_contrasts(None, contrasts) == ["gap", "other gap"]
    assert hanging_pairs(["causal"], pairs) == hanging_pairs([("causal", "full")], pairs)
    assert hanging_pairs([("full", "causal")], pairs) == []  # the other way round is another pair
    assert hanging_contrasts(["causal"], contrasts) == ["other gap"]
    assert hanging_contrasts(["gap"], contrasts) == ["gap"]
    assert hanging_contrasts([("causal", "full")], contrasts) == []


REFUSED: list[tuple[Any, str]] = [
    ("full > causal", "must is 'full > causal'; write a list of tables, as must = [{ that ="),
    ([{"that": "full"}], "must.0.that is 'full'; write one arm better than another, as 'tuned"),
    ([{"that": "a > b > c"}], "must.0.that is 'a > b > c'; write one arm better than another"),
    ([{"that": "full > chance + 0"}], "is 'full > chance + 0', a threshold of 0; write how much"),
    ([{"that": "full > 120 % of causal"}], "use above 0 and up to 100 % of another arm's gain"),
    ([{"that": "ful > causal"}], "must.0.that has 'ful', which is not an arm; did you mean 'full'"),
    ([{"that": "full > full"}], "must.0.that sets 'full' against itself; name another arm"),
    ([{"that": "full > causal", "for": []}], "must.0.for is []; name arms, contrasts or pairs"),
    ([{"that": "full > causal", "for": [3]}], "must.0.for has 3; name an arm, a contrast, or a pa"),
    (
        [{"that": "full > causal", "for": [["full", "reverse"]]}],
        "must.0.for has 'full' against 'reverse', and nothing that is judged has that name; judged"
        " are 'reverse' against 'full', 'causal' against 'full'",
    ),
    (
        [{"that": "reverse > causal", "on": "pseudo.tset"}],
        "must.0.on is 'pseudo.tset', which is no yardstick of this design; did you mean"
        " 'pseudo.test'",
    ),
    (
        [{"that": "full > chance + 0.000001"}],
        "must.0.that is 'full > chance + 0.000001', and whatever learnt anything is that far above"
        " chance; use 0.01 bits per byte or more",
    ),
    (
        [{"that": "full > 2 % of reverse"}],
        "must.0.that is 'full > 2 % of reverse', and whatever learnt anything has that share; use"
        " 10 % or more",
    ),
    (
        [{"that": "reverse > causal"}, {"that": "reverse>causal", "for": "reverse"}],
        "must.1.that is 'reverse>causal', which is there already; leave one out",
    ),
    ([{"what": "full > causal"}], "must.0.what is not a key here"),
]


@pytest.mark.parametrize(("must", "said"), REFUSED)
def test_a_check_that_cannot_be_meant_is_refused(must: Any, said: str) -> None:
    assert said in complaint(design_table({"must": must}))


def test_what_a_probe_finds_has_no_chance_but_may_be_more_in_one_arm() -> None:
    rank = {"kind": "probe", "probe": "rank", "quantity": "effective rank"}
    column = "rank: effective rank.test"
    changes = {"others": [rank], "must": [{"that": "full > chance + 5", "on": column}]}
    said = "what a probe finds has no chance; write one arm above another"
    assert said in complaint(design_table(changes))
    changes["must"] = [{"that": "full > causal", "on": column}]
    assert load_design(design_table(changes)).must[0].on == column


def test_the_key_of_a_check_is_described_by_the_name_that_a_file_has() -> None:
    found = find_fields("design.must.for")
    assert found.fields[0].about.startswith("What hangs on it: pairs, contrasts, or arms")
    assert find_fields("must.that").fields[0].default == "required"
