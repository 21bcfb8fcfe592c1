"""Specs under older names of their fields: converted where paribus wrote them, refused where a
person did.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from train_shell import TrainShell

from paribus.errors import SpecError
from paribus.interop import load_checkpoint
from paribus.record import read_stages
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes
from paribus.record.folder import RUN_FORMAT, read_written_stages
from paribus.record.plan import parse_plan
from paribus.record.spec_formats import convert_design_tables, convert_run_tables, present_path
from paribus.spec.design_reading import load_design
from paribus.spec.run import load_run

KEPT = Path(__file__).parents[2] / "docs" / "results" / "bidirectional-input-hour" / "plan.json"
CORPUS = {"sources": [{"kind": "copy", "form": "text", "n_documents": 50}]}
OLD_STAGE = {
    "architecture": {
        "preset": "gpt2",
        "start": {"kind": "normal", "std": 0.5},
        "mask": "causal & same_part",
        "encoder": {"n_layers": 2, "mask": "same_part"},
    },
    "objective": {"kind": "mixture", "parts": [{"objective": "causal"}]},
    "training": {"n_steps": 4, "n_parts": 2},
}
NEW_STAGE = {
    "architecture": {
        "preset": "gpt2",
        "init": {"kind": "normal", "std": 0.5},
        "mask": "causal & same_side",
        "encoder": {"n_layers": 2, "mask": "same_side"},
    },
    "objective": {"kind": "mixture", "components": [{"objective": "causal"}]},
    "training": {"n_steps": 4, "n_micro_batches": 2},
}


@pytest.fixture
def shell(tmp_path: Path) -> TrainShell:
    return TrainShell(tmp_path, tmp_path / "cache")


def with_old_names(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Stages as format 2 wrote them."""
    old = json.dumps(stages)
    return json.loads(
        old.replace('"init":', '"start":').replace('"n_micro_batches":', '"n_parts":')
    )


def test_a_table_of_older_names_gets_the_present_ones_and_keeps_its_order() -> None:
    converted = convert_run_tables({**OLD_STAGE, "stages": [OLD_STAGE]})
    assert converted == {**NEW_STAGE, "stages": [NEW_STAGE]}
    assert list(converted["training"]) == ["n_steps", "n_micro_batches"]
    assert convert_run_tables(NEW_STAGE) == NEW_STAGE


@pytest.mark.parametrize("odd", [None, 3, "text", ["architecture"], {"stages": 3}])
def test_what_is_no_table_stays_as_it_is(odd: Any) -> None:
    assert convert_run_tables(odd) == odd
    assert convert_design_tables(odd) == odd


def test_a_path_of_an_older_name_gets_the_present_one() -> None:
    assert present_path("architecture.start.std") == "architecture.init.std"
    assert present_path("training.n_parts") == "training.n_micro_batches"
    assert present_path("architecture.starting") == "architecture.starting"


def test_a_design_is_converted_in_base_arms_levels_and_variance() -> None:
    design = {
        "factor": "architecture.start",
        "base": OLD_STAGE,
        "arms": {"a": {"architecture": {"start": "fan_in"}}},
        "factors": {
            "init": {"levels": {"one": {"architecture": {"start": "normal"}}}, "path": None},
            "scale": {"levels": [0.1, 0.2], "path": "architecture.start.std"},
            "mask": {"levels": ["causal", "same_part"], "path": "architecture.mask"},
        },
        "variance": {"starts": 2},
    }
    assert convert_design_tables(design) == {
        "factor": "architecture.init",
        "base": NEW_STAGE,
        "arms": {"a": {"architecture": {"init": "fan_in"}}},
        "factors": {
            "init": {"levels": {"one": {"architecture": {"init": "normal"}}}, "path": None},
            "scale": {"levels": [0.1, 0.2], "path": "architecture.init.std"},
            "mask": {"levels": ["causal", "same_side"], "path": "architecture.mask"},
        },
        "variance": {"inits": 2},
    }


def test_a_kept_plan_of_an_older_format_is_read_under_the_present_names() -> None:
    written = json.loads(KEPT.read_text())
    plan = parse_plan(written, KEPT)
    assert "start" in written["arms"][plan.baseline]["run"]["architecture"]
    assert "init" in plan.arms[plan.baseline].run.architecture
    lines = {line.path: line.values for line in plan.control}
    assert "training.n_micro_batches" in lines
    assert lines["architecture.mask"]["input hidden"] == "causal & same_side"
    assert plan.written == written


def test_a_run_of_an_older_format_is_resumed_and_loaded(shell: TrainShell) -> None:
    shell.write_spec()
    shell.train_or_fail()
    folder = shell.home / "run"
    stages = with_old_names(read_stages(folder))
    assert "start" in stages[0]["architecture"]
    write_listed_file(folder, "spec.json", json_bytes({"format": RUN_FORMAT - 1, "stages": stages}))
    assert read_written_stages(folder) == stages
    assert "init" in read_stages(folder)[0]["architecture"]
    shell.train_or_fail()
    assert load_checkpoint(folder).spec.init.kind == "normal"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"architecture": {"preset": "gpt2", "start": "fan_in"}}, "it is called 'init' here"),
        (
            {"architecture": {"preset": "gpt2", "mask": "causal & same_part"}},
            "same_part.*same_side",
        ),
        ({"training": {"n_parts": 2}}, "it is called 'n_micro_batches' here"),
        (
            {"objective": {"kind": "mixture", "parts": ["causal"]}},
            "it is called 'components' here",
        ),
    ],
)
def test_a_person_is_told_the_present_name(table: dict[str, Any], message: str) -> None:
    run = {"architecture": "gpt2", "corpus": CORPUS, **table}
    with pytest.raises(SpecError, match=message):
        load_run(run)


def test_a_design_with_starts_is_told_the_present_name() -> None:
    with pytest.raises(SpecError, match=r"variance\.starts .* it is called 'inits' here"):
        load_design({"question": "?", "variance": {"starts": 2}})
