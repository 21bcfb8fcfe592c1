"""Plans that are valid and alarming: too long, too large for the disk, or unable to decide. The
cure that is named cures.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sly_designs import sly_table

from paribus.analyse import PastStudies
from paribus.analyse.past_noise import PastNoise
from paribus.cli.plan import command
from paribus.design import estimate_cost, training_pace
from paribus.design.alarms import Alarm, plan_alarms
from paribus.design.control_arm import describe_control_differences
from paribus.design.plan import Plan
from paribus.design.training_pace import StepPace
from paribus.workspace import Workspace

NOTHING_KNOWN = PastStudies(None, None)
ITEMS = "primary.measure.n_items = 20\n"
TWO_ARMS = (
    f'{ITEMS}factor = "architecture.mask"\n[arms.plain]\n[arms.w]\narchitecture.mask = "causal & '
)
SHORT = f'{TWO_ARMS}window(5)"\n'
LONG = f"base.training.n_steps = 10_000_000\nbase.training.checkpoint_every = 5_000_000\n{SHORT}"
EVERY_STEP = "base.training.checkpoint_every = 1\n"
LARGE = f"base.architecture.d_model = 8192\n{EVERY_STEP}{SHORT}"
SIX_ARMS = f'{ITEMS}factor = "architecture.mask"\n[arms.plain]\n'
for width in (3, 5, 7, 9, 11):
    SIX_ARMS += f'[arms.w{width}]\narchitecture.mask = "causal & window({width})"\n'


class _Usage(NamedTuple):
    free: int


@pytest.fixture(autouse=True)
def known_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose speed is known."""
    pace = StepPace(flops_per_second=1e9, block_seconds=0.01, basis="for a test")
    monkeypatch.setattr(training_pace, "measure_pace", lambda _: pace)


def _alarms(plan: Plan, folder: Path, past: PastStudies = NOTHING_KNOWN) -> tuple[Alarm, ...]:
    workspace = Workspace(folder, device="cpu")
    return plan_alarms(plan, estimate_cost(plan, workspace), workspace, past)


def test_a_plan_of_months_says_so_and_how_many_steps_a_day_has(
    plan_design: Any, tmp_path: Path
) -> None:
    (alarm,) = _alarms(plan_design(LONG), tmp_path)
    assert "of runs one after another, more than 24.0 h" in alarm.text
    assert alarm.cure.startswith("base.training.n_steps = ")
    cured = alarm.cure + LONG[LONG.index("\n") :]
    assert _alarms(plan_design(cured), tmp_path) == ()


def test_an_arm_with_steps_of_its_own_is_cured_too(plan_design: Any, tmp_path: Path) -> None:
    longer = """
    primary.measure.n_items = 20
    factor = "training.n_steps"
    base.training.n_steps = 10_000_000
    base.training.checkpoint_every = 5_000_000
    [arms.plain]
    [arms.other]
    training.n_steps = 9_000_000
    """
    (alarm,) = _alarms(plan_design(longer), tmp_path)
    assert 'arms."other".training.n_steps = ' in alarm.cure


def test_checkpoints_that_do_not_fit_say_so_and_which_are_kept(
    plan_design: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_design(LARGE)
    n_bytes = estimate_cost(plan, Workspace(tmp_path, device="cpu")).n_bytes
    for share, cure in ((0.7, "keep_last = 1"), (0.4, "checkpoint_every = 12")):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda _, share=share: _Usage(int(share * n_bytes))
        )
        (alarm,) = [one for one in _alarms(plan, tmp_path) if "checkpoints" in one.text]
        assert "are free in" in alarm.text
        assert alarm.cure == f"base.training.{cure}"
        rest = LARGE if cure.startswith("keep") else LARGE.replace(EVERY_STEP, "")
        alarms = _alarms(plan_design(f"{alarm.cure}\n{rest}"), tmp_path)
        assert not [one for one in alarms if "checkpoints" in one.text]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(int(0.1 * n_bytes)))
    (alarm,) = [one for one in _alarms(plan, tmp_path) if "checkpoints" in one.text]
    assert "for the rest, use --runs" in alarm.cure


def test_six_arms_with_three_seeds_are_told_that_they_decide_nothing(
    plan_design: Any, tmp_path: Path
) -> None:
    (alarm,) = _alarms(plan_design(SIX_ARMS), tmp_path)
    assert "3 seeds and 5 comparisons find no effect below 7.3 sd" in alarm.text
    assert alarm.text.endswith("which is more than 5 sd")
    assert alarm.cure == "seeds = 4"
    at_scale = replace(plan_design(SIX_ARMS), scale="laptop")
    assert _alarms(at_scale, tmp_path)[0].cure == "scales.laptop.seeds = 4"
    assert _alarms(plan_design(f"{alarm.cure}\n{SIX_ARMS}"), tmp_path) == ()
    assert _alarms(plan_design(SHORT), tmp_path) == ()


@pytest.mark.parametrize(
    ("past", "said"),
    [
        (PastStudies(PastNoise(0.5, "before", 9), None), "more than 10 margins of 0.1"),
        (PastStudies(PastNoise(0.1, "before", 9), 0.3), "what a control was worth, 0.3 bits"),
        (PastStudies(PastNoise(0.001, "before", 9), 0.3), None),
    ],
)
def test_the_noise_of_a_study_before_says_what_is_of_no_use(
    plan_design: Any, tmp_path: Path, past: PastStudies, said: str | None
) -> None:
    plan = plan_design(SHORT)
    alarms = _alarms(plan, tmp_path, past)
    if said is None:
        assert alarms == ()
        return
    (alarm,) = alarms
    assert said in alarm.text
    assert "by before about" in alarm.text
    n_seeds = int(alarm.cure.removeprefix("seeds = "))
    assert _alarms(plan_design(f"seeds = {n_seeds}\n{SHORT}"), tmp_path, past) == ()
    assert _alarms(plan_design(f"seeds = {n_seeds - 1}\n{SHORT}"), tmp_path, past) != ()


def test_the_command_begins_with_it_and_so_does_its_json(
    tmp_path: Path, study_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "six.json"
    path.write_text(json.dumps(sly_table(SIX_ARMS)))
    options = {"runs": tmp_path / "runs", "cache": study_cache, "device": "cpu"}
    command(str(path), **options)
    shown = capsys.readouterr().out
    assert shown.startswith("alarm      3 seeds and 5 comparisons")
    assert "; write seeds = 4\n" in shown
    command(str(path), **options, json=True)
    written = json.loads(capsys.readouterr().out)
    assert next(iter(written)) == "alarms"
    assert [one["cure"] for one in written["alarms"]] == ["seeds = 4"]


def test_a_handful_of_items_is_an_alarm(plan_design: Any, tmp_path: Path) -> None:
    (alarm,) = _alarms(plan_design(SHORT.replace("n_items = 20", "n_items = 1")), tmp_path)
    assert alarm.text.startswith("the verdicts rest on 1 item, and what holds of a handful")
    assert alarm.cure == "primary.measure.n_items = 20"
    assert _alarms(plan_design(SHORT), tmp_path) == ()


RECALL = """
factor = "architecture.mask"
base.training.length = 128
primary.margin = 2
[primary.measure]
kind = "task"
[primary.measure.task]
name = "recall-choices"
kind = "choices"
language = { kind = "recall", n_documents = 2000 }
n_items = 5
[arms.plain]
[arms.w]
architecture.mask = "causal & window(5)"
"""


def test_a_share_of_few_items_says_how_coarse_it_is(plan_design: Any, tmp_path: Path) -> None:
    (alarm,) = _alarms(plan_design(RECALL), tmp_path)
    assert "rest on 5 items: one of them is 20 points, and with other items" in alarm.text
    assert "no difference below 89 points is sure to be found" in alarm.text
    assert alarm.cure == "primary.measure.task.n_items = 50"
    (alarm,) = _alarms(plan_design(RECALL.replace("n_items = 5", "n_items = 30")), tmp_path)
    assert "rest on 30 items, of which one is 3.3 points, more than the margin, 2" in alarm.text
    cured = RECALL.replace("n_items = 5", "n_items = 50")
    assert _alarms(plan_design(cured), tmp_path) == ()


@pytest.mark.parametrize(
    ("margin", "said"),
    [(5, "5 bits per byte, is more than a tenth of all that can be learnt, 8 bits per byte")],
)
def test_a_margin_within_which_nothing_is_ever_equivalent_is_an_alarm(
    plan_design: Any, tmp_path: Path, margin: float, said: str
) -> None:
    (alarm,) = _alarms(plan_design(f"primary.margin = {margin}\n{SHORT}"), tmp_path)
    assert said in alarm.text
    assert alarm.cure == "primary.margin = 0.8, or less"
    assert _alarms(plan_design(f"primary.margin = 0.8\n{SHORT}"), tmp_path) == ()


def test_a_margin_in_points_is_held_against_what_is_above_chance(
    plan_design: Any, tmp_path: Path
) -> None:
    few = RECALL.replace("n_items = 5", "n_items = 50")
    (alarm,) = _alarms(plan_design(few.replace("margin = 2", "margin = 8")), tmp_path)
    assert "8 points, is more than a tenth of all that can be learnt, 75 points" in alarm.text


CONTROLS = f"""
control = "worse"
primary.margin = "25 % of control"
{ITEMS}factor = ["architecture.mask", "architecture.dropout", "training.optimizer"]
[arms.plain]
[arms.w]
architecture.mask = "causal & window(5)"
[arms.worse]
"""
HIDING = 'architecture.mask = "causal & same_side"'


@pytest.mark.parametrize(
    ("worse", "said"),
    [
        (
            "training.optimizer.rate = 1e-12",
            r"\(training.optimizer.rate 0.01 → 1e-12\), and what it",
        ),
        ("training.optimizer.clip = 1e-9", "and 25 % of control is a share of that"),
        (
            "architecture.dropout = 0.9",
            r"in more than what hides input or targets \(architecture.dropout 0",
        ),
        (
            f"{HIDING}\ntraining.optimizer.clip = 1e-9",
            "the control worse differs from plain in more than what hides input or targets",
        ),
    ],
)
def test_a_control_that_is_badly_trained_is_an_alarm_and_one_that_hides_is_not(
    plan_design: Any, tmp_path: Path, worse: str, said: str
) -> None:
    (alarm,) = _alarms(plan_design(f"{CONTROLS}{worse}"), tmp_path)
    assert re.search(said, alarm.text)
    assert alarm.cure == "control = { length = 0.5 } and lengths = [0.5, 1]"
    assert _alarms(plan_design(f"{CONTROLS}{HIDING}"), tmp_path) == ()


@pytest.mark.parametrize("margin", ["0.1", '"25 % of control"'])
@pytest.mark.parametrize(
    ("worse", "said"),
    [
        (
            'objective = { kind = "mixture", components = [{ objective = "prefix", weight = 0.01 },'
            ' { objective = "spans" }] }',
            "objective.kind prefix → mixture",
        ),
        ("architecture.dropout = 0.99", "architecture.dropout 0.0 → 0.99"),
        ("architecture.init.std = 1e-30", "architecture.init.std 0.02 → 1e-30"),
        ("architecture.norm.eps = 1e6", "architecture.norm.eps 1e-05 → 1000000.0"),
    ],
)
def test_a_control_that_is_ruined_is_an_alarm_under_every_margin(
    plan_design: Any, tmp_path: Path, margin: str, worse: str, said: str
) -> None:
    path = worse.partition(" =")[0]
    design = CONTROLS.replace('"25 % of control"', margin)
    design = design.replace('"training.optimizer"]', f'"training.optimizer", "{path}"]')
    design = f'budget = "tokens_read"\n{design}'
    (alarm,) = _alarms(plan_design(f"{design}{worse}"), tmp_path)
    assert said in alarm.text
    assert _alarms(plan_design(f"{design}{HIDING}"), tmp_path) == ()


def test_a_control_with_the_objective_of_a_judged_arm_is_no_alarm(
    plan_design: Any, tmp_path: Path
) -> None:
    own = '"training.optimizer", "objective"]'
    design = CONTROLS.replace('"training.optimizer"]', own)
    design = f'budget = "tokens_read"\ncompound = {{ w = "as in the paper" }}\n{design}{HIDING}\n'
    prefix = "objective.least = 0.5"
    shared = design.replace("[arms.w]", f"[arms.w]\n{prefix}")
    assert _alarms(plan_design(shared + prefix), tmp_path) == ()
    (alarm,) = _alarms(plan_design(design + prefix), tmp_path)
    assert "objective.least 0.25 → 0.5" in alarm.text


def test_a_control_without_positions_is_no_alarm(plan_design: Any, tmp_path: Path) -> None:
    design = CONTROLS.replace('"training.optimizer"]', '"architecture.positions"]')
    assert _alarms(plan_design(f'{design}architecture.positions = "none"'), tmp_path) == ()
    (alarm,) = _alarms(plan_design(f"{design}architecture.positions.theta = 1.0"), tmp_path)
    assert "architecture.positions.theta 10000.0 → 1.0" in alarm.text


def test_a_margin_that_is_priced_by_an_arm_trained_otherwise_is_an_alarm(
    plan_design: Any, tmp_path: Path
) -> None:
    elsewhere = f"""
comparisons = [["w", "other"]]
{CONTROLS}{HIDING}
[arms.other]
training.optimizer.clip = 1e-9
"""
    elsewhere = elsewhere.replace("[arms.w]", "[arms.w]\ntraining.optimizer.clip = 1e-9")
    (alarm,) = _alarms(plan_design(elsewhere), tmp_path)
    assert "and other, which arms are judged against, is trained otherwise" in alarm.text
    assert alarm.cure == 'baseline = "other"'


def test_what_a_control_differs_in_is_printed(plan_design: Any) -> None:
    def said(worse: str) -> str:
        plan = plan_design(f"{CONTROLS}{worse}")
        return describe_control_differences(plan.design, plan.control_lines)

    assert said(HIDING) == "it differs in architecture.mask causal → causal & same_side"
    assert said("architecture.dropout = 0.9") == (
        "it differs in architecture.dropout 0.0 → 0.9 (no judged arms differ in"
        " architecture.dropout)"
    )


def test_a_control_without_a_stage_is_trained_otherwise(plan_design: Any, tmp_path: Path) -> None:
    longer = f"""
control = "worse"
budget = "tokens_read"
{ITEMS}factor = ["architecture.mask", "stages.1"]
[[base.stages]]
kind = "pretrain"
objective = "prefix"
[[base.stages]]
kind = "adapt"
objective = "prefix"
[arms.plain]
[arms.w]
architecture.mask = "causal & window(5)"
[arms.worse]
stages.1 = false
"""
    alarms = _alarms(plan_design(longer), tmp_path)
    assert any("input or targets (stages.1 a stage → –)" in one.text for one in alarms)


def test_a_control_of_next_to_no_training_is_an_alarm(plan_design: Any, tmp_path: Path) -> None:
    steps = "base.training.n_steps = 40\nbase.training.warmup = 8\n"
    short = "control = { length = 0.1 }\nlengths = [0.1, 1]\n"
    (alarm,) = _alarms(plan_design(f"{steps}{short}{SHORT}"), tmp_path)
    assert "at 0.1 of its training, and what so short a run loses" in alarm.text
    assert _alarms(plan_design(f"{steps}{short.replace('0.1', '0.5')}{SHORT}"), tmp_path) == ()


WINDOWS = """
factor = "architecture.mask"
base.training.length = 256
[arms.plain]
[arms.other]
architecture.mask = "causal & window({})"
"""
HALVES = "primary.measure.n_items = 20\nprimary.measure.max_bytes = {}\n"


def test_items_shorter_than_a_window_under_study_say_so_and_how_long_they_must_be(
    plan_design: Any, tmp_path: Path
) -> None:
    (alarm,) = _alarms(plan_design(HALVES.format(24) + WINDOWS.format(60)), tmp_path)
    assert "other and plain differ in mask; an item of the primary yardstick" in alarm.text
    assert re.search(
        r"from about 62 tokens on, .*, and the longest of 20 items has \d\d$", alarm.text
    )
    assert alarm.cure.startswith("primary.measure.max_bytes = ")
    cured = f"primary.measure.n_items = 20\n{alarm.cure}\n{WINDOWS.format(60)}"
    assert _alarms(plan_design(cured), tmp_path) == ()


OTHER_COMPARISONS = {
    "a contrast": f"contrasts = {{ gap = {{ other = 1, plain = -1 }} }}\n{WINDOWS}",
    "a mask that is let pass": WINDOWS.replace('"architecture.mask"', '"architecture.dropout"')
    + 'architecture.dropout = 0.1\n[allow]\n"architecture.mask" = "it is needed for speed"',
    "effects of two factors": """
    baseline = "causal+0.0"
    base.training.length = 256
    factors.mask = {{ path = "architecture.mask", levels = ["causal", "causal & window({})"] }}
    factors.drop = {{ path = "architecture.dropout", levels = [0.0, 0.1] }}
    """,
}


@pytest.mark.parametrize("name", OTHER_COMPARISONS)
def test_short_items_are_alarming_whatever_lets_masks_differ(
    plan_design: Any, tmp_path: Path, name: str
) -> None:
    design = OTHER_COMPARISONS[name].replace("{{", "{").replace("}}", "}")
    sly = plan_design(HALVES.format(24) + design.replace("({})", "(60)"))
    said = "differ in mask; an item of the primary yardstick shows that from about 62 tokens on"
    assert [alarm for alarm in _alarms(sly, tmp_path) if said in alarm.text]
    honest = plan_design(HALVES.format(24) + design.replace("({})", "(9)"))
    assert not [alarm for alarm in _alarms(honest, tmp_path) if "differ in" in alarm.text]


def test_items_of_which_few_reach_beyond_a_window_are_counted(
    plan_design: Any, tmp_path: Path
) -> None:
    sly = HALVES.format(240).replace("10", "400") + WINDOWS.format(158)
    (alarm,) = _alarms(plan_design(sly), tmp_path)
    assert re.search(r"from about 160 tokens on, .*, and only 1 of \d\d are that long", alarm.text)
    assert alarm.cure.startswith("primary.measure = { … }, a yardstick whose items have about 160")
    assert _alarms(plan_design(HALVES.format(240) + WINDOWS.format(60)), tmp_path) == ()


def test_distances_that_no_item_has_are_alarming_too(plan_design: Any, tmp_path: Path) -> None:
    sly = (
        HALVES.format(24)
        + """
    base.training.length = 256
    base.architecture.positions = { kind = "relative_bias", n_buckets = 256 }
    factor = "architecture.positions.max_distance"
    [arms.plain]
    architecture.positions.max_distance = 300
    [arms.other]
    architecture.positions.max_distance = 280
    """
    )
    (alarm,) = _alarms(plan_design(sly), tmp_path)
    assert "differ in positions.max_distance; an item of the primary yardstick" in alarm.text
    assert "from about 133 tokens on" in alarm.text


def test_masks_that_differ_in_documents_alone_need_no_longer_items(
    plan_design: Any, tmp_path: Path
) -> None:
    """An item is one document, however long it is: the training shows the difference."""
    apart = WINDOWS.replace("window({})", "same_document")
    assert _alarms(plan_design(HALVES.format(24) + apart), tmp_path) == ()


def test_items_that_do_not_fit_are_counted_and_asked_for_on_top(
    plan_design: Any, tmp_path: Path
) -> None:
    text = RECALL.replace("length = 128", "length = 64").replace("recall", "copy")
    text = text.replace("n_items = 5", "n_items = 300").replace("= 2000", "= 400")
    (alarm,) = _alarms(plan_design(text), tmp_path)
    assert "more do not fit training.length = 64 in every arm" in alarm.text
    assert "primary.measure.task.language.n_documents = " in alarm.cure
    for line in alarm.cure.split(" and "):
        name, value = line.rsplit(".", 1)[-1].split(" = ")
        text = re.sub(rf"\b{name} = \d+", f"{name} = {value}", text)
    assert _alarms(plan_design(text), tmp_path) == ()
