"""A plan from the command line: the control table, what it costs, and refusals before any
training.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models
from trained_study import design_table

import paribus as pb
from paribus.workspace import Workspace


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study_cache: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(changes: dict[str, Any] | None, cache: Path, *more: str) -> list[str]:
    Path("little.json").write_text(json.dumps(design_table(changes)))
    return ["plan", "little.json", "--cache", str(cache), "--device", "cpu", *more]


def test_runs_of_other_lengths_are_counted_and_missing_ones_asked_for(
    ask, here: Path, study_cache: Path
) -> None:
    told = ask(*words({"primary.margin": "10 % compute"}, study_cache))
    assert told.status == 2
    assert (
        "priced from runs of 3 lengths or more, and lengths is missing; write lengths = [0.25,"
        " 0.5, 1]" in told.err
    )
    told = ask(*words({"primary.margin": "10 % compute", "lengths": [0.25, 0.5, 1]}, study_cache))
    assert told.status == 0, told.err
    assert "runs       15, 6 of them of other lengths; " in told.out


def test_a_plan_shows_what_differs_what_it_costs_and_what_it_can_see(
    ask, here: Path, study_cache: Path
) -> None:
    told = ask(*words(None, study_cache))
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    assert lines[0].startswith("alarm      the verdicts rest on 11 items, and what holds of a")
    assert lines[1] == "Must a model look both ways to fill masks?"
    assert lines[3].split() == ["field", "full", "reverse", "causal"]
    assert lines[4].split() == ["Δ", "architecture.mask", "full", "reverse", "causal"]
    assert "✓  " in told.out
    assert (
        "✗ confound   Δ the factor   ≈ matched   ⟳ tuned alike   → follows from the factor   ✓"
        " equal" in told.out
    )
    assert "runs       9; " in told.out
    assert (
        "power      with 3 seeds and 2 comparisons: an effect of 4.6 sd of the paired difference"
        in told.out
    )
    assert (
        "           a state that 1 run in 5 falls into is not seen in 51 % of arms of 3 seeds; 14"
        " seeds show it in 95 %\n" in told.out
    )
    assert "margin     0.5" in told.out
    assert "nothing is called equivalent" in told.out
    assert "frozen     runs/studies/little/plan.lock, " in told.out
    assert Path("runs/studies/little/plan.lock").is_file()
    assert "training.warmup" in ask(*words(None, study_cache, "--all")).out


def test_arms_that_differ_in_name_only_are_told_and_counted_once(
    ask, here: Path, study_cache: Path
) -> None:
    full = {"architecture": {"mask": "full"}}
    told = ask(*words({"arms.reverse": full}, study_cache))
    assert told.status == 0, told.err
    assert 'note       "full", "reverse" differ in name only: one run per seed' in told.out
    assert "runs       6; " in told.out
    told = ask(*words({"arms.reverse": full, "arms.causal": full}, study_cache, "--name", "one"))
    assert told.status == 0, told.err
    assert "note       no arm differs from the baseline in the factor: one run per seed" in told.out
    assert "runs       3; " in told.out
    assert "note " not in ask(*words(None, study_cache, "--name", "apart")).out


def test_what_a_plan_can_see_is_read_at_its_last_look(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words({"seeds": 4, "looks": {"3": 0.01, "4": 0.04}}, study_cache))
    assert told.status == 0, told.err
    seen = pb.analyse.detectable_effect(4, 2, alpha=0.04)
    assert (
        f"power      with 4 seeds and 2 comparisons: an effect of {seen:.2g} sd of the paired"
        " difference" in told.out
    )
    assert "; at the last of 2 looks, with its share of 0.04" in told.out


def test_an_earlier_study_tells_the_noise_in_bits(
    ask, here: Path, study_cache: Path, finished_home: Path
) -> None:
    shutil.copytree(finished_home, "runs")
    told = ask(*words({"seeds": 4}, study_cache, "--runs", "runs", "--name", "next"))
    assert told.status == 0, told.err
    known = (
        r"bits are at an sd of (\S+), the upper bound from 3 seeds of the study little, whose"
        r" observed sd is (\S+)"
    )
    found = re.search(rf"^ +in bits per byte, (\S+) and (\S+); {known}$", told.out, re.MULTILINE)
    assert found is not None
    effect, margin, upper, observed = map(float, found.groups())
    assert upper == pytest.approx(pb.analyse.upper_sd(observed, 3), rel=0.01)
    assert effect == pytest.approx(upper * pb.analyse.detectable_effect(4, 2), rel=0.05)
    line = re.search(r"^ +4 +(\S+) +(\S+) +(\S+) +(\S+) +this plan *$", told.out, re.MULTILINE)
    assert line is not None
    assert line.groups() == (
        f"{pb.analyse.detectable_effect(4, 2):.2g}",
        found[1],
        f"{pb.analyse.equivalence_margin(4, 2):.2g}",
        found[2],
    )
    assert margin == float(found[2])


def test_a_plan_has_a_page_of_power(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words({"seeds": 5}, study_cache))
    assert told.status == 0, told.err
    assert (
        "by seeds   2 comparisons, at 80 % power: the smallest detectable effect, and the"
        " smallest margin" in told.out
    )
    lines = re.findall(
        r"^ +(\d+) +(\d\.?\d*) +(\d\.?\d*)(?: +(this plan))? *$", told.out, re.MULTILINE
    )
    assert lines == [
        ("3", "4.6", "3.7", ""),
        ("5", "2.1", "1.9", "this plan"),
        ("8", "1.3", "1.3", ""),
        ("10", "1.1", "1.2", ""),
        ("20", "0.74", "0.76", ""),
    ]


def test_python_and_the_command_line_have_the_same_fingerprint(
    ask, here: Path, study_cache: Path
) -> None:
    told = json.loads(ask(*words(None, study_cache, "--json", "--set", "seeds=4")).out)
    made = pb.plan(
        design_table(), changes={"seeds": 4}, workspace=Workspace(cache=study_cache, device="cpu")
    )
    assert told["fingerprint"] == made.fingerprint
    assert told["order"] == ["full", "reverse", "causal"]
    assert told["name"] == "little"
    assert (
        pb.plan(
            pb.Design(**made.design.model_dump()),
            workspace=Workspace(cache=study_cache, device="cpu"),
        ).fingerprint
        == made.fingerprint
    )


def test_a_confound_is_named_shown_and_has_its_own_status(
    ask, here: Path, study_cache: Path
) -> None:
    confounded = {"arms.causal.training": {"warmup": 3}}
    told = ask(*words(confounded, study_cache))
    assert told.status == 3
    assert told.err.startswith(
        "error: training.warmup is 0 in full, 0 in reverse, 3 in causal, but it is not the factor"
    )
    assert told.out.splitlines()[1].split()[:2] == ["✗", "training.warmup"]
    assert not Path("runs").exists()
    assert ask(*words(confounded, study_cache, "--json")).out == ""


def test_an_allowed_confound_passes_and_its_reason_is_shown(
    ask, here: Path, study_cache: Path
) -> None:
    allowed = {
        "arms.causal.training": {"warmup": 3},
        "allow": {"training.warmup": "as in the source"},
    }
    told = ask(*words(allowed, study_cache))
    assert told.status == 0, told.err
    assert "allowed: as in the source" in told.out
    assert "nothing there is a confound" not in told.out
    told = ask(*words({"allow": {"training.warmup": "as in the source"}}, study_cache))
    assert "allow      training.warmup is not needed: nothing differs there" in told.out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sedes": 3}, "sedes is not a key here; did you mean 'seeds'?"),
        ({"seeds": 2}, "seeds has 2; use 3 or more, for fewer give no interval"),
        ({"factor": []}, "factor is missing; name the paths in which the arms may differ"),
        (
            {"tune": {"split": "test"}},
            "tune.split is 'test', on which the primary yardstick reports",
        ),
        ({"report": "best"}, "report is 'best'; use 'last'"),
        ({"base.objective": "causal", "primary.measure": {"kind": "halves"}}, "arms.full"),
    ],
)
def test_a_design_that_cannot_be_meant_is_refused_before_anything_is_written(
    ask, here: Path, study_cache: Path, changes: dict[str, Any], said: str
) -> None:
    for verb in ("plan", "run"):
        told = ask(verb, *words(changes, study_cache)[1:])
        assert told.status == 2
        assert said in told.err
        assert "Traceback" not in told.err
        assert not Path("runs").exists()


def test_a_tokenizer_that_loses_text_is_refused_before_anything_is_written(
    ask, here: Path, study_cache: Path
) -> None:
    Library(models.BPE(vocab={"?": 0, "a": 1, "+": 2}, merges=[], unk_token="?")).save(
        "tokenizer.json"
    )
    lossy = {"base.corpus.tokenizer": {"kind": "file", "path": "tokenizer.json"}}
    for verb in ("plan", "run"):
        told = ask(verb, *words(lossy, study_cache)[1:])
        assert told.status == 2
        assert "error: primary.measure in full, reverse, causal: item " in told.err
        assert "use a tokenizer that loses nothing, such as byte-level BPE" in told.err
        assert not Path("runs").exists()


@pytest.mark.parametrize("name", ["../out", "a/b", ".."])
def test_a_study_cannot_be_named_out_of_its_folder(
    ask, here: Path, study_cache: Path, name: str
) -> None:
    told = ask(*words(None, study_cache, "--name", name))
    assert told.status == 2
    assert "cannot be the name of a folder; use up to 100 letters" in told.err
    assert {path.name for path in here.iterdir()} <= {"little.json", "runs"}


def test_an_unknown_design_or_scale_is_met_with_those_there_are(
    ask, here: Path, study_cache: Path
) -> None:
    assert "did you mean 'positions'? designs are" in ask("plan", "positons").err
    told = ask("plan", "positions", "--scale", "smok")
    assert told.status == 2
    assert "scale is 'smok'; this design has smoke, laptop, hour, paper" in told.err
    assert (
        "scale is 'smoke'; this design has none: leave it out"
        in ask(*words(None, study_cache, "--scale", "smoke")).err
    )


def test_a_look_at_another_plan_leaves_a_study_with_results_as_it_is(
    ask, here: Path, finished_home: Path, study_cache: Path
) -> None:
    before = (finished_home / "studies/little/plan.json").read_text()
    told = ask(*words({"seeds": 4}, study_cache, "--runs", str(finished_home)))
    assert told.status == 0, told.err
    assert "not frozen " in told.out
    assert "has results of the plan" in told.out
    assert (finished_home / "studies/little/plan.json").read_text() == before


def test_widths_that_a_preset_keeps_are_told(ask, here: Path, study_cache: Path) -> None:
    own = {"base.architecture.preset": "llama", "base.architecture.attention.n_kv_heads": 2}
    told = ask(*words(own, study_cache))
    assert told.status == 0, told.err
    assert (
        "note       d_model is 16, and llama has 4096; d_ff 11008 stays as llama has it; set it too"
        in told.out
    )


def test_sinusoids_that_drown_embeddings_are_noted(ask, here: Path, study_cache: Path) -> None:
    note = "positions are sinusoids of size 0.71, 35.4 times that of the embeddings"
    own = {
        "base.architecture.positions": "sinusoidal",
        "base.architecture.init": {"kind": "normal", "std": 0.02},
        "base.architecture.embedding": {"scale": 1.0},
    }
    told = ask(*words(own, study_cache))
    assert told.status == 0, told.err
    assert f"note       {note}" in told.out
    scaled = own | {"base.architecture.embedding.scale": "sqrt_d_model"}
    assert note not in ask(*words(scaled, study_cache)).out


def test_a_warm_up_that_is_longer_than_the_training_is_refused(
    ask, here: Path, study_cache: Path
) -> None:
    told = ask(*words({"base.training.warmup": 900}, study_cache))
    assert told.status == 2
    assert "arms.full: training.warmup is 900, more than n_steps " in told.err


RANK = "rank: effective rank.test"
PROBE = {
    "kind": "probe",
    "probe": {"kind": "rank", "length": 16},
    "quantity": "effective rank",
}


def test_a_plan_says_what_must_hold_what_that_can_see_and_what_hangs_on_it(
    ask, here: Path, study_cache: Path
) -> None:
    floors = [{"that": f"{arm} > chance + 0.1"} for arm in ("full", "reverse", "causal")]
    must = [{"that": "reverse > causal", "on": RANK, "for": "reverse"}, *floors]
    told = ask(*words({"must": must, "others": [PROBE]}, study_cache))
    assert told.status == 0, told.err
    assert (
        "must       reverse > causal on rank: effective rank.test, one-sided at 5 %: with 3 seeds a"
        " real difference of 2 sd of the paired difference is missed in 29 % of studies. Where it"
        ' is not shown, there is no word on "reverse" against "full"' in told.out
    )
    assert (
        "must       full > chance + 0.1, by the means of 3 seeds. Where it is not shown, there is"
        " no word on all that is judged" in told.out
    )
    plain = ask(*words({"must": must, "others": [PROBE]}, study_cache, "--name", "plain", "--json"))
    assert json.loads(plain.out)["design"]["must"][0] == {
        "that": "reverse > causal",
        "on": RANK,
        "for": ["reverse"],
    }


def test_a_plan_says_of_a_margin_what_is_known_before_the_runs(
    ask, here: Path, study_cache: Path
) -> None:
    primary = {"primary.margin": "60 % of control", "control": "causal"}
    told = ask(*words(primary, study_cache))
    assert told.status == 0, told.err
    assert (
        "margin     60 % of control\n           too wide, so nothing is called equivalent; use"
        " '50 % of control' or less" in told.out
    )
    told = ask(*words({**primary, "primary.margin": "50 % of control"}, study_cache))
    assert (
        "margin     50 % of control\n           of what the control loses for sure, given that it"
        " works: nothing if its p, one-sided, is above 0.0025\n"
        "           where it is more than half of what the control"
        " loses for sure, or a tenth of what the baseline gains on the unigram model, nothing is"
        " called equivalent" in told.out
    )
