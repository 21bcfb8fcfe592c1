"""What a paper takes from a report: the methods, the hyper-parameters of each arm, and captions."""

import re

import pytest
from handmade_study import (
    GAINS,
    SEEDS,
    add_first_stage,
    make_study,
    rewrite_plan,
    set_arm_rates,
    sweep_record,
)

from paribus.report.hyperparameters import hyperparameter_tables, hyperparameters
from paribus.report.latex import latex_table
from paribus.report.limits import limitations
from paribus.report.markdown import markdown_report
from paribus.report.methods import methods, results_caption
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks


@pytest.fixture
def material(tmp_path):
    return gather_report_data(make_study(tmp_path))


def test_the_methods_say_what_the_plan_says(material):
    said = methods(material)
    for words in (
        (
            'We compare 3 arms, "causal", "prefix" and "input hidden", which differ in'
            " architecture.mask."
        ),
        (
            "The text is an invented language (translation); 5 % of the documents are held out for"
            " validation, 5 % for the"
        ),
        "All arms have 30 steps, 8 sequences per batch and 64 tokens per sequence.",
        "All arms are trained at the learning rate 0.004, which was not tuned.",
        f"Each arm is trained under {len(SEEDS)} seeds; runs of the same seed are paired.",
        "in bits per byte, on up to 200 items. Margin: 0.02 bits per byte.",
        "Intervals are at 97.5 % unless they say otherwise; 2 comparisons share 5 %.",
    ):
        assert words in said


def test_a_field_that_differs_is_not_said_of_all_arms(tmp_path):
    study = make_study(tmp_path)
    arms = study.read_plan()["arms"]
    arms["prefix"]["run"]["stages"][0]["training"]["n_steps"] = 60
    rewrite_plan(study, arms=arms)
    material = gather_report_data(study)
    assert "All arms have 8 sequences per batch and 64 tokens per sequence." in methods(material)
    assert ("steps", "30", "60", "30") in hyperparameters(material)


def test_the_rates_are_those_that_the_sweep_gave(tmp_path):
    material = gather_report_data(make_study(tmp_path, rates=sweep_record(list(GAINS))))
    assert "is tuned by the same search" in methods(material)
    (line,) = [line for line in hyperparameters(material) if line[0] == "peak learning rate"]
    assert line[1:] == tuple(
        f"{material.findings.rates[arm]['rate']:.3g}" for arm in material.order
    )
    assert "The peak learning rates are those that the sweep gave." in markdown_report(material)


def test_every_stage_of_a_chain_has_its_text_and_its_length(tmp_path):
    material = gather_report_data(add_first_stage(make_study(tmp_path)))
    said = methods(material)
    for words in (
        "A run has 2 stages, pretrain and tune.",
        (
            "The text of the stage pretrain is the documentation of Python and its installed"
            " libraries; 5 % of the documents"
        ),
        "The text of the stage tune is an invented language (translation); 5 % of the documents",
        "In the stage pretrain all arms have 60 steps, 8 sequences per batch",
        "In the stage tune all arms have 30 steps, 8 sequences per batch",
    ):
        assert words in said
    assert "All arms have" not in said
    assert (
        "What happens on other text: in pretrain it was the documentation of Python and its"
        " installed libraries; in tune it was an invented language (translation)."
        in limitations(material)
    )


def test_the_rates_of_every_stage_are_those_that_its_sweep_gave(tmp_path):
    study = add_first_stage(make_study(tmp_path, rates=sweep_record(list(GAINS))))
    before = {name: line for name, *line in hyperparameters(gather_report_data(study))}
    assert before["stages.0: peak learning rate"] == ["tuned"] * 3  # no record of it
    sweeps = sweep_record(list(GAINS), best=0.002)
    sweeps["prefix"] = sweep_record(["prefix"], best=0.016)["prefix"]
    sweeps["prefix"]["optimum"]["remark"] = "the parabola fits badly"
    study.write_stage_rates([sweeps])
    material = gather_report_data(study)
    lines = {name: line for name, *line in hyperparameters(material)}
    assert lines["stages.0: peak learning rate"] == ["0.002", "0.016", "0.002"]
    assert "peak learning rates are those that the sweeps gave" in markdown_report(material)
    assert (
        "Stages before the last are tuned on the held-out loss of their own objectives."
        in methods(material)
    )
    (found,) = [one for one in trust_checks(material) if one.name == "Learning rates"]
    assert (
        '0.004 for "input hidden"; in pretrain 0.002 for "causal", 0.016 for "prefix" and 0.002 for'
        ' "input hidden".' in found.text
    )
    assert found.text.endswith('Pretrain of "prefix": the parabola fits badly.')


def test_how_much_of_each_stage_its_sweep_takes_and_by_what_it_is_tuned(tmp_path):
    rates = sweep_record(list(GAINS))
    for record in rates.values():
        record["own_loss"] = True
    study = add_first_stage(make_study(tmp_path, rates=rates))
    study.write_stage_rates([sweep_record(list(GAINS), best=0.002)])
    assert " of the steps. All stages are tuned on the held-out loss" in methods(
        gather_report_data(study)
    )
    design = study.read_plan()["design"]
    shares = {"share": 0.3, "last_share": 1.0}
    rewrite_plan(study, design={**design, "tune": {**design["tune"], **shares}})
    assert " and 30 % of the steps, 100 % in the last stage. All" in methods(
        gather_report_data(study)
    )


def test_rates_of_their_own_are_in_the_table(tmp_path):
    material = gather_report_data(set_arm_rates(make_study(tmp_path), {"prefix": 0.008}))
    assert "Each arm is trained at the learning rate in the table, which was not tuned." in methods(
        material
    )
    assert ("peak learning rate", "0.004", "0.008", "0.004") in hyperparameters(material)


def test_every_arm_has_its_hyperparameters(material):
    lines = {name: values for name, *values in hyperparameters(material)}
    assert lines["mask"] == ["causal", "prefix", "causal & same_side"]
    assert lines["heads"] == ["2", "2", "2"]
    assert lines["feed-forward width"] == ["128", "128", "128"]
    assert lines["optimizer"] == ["AdamW"] * 3
    assert lines["AdamW β1, β2"] == ["0.9, 0.95"] * 3
    assert lines["schedule"] == ["cosine (floor 0.1)"] * 3


def test_of_many_arms_what_is_equal_is_said_once(material, monkeypatch):
    monkeypatch.setattr("paribus.report.report_data.MAX_ARM_COLUMNS", 2)
    (heading, by_arm), (rest, equal) = hyperparameter_tables(material)
    assert heading == ("arm", "mask")
    assert by_arm[1] == ("prefix", "prefix")
    assert rest == ("", "all arms")
    assert ("heads", "2") in equal


def test_markdown_has_methods_hyperparameters_and_captions(material):
    text = markdown_report(material)
    assert "\n## Methods\n\nWe compare 3 arms" in text
    assert (
        "\n## Hyper-parameters\n\n*Hyper-parameters of each arm. Compared: architecture.mask.*\n\n|"
        "  | causal |" in text
    )
    assert (
        "## The numbers behind the verdict\n\n*What each verdict rests on: bits per byte of"
        " halves.test, 4 seeds." in text
    )


def test_latex_can_go_into_a_paper(material):
    text = latex_table(material)
    paragraph = (
        r"\paragraph{Methods.} We compare 3 arms, ``causal'', ``prefix'' and ``input hidden''"
    )
    assert paragraph in text
    assert (
        text.count(r"\begin{table}") == text.count(r"\end{table}") == text.count(r"\caption{") == 2
    )
    assert results_caption(material).startswith("Score, gain and verdict of each arm.")
    assert r"mask & causal & prefix & causal \& same\_side \\" in text
    assert r"AdamW $\beta$1, $\beta$2 & 0.9, 0.95" in text
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0


def test_the_page_stays_as_it_is(material):
    assert "We compare 3 arms" not in render_page(material)
