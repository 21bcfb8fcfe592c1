"""Arms that begin from checkpoints: one for all, or a confound."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import paribus as pb
from paribus.analyse.control_faults import control_faults
from paribus.cli.run import run
from paribus.design import Plan, find_design, make_plan, plan_record
from paribus.errors import ConfoundError, SpecError
from paribus.record import ControlLine, Mark, existing_study, read_stages
from paribus.record.address import without_places
from paribus.record.plan import parse_plan
from paribus.record.planned_runs import planned_stages
from paribus.spec.stages import addressed_stages
from paribus.workspace import Execution, Workspace

hf_models = pytest.importorskip("hf_models")

DESIGN: dict[str, Any] = {
    "question": "Does dropout help a model that is trained further?",
    "factor": "architecture.dropout",
    "baseline": "without",
    "seeds": 3,
    "tune": False,
    "primary": {"measure": {"kind": "halves", "n_items": 5, "max_bytes": 32}, "margin": 0.5},
    "base": {
        "begin": "gpt2",
        "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 400}]},
        "training": {
            "n_steps": 4,
            "n_sequences": 2,
            "length": 32,
            "row_every": 2,
            "valid_every": 2,
            "valid_batches": 1,
            "checkpoint_every": 2,
        },
    },
    "arms": {"without": {}, "with": {"architecture": {"dropout": 0.2}}},
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny models of one shape and one of another, imported."""
    folder = tmp_path_factory.mktemp("begin")
    hf_models.write_family("gpt2", folder / "theirs")
    hf_models.write_family("llama", folder / "other")
    for name in ("theirs", "other"):
        pb.import_(folder / name, out=folder / ("gpt2" if name == "theirs" else "llama"))
    shutil.copytree(folder / "gpt2", folder / "second")
    weights = folder / "second/weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-4] ^= 1
    weights.write_bytes(bytes(data))
    shutil.copytree(folder / "gpt2", folder / "copied")
    return folder


@pytest.fixture
def here(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shelf)
    return shelf


def plan_of(changes: dict[str, Any] | None = None) -> Plan:
    name, design = find_design(DESIGN, changes=changes)
    execution = Execution(Workspace("runs", "cache", "cpu"))
    return make_plan(design, name, None, execution, show_progress=False)


def line_of(plan: Plan, path: str) -> ControlLine:
    (line,) = [line for line in plan.control_lines if line.path == path]
    return line


def test_arms_that_begin_from_one_checkpoint_are_equal_in_it(here: Path) -> None:
    plan = plan_of()
    begin = line_of(plan, "begin")
    assert begin.mark == Mark.EQUAL
    assert str(begin.values["with"]).startswith("gpt2 (")
    assert line_of(plan, "architecture.dropout").mark == Mark.FACTOR
    assert line_of(plan, "starting weights in common").values == {"without": 1.0, "with": 1.0}
    for arm in plan_record(plan).arms.values():
        assert arm.run.begin is not None
        assert arm.run.begin.name == "gpt2"
        assert len(arm.run.begin.weights) == 64
    table = plan_record(plan).written
    assert control_faults(parse_plan(table, Path("plan.json"))) == ()
    control = [line for line in table["control"] if line["path"] != "begin"]
    assert control_faults(parse_plan({**table, "control": control}, Path("plan.json"))) == (
        "control table: 1 line is missing, such as that of begin",
    )


def test_where_a_checkpoint_lies_is_no_part_of_a_plan(here: Path) -> None:
    fingerprint = plan_of().design_fingerprint
    assert plan_of({"base.begin": str(here / "copied")}).design_fingerprint == fingerprint
    assert plan_of({"base.begin": "second"}).design_fingerprint != fingerprint


@pytest.mark.parametrize("other", ["second", "llama"])
def test_arms_that_begin_from_different_checkpoints_are_confounded(here: Path, other: str) -> None:
    changes = {"arms.with.begin": other}
    with pytest.raises(ConfoundError) as caught:
        plan_of(changes)
    (problem,) = [one for one in caught.value.problems if one.startswith("begin is ")]
    assert "but it is not the factor: the arms begin with different weights" in problem
    allowed = {
        **changes,
        "allow": {"begin": "it is what we have"},
        "compound": {"with": "both are of one family of models"},
        "match": "nothing",
        "budget": "tokens_read",
    }
    line = line_of(plan_of(allowed), "begin")
    assert (line.mark, line.allowed) == (Mark.CONFOUND, "it is what we have")


def test_what_arms_begin_from_can_be_the_factor(here: Path) -> None:
    changes = {
        "factor": "begin",
        "arms.with": {"begin": "llama", "architecture": {"dropout": 0.0}},
        "match": "nothing",
        "budget": "tokens_read",
    }
    with pytest.raises(ConfoundError, match="differs in 13 factors: begin, begin"):
        plan_of(changes)
    plan = plan_of({**changes, "compound": {"with": "both are of one family of models"}})
    assert line_of(plan, "begin").mark == Mark.FACTOR
    kind = line_of(plan, "architecture.norm.kind")
    assert (kind.mark, kind.note) == (Mark.FOLLOWS, "follows from what the arm begins from")
    assert control_faults(plan_record(plan)) == ()


def test_one_checkpoint_under_two_names_is_no_confound(here: Path) -> None:
    line = line_of(plan_of({"arms.with.begin": "copied"}), "begin")
    assert (line.mark, line.note) == (Mark.FOLLOWS, "the same weights under two names")


def test_an_arm_that_begins_from_a_checkpoint_has_its_size(here: Path) -> None:
    with pytest.raises(SpecError, match=r"match\.by is 'parameters', but the arm begins from"):
        plan_of({"match": {"by": "parameters", "moves": ["d_ff"]}})


def test_a_study_is_run_from_a_checkpoint(here: Path) -> None:
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, contextlib.redirect_stderr(io.StringIO()):
        run(DESIGN, name="begun", execution=Execution(Workspace("runs", "cache", "cpu")))
    study = existing_study(Path("runs"), "begun")
    folders = [path.parent for path in study.root.glob("*/spec.json")]
    assert len(folders) == 6
    assert {read_stages(folder)[0]["begin"]["name"] for folder in folders} == {"gpt2"}
    assert str(here) not in json.dumps([read_stages(one)[0]["begin"] for one in folders])


def test_a_plan_has_the_rows_that_conversations_add_to_a_vocabulary(here: Path) -> None:
    language = {"kind": "copy", "n_documents": 400, "min_length": 6, "max_length": 8}
    stages = [
        {"kind": "adapt", "corpus": {"sources": [{**language, "form": "text"}]}},
        {
            "kind": "instruct",
            "objective": "seq2seq",
            "corpus": {"sources": [{**language, "form": "conversations"}]},
        },
    ]
    plan = plan_of({"base.stages": stages, "primary.measure": {"kind": "pairs", "n_items": 5}})
    record = plan_record(plan)
    assert control_faults(record) == ()
    for arm in plan.arms:
        planned = without_places(planned_stages(record.arms[arm.name]))
        texts = [text.fingerprint for text in arm.texts]
        assert planned == without_places(addressed_stages(arm.run, texts))
        sizes = [stage["architecture"]["n_vocab"] for stage in planned]
        assert sizes[1] > sizes[0]


def test_weights_alone_are_one_factor(here: Path) -> None:
    own = {"begin": "second", "architecture": {"dropout": 0.0}}
    (one,) = plan_of({"factor": "begin", "arms.with": own}).judged
    unknown = "no record says what trained"
    assert one.description == (
        f"differs in begin; and, not known: {unknown} second; {unknown} gpt2"
    )
    assert one.mark == f"and, not known: {unknown} second; {unknown} gpt2"


def test_trained_weights_against_none_say_what_else_would_have_to_be_equal(here: Path) -> None:
    """The arm without weights writes its architecture, which the other has from its checkpoint."""
    own = {"preset": "gpt2", "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}}
    base = {name: value for name, value in DESIGN["base"].items() if name != "begin"}
    arms = {"without": {"architecture": own}, "with": {"begin": "gpt2"}}
    design = {**DESIGN, "factor": "begin", "base": base, "arms": arms}
    name, found = find_design({**design, "match": "nothing", "budget": "tokens_read"})
    execution = Execution(Workspace("runs", "cache", "cpu"))
    with pytest.raises(ConfoundError, match=r"max_length is 32 in without, 90 in with, but it"):
        make_plan(found, name, None, execution, show_progress=False)
    _, found = find_design(
        {**design, "match": "nothing", "budget": "tokens_read"},
        changes={"arms.without.architecture.max_length": 90},
    )
    with pytest.raises(ConfoundError, match=r"differs in \d+ factors: begin, .*begin\.tokenizer;"):
        make_plan(found, name, None, execution, show_progress=False)
