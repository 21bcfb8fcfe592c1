"""A line of the control table that was taken out of a plan, or what judged arms differ in: a report
misses it. Plans as they were written, and those of an earlier edition, are read without a fault.
"""

from pathlib import Path
from typing import Any

import pytest
from labelled_texts import labels_table, write_labelled
from sly_designs import plan_text

from paribus.analyse.control_faults import control_faults
from paribus.design import find_design, make_plan
from paribus.design.plan_table import plan_record
from paribus.record.plan import parse_plan
from paribus.workspace import Execution, Workspace

RUN_TABLES = ("architecture.", "corpus.", "objective.", "training.", "stages.")
# What a match moved beside its size is told from the arms before it, which no plan keeps.
BELIEVED = ["moved by the match"]
MASKS = """
factor = "architecture.mask"
budget = "tokens_read"
others = [{ kind = "halves", n_items = 4, max_bytes = 24, split = "valid" }]
[base.architecture]
init = "mup"
positions = "none"
norm = { kind = "rms" }
[arms.plain]
[arms.prefix]
architecture.mask = "prefix"
[ladder]
sizes = [32, 48, 64]
tokens_per_parameter = [2, 8]
n_seeds = 2
"""
SIZES = """
factor = ["architecture.positions", "match"]
compound = { other = "what positions save is spent on width" }
match = { by = ["parameters", "inference_flops"], moves = ["d_ff", "depth"], tolerance = 0.2 }
budget = "tokens_read"
[base.architecture]
positions = "learned"
max_length = 32
[arms.plain]
[arms.other]
architecture.positions = "none"
match = { by = "inference_flops", moves = ["depth", "d_ff"], times = 2.0 }
"""


HEAD: dict[str, Any] = {
    "question": "Does a head need both directions?",
    "baseline": "causal",
    "factor": "stages.1.architecture.mask",
    "arms": {"causal": {}, "full": {"stages": {"1": {"architecture": {"mask": "full"}}}}},
    "seeds": 3,
    "tune": False,
    "primary": {"measure": "head", "margin": 5.0},
}


@pytest.fixture(scope="module")
def tables(
    study_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """The plans of three designs, as files hold them."""
    texts = write_labelled(tmp_path_factory.mktemp("labels") / "labels.jsonl")
    _, design = find_design({**HEAD, "base": labels_table(texts)})
    execution = Execution(Workspace(cache=study_cache, device="cpu"))
    head = make_plan(design, "head", None, execution, show_progress=False)
    plans = {
        "masks": plan_text(MASKS, study_cache),
        "sizes": plan_text(SIZES, study_cache),
        "head": head,
    }
    return {name: plan_record(plan).written for name, plan in plans.items()}


def faults(table: dict[str, Any]) -> tuple[str, ...]:
    return control_faults(parse_plan(table, Path("plan.json")))


def without(table: dict[str, Any], path: str) -> dict[str, Any]:
    control = [line for line in table["control"] if line["path"] != path]
    assert len(control) == len(table["control"]) - 1
    return {**table, "control": control}


def with_line(table: dict[str, Any], path: str, **fields: Any) -> dict[str, Any]:
    control = []
    for line in table["control"]:
        control.append({**line, **fields} if line["path"] == path else line)
    return {**table, "control": control}


@pytest.mark.parametrize("name", ["masks", "sizes", "head"])
def test_every_line_that_is_taken_out_is_missed(
    name: str, tables: dict[str, dict[str, Any]]
) -> None:
    table = tables[name]
    assert faults(table) == ()
    paths = [line["path"] for line in table["control"]]
    for path in paths:
        if path.startswith(RUN_TABLES):
            continue
        said = faults(without(table, path))
        if path in BELIEVED:
            assert said == ()
        else:
            assert said == (f"control table: 1 line is missing, such as that of {path}",)


def test_designs_have_the_lines_that_not_every_plan_has(
    tables: dict[str, dict[str, Any]],
) -> None:
    paths = {name: {line["path"] for line in table["control"]} for name, table in tables.items()}
    assert {"cut contexts", "cut contexts.others.0", "ladder.rate"} <= paths["masks"]
    assert {"reach of mup", "rate of query weights", "eps of adamw"} <= paths["masks"]
    assert {"match", "inference_flops of 16 + 16 tokens", *BELIEVED} <= paths["sizes"]
    assert {"cut contexts", "parameters used by this question"} <= paths["head"]


@pytest.mark.parametrize(
    ("name", "path", "value", "said"),
    [
        ("masks", "reach of mup", "further", "'further', and the plan gives 'within the paper'"),
        ("masks", "ladder.sizes", "64", "'64', and the plan gives '32, 48, 64'"),
        ("head", "parameters used by this question", 7, "is 7, and the plan gives "),
    ],
)
def test_another_value_is_named(
    name: str, path: str, value: Any, said: str, tables: dict[str, dict[str, Any]]
) -> None:
    values = dict.fromkeys(tables[name]["arms"], value)
    (fault,) = faults(with_line(tables[name], path, values=values))
    assert fault.startswith(f"control table: {path} of ")
    assert said in fault


def test_a_mark_of_cut_contexts_fits_what_arms_lose(tables: dict[str, dict[str, Any]]) -> None:
    table = tables["masks"]

    def cut(mark: str, share: str) -> tuple[str, ...]:
        values = {"plain": f"3 of 4, 24 bytes ({share})", "prefix": "0 of 4"}
        return faults(with_line(table, "cut contexts", mark=mark, values=values))

    assert cut("→", "0.9%") == cut("✗", "30.0%") == ()
    assert cut("→", "30.0%") == (
        "control table: cut contexts is marked follows from the factor, and prefix loses 0.0% of"
        " the bytes, plain 30.0%",
    )
    assert faults(with_line(table, "cut contexts", values={"plain": "0 of 4"})) == (
        "control table: cut contexts does not say what prefix and plain lose",
    )


def test_a_mark_of_items_in_training_text_fits_their_counts(
    tables: dict[str, dict[str, Any]],
) -> None:
    table = tables["masks"]

    def counted(mark: str, plain: str) -> tuple[str, ...]:
        values = {**dict.fromkeys(table["arms"], "0 of 200"), "plain": plain}
        line = {"path": "items in training text", "mark": mark, "values": values}
        line |= {"note": "", "allowed": None}
        return faults({**table, "control": [*table["control"], line]})

    assert counted("✓", "2 of 200") == counted("✗", "90 of 200") == ()
    assert counted("✓", "3 of 200") == (
        "control table: items in training text is marked equal, and prefix has 0 of 200, plain"
        " 3 of 200",
    )


def test_what_arms_differ_in_is_missed_from_the_fourth_edition_on(
    tables: dict[str, dict[str, Any]],
) -> None:
    table = {name: value for name, value in tables["sizes"].items() if name != "judged"}
    assert faults(table) == (
        "control table: judged does not say what other against plain differs in",
    )
    assert faults({**table, "edition": 3}) == ()
    assert faults(without({**table, "edition": 3}, "cut contexts")) == ()
