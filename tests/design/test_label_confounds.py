"""Arms that are fine-tuned with a head differ in the factor alone: another column, split, head or
text is a confound.
"""

from pathlib import Path
from typing import Any

import pytest
from labelled_texts import ARCHITECTURE, TRAINING, labels_run, run_texts, write_labelled

from paribus.design import Plan, find_design, make_plan
from paribus.design.quantities import PlannedArm, quantity_lines, run_price
from paribus.design.step_cost import measure_step_costs
from paribus.errors import ConfoundError, SpecError
from paribus.evaluate.represent import parameters_used
from paribus.spec import price, resolve
from paribus.spec.flops import labelling_flops
from paribus.workspace import Execution, Workspace


def table(home: Path) -> dict[str, Any]:
    source = {"kind": "labelled", "paths": str(home / "texts.jsonl")}
    return {
        "question": "Is a causal model that learns labels under a full mask better afterwards?",
        "factor": "stages.1.architecture.mask",
        "baseline": "causal",
        "seeds": 3,
        "tune": False,
        "primary": {"measure": {"kind": "pseudo", "n_items": 9, "max_bytes": 32}, "margin": 0.5},
        "base": {
            "architecture": ARCHITECTURE,
            "training": TRAINING,
            "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 200}]},
            "stages": [
                {},
                {
                    "kind": "tune",
                    "corpus": {"sources": [source], "valid": 0.2, "test": 0.2},
                    "objective": {"kind": "labels", "n_labels": 2},
                },
                {"kind": "adapt", "objective": "masked"},
            ],
        },
        "arms": {"causal": {}, "full": {"stages": {"1": {"architecture": {"mask": "full"}}}}},
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("confounds")
    write_labelled(home / "texts.jsonl")
    return home


def plan(home: Path, changes: dict[str, Any] | None = None, **keys: Any) -> Plan:
    name, design = find_design({**table(home), **keys}, changes=changes)
    workspace = Workspace(home / "runs", home / "cache", device="cpu")
    return make_plan(design, name, None, Execution(workspace), show_progress=False)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("corpus.sources.0.label", "other"),
        ("corpus.sources.0.text", "other"),
        ("corpus.sources.0.second", "other"),
        ("corpus.valid", 0.1),
        ("corpus.test", 0.1),
        ("corpus.shuffled_targets", True),
        ("objective.pooling", "last"),
        ("objective.n_labels", 3),
        ("training.n_steps", 13),
        ("training.n_sequences", 4),
        ("training.optimizer.rate", 3e-4),
    ],
)
def test_what_differs_beside_the_factor_is_refused(home, path, value):
    changes = {f"arms.full.stages.1.{path}": value}
    if path.startswith("corpus.sources.0."):
        source = {"kind": "labelled", "paths": str(home / "texts.jsonl")}
        changes = {"arms.full.stages.1.corpus.sources": [{**source, path.split(".")[-1]: value}]}
    with pytest.raises(ConfoundError) as fault:
        plan(home, changes)
    assert f"stages.1.{path.split('.')[0]}" in str(fault.value)


def test_arms_that_differ_in_the_mask_of_the_stage_with_labels_are_planned(home):
    planned = plan(home)
    assert [arm.run.stages[1].objective.kind for arm in planned.arms] == ["labels", "labels"]
    lines = {line.path: line for line in planned.control_lines}
    assert lines["stages.1.architecture.mask"].values["full"] == "full"
    assert lines["stages.1.objective.n_labels"].values == {"causal": 2, "full": 2}


def test_the_cost_of_a_step_and_the_price_count_the_head(home):
    run = labels_run(home / "texts.jsonl")
    cost = measure_step_costs(run, run_texts(run, home / "cache"))[-1]
    spec = resolve(run.last_architecture)
    assert cost.training_flops == 8 * labelling_flops(spec, 24, n_labels=2, n_scored=1).dense
    assert cost.tokens_scored == 8
    assert run_price(run, cost).parameters == price(spec).parameters + 2 * 32 + 2


def test_the_control_table_says_which_parameters_the_question_uses(home):
    t5 = {**ARCHITECTURE, "preset": "t5", "encoder": {"n_layers": 2}}
    run = labels_run(home / "texts.jsonl")
    other = labels_run(home / "texts.jsonl", {"architecture": t5, "stages.0.objective": "spans"})
    arms = []
    for name, own in (("gpt2", run), ("t5", other)):
        costs = measure_step_costs(own, run_texts(own, home / "cache"))
        arm = PlannedArm(
            name=name,
            levels={},
            run=own,
            texts=run_texts(own, home / "cache"),
            step_costs=costs,
            price=run_price(own, costs[-1]),
            size_match=None,
        )
        arms.append(arm)
    lines = {line.path: line for line in quantity_lines(arms, None)}
    values = lines["parameters used by this question"].values
    n_head = 2 * 32 + 2
    assert values["gpt2"] == parameters_used(resolve(run.last_architecture)) + n_head
    assert values["t5"] == parameters_used(resolve(other.last_architecture)) + n_head
    assert values["t5"] < arms[1].price.parameters / 1.5  # its decoder has no part in it
    assert values["gpt2"] == arms[0].price.parameters  # its output table is that of its input


def test_a_control_with_shuffled_targets_differs_in_nothing_else(home):
    shuffled = {"stages": {"1": {"corpus": {"shuffled_targets": True}}}}
    arms = {"causal": {}, "shuffled": shuffled}
    planned = plan(home, factor="stages.1.corpus.shuffled_targets", arms=arms)
    differing = [line.path for line in planned.control_lines if line.mark != "✓"]
    assert differing == ["stages.1.corpus.shuffled_targets", "text"]


def test_a_window_wider_than_every_labelled_text_is_refused(home: Path) -> None:
    """Texts of 19 letters at most, after what stands before them."""
    design = table(home)
    stages = {**design["base"], "stages": design["base"]["stages"][:2]}
    keys = {"base": stages, "baseline": "full", "primary": {"measure": "head", "margin": 5}}
    narrow, wide = "window(9) | reverse", "window(21) | reverse"
    for mask, is_planned in ((wide, False), (narrow, True)):
        arms = {}
        for name, own in (("full", "full"), ("near", mask)):
            arms[name] = {"stages": {"1": {"architecture": {"mask": own}}}}
        if is_planned:
            assert len(plan(home, None, arms=arms, **keys).arms) == 2
            continue
        with pytest.raises(SpecError, match="the longest text of its training has 20 tokens"):
            plan(home, None, arms=arms, **keys)
