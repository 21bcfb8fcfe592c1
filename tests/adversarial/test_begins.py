"""`begin` as the factor is no licence for two models to differ in everything.

What the models are that two arms begin with is counted: their architecture, their tokenizer, and
what the record of the runs that trained them says. The weights alone are one factor.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sly_designs import plan_table, sly_table

import paribus as pb
from paribus.design import Plan
from paribus.errors import ConfoundError
from paribus.workspace import Workspace

PlanBegun = Callable[..., Plan]

SOURCE = {"kind": "translation", "n_documents": 400, "form": "text"}
ARCHITECTURE: dict[str, Any] = {
    "preset": "gpt2",
    "positions": "rotary",
    "n_layers": 1,
    "d_model": 16,
    "attention": {"n_heads": 2},
    "dropout": 0.0,
}
RUN: dict[str, Any] = {
    "architecture": ARCHITECTURE,
    "corpus": {"sources": [SOURCE]},
    "training": {
        "n_steps": 6,
        "n_sequences": 2,
        "length": 32,
        "row_every": 3,
        "valid_every": 3,
        "valid_batches": 1,
        "checkpoint_every": 3,
    },
}
OTHER_TEXT = {"sources": [{"kind": "copy", "n_documents": 400, "form": "text"}]}
DEEPER = {
    **ARCHITECTURE,
    "n_layers": 2,
    "positions": "none",
    "feed_forward": {"activation": "relu"},
}
RUNS = {
    "first": RUN,
    "again": {**RUN, "training": {**RUN["training"], "seed": 2}},
    "other text": {**RUN, "corpus": OTHER_TEXT},
    "deeper": {**RUN, "architecture": {**ARCHITECTURE, "n_layers": 2}},
    "all": {**RUN, "architecture": DEEPER, "corpus": OTHER_TEXT},
}
# what an arm writes beside what it begins from; `match` and `budget` let any difference pass
DESIGN = """
factor = {factor}
match = "nothing"
budget = "tokens_read"
{more}
[base]
objective = "causal"
[arms.plain]
begin = "{one}"
[arms.other]
begin = "{other}"
{arm}
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The last checkpoint of each run, and an earlier one."""
    folder = tmp_path_factory.mktemp("begins")
    space = Workspace(folder / "runs", folder / "cache", "cpu")
    places = {}
    for name, table in RUNS.items():
        outcome = pb.train_run(table, name=name.replace(" ", "-"), workspace=space)
        places[name] = outcome.folder / "checkpoints/step-000000005"
    return {**places, "earlier": places["first"].with_name("step-000000002")}


@pytest.fixture
def plan_begun(checkpoints: dict[str, Path], study_cache: Path) -> PlanBegun:
    """Plans a design of two arms: one begins with the first run, and one with another."""

    def plan(other: str, factor: str = "begin", more: str = "", arm: str = "") -> Plan:
        places = {"one": checkpoints["first"], "other": checkpoints[other]}
        table = sly_table(DESIGN.format(factor=[factor], more=more, arm=arm, **places))
        del table["base"]["architecture"]  # each has that of its model
        return plan_table(table, study_cache)

    return plan


def test_two_models_that_differ_in_several_fields_are_several_factors(
    plan_begun: PlanBegun,
) -> None:
    said = (
        "other against plain differs in 4 factors: begin.n_layers, begin.feed_forward.activation,"
        " begin.positions, begin.corpus.sources; the effect is of all of them together"
    )
    with pytest.raises(ConfoundError, match=re.escape(said)):
        plan_begun("all")
    meant = 'compound = { other = "the two models that we have" }'
    (one,) = plan_begun("all", more=meant).judged
    assert (len(one.factors), one.reason) == (4, "the two models that we have")


@pytest.mark.parametrize(
    ("other", "factor"),
    [
        ("again", "begin"),
        ("other text", "begin.corpus.sources"),
        ("earlier", "begin.n_steps"),
        ("deeper", "begin.n_layers"),
    ],
)
def test_two_models_that_differ_in_one_thing_are_one_factor(
    plan_begun: PlanBegun, other: str, factor: str
) -> None:
    (one,) = plan_begun(other).judged
    assert (one.kind, one.factors) == ("simple", (factor,))


def test_what_is_allowed_to_begin_differently_is_not_allowed_another_architecture(
    plan_begun: PlanBegun,
) -> None:
    allowed = 'allow = { begin = "these are all there are" }'
    mask = 'architecture.mask = "causal & window(5)"'
    with pytest.raises(ConfoundError, match=r"differs in 2 factors: mask, begin\.n_layers; the"):
        plan_begun("deeper", "architecture.mask", allowed, mask)
    (one,) = plan_begun("again", "architecture.mask", allowed, mask).judged
    assert one.factors == ("mask",)


def test_weights_against_none_are_one_factor_in_one_architecture(
    checkpoints: dict[str, Path], study_cache: Path
) -> None:
    """The arm without weights has the architecture and the tokenizer of the other."""

    def plan(architecture: dict[str, Any]) -> Plan:
        tokenizer = {"kind": "file", "path": str(checkpoints["first"] / "tokenizer.json")}
        drawn = {
            "architecture": architecture,
            "corpus": {"tokenizer": tokenizer},
        }
        table = sly_table('factor = "begin"\nmatch = "nothing"\nbudget = "tokens_read"')
        del table["base"]["architecture"]
        arms = {"plain": drawn, "other": {"begin": str(checkpoints["first"])}}
        return plan_table({**table, "arms": arms}, study_cache)

    (one,) = plan(ARCHITECTURE).judged
    assert one.description == "differs in begin"
    with pytest.raises(ConfoundError, match=r"differs in 2 factors: begin, begin\.n_layers"):
        plan({**ARCHITECTURE, "n_layers": 2})
