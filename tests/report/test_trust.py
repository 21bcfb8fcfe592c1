"""Can I trust it? Every ground turns when what it stands on does."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from handmade_ladder import LARGEST_PARAMETERS, make_ladder_report
from handmade_study import (
    ENVIRONMENT,
    GAINS,
    add_first_stage,
    make_study,
    set_arm_rates,
    sweep_record,
)
from task_answers import TASK_HEAD

from paribus.record import (
    ControlLine,
    Mark,
    Study,
    TaskEvaluation,
    evaluation_path,
    read_evaluations,
    write_evaluation,
)
from paribus.record.disk import read_json, write_json
from paribus.report.details import detail_lines
from paribus.report.markdown import markdown_report
from paribus.report.numbers import describe_each, format_count
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.trust import TrustCheck, trust_checks
from paribus.report.trust_scope import _size_digits, trained_item_checks, window_checks
from paribus.report.verdicts import verdict_texts


def ground(name: str, root: Path, **options: Any) -> TrustCheck:
    return next(
        one
        for one in trust_checks(gather_report_data(make_study(root, **options)))
        if one.name == name
    )


def lines(mark: str, allowed: str | None, path: str = "training.warmup") -> list[dict[str, Any]]:
    values = {"causal": 1, "prefix": 2, "input hidden": 1}
    return [{"path": path, "mark": mark, "values": values, "note": "", "allowed": allowed}]


def test_no_confound_is_told_with_the_factor(tmp_path):
    found = ground("Confounds", tmp_path)
    assert (found.mark, found.text) == (
        "yes",
        "None: only architecture.mask differs, and what follows from it; 3 other fields are equal.",
    )


def test_two_factors_are_told_in_the_plural(tmp_path):
    found = ground("Confounds", tmp_path, changes={"declared": ["a.b", "c"]})
    assert found.text.startswith("None: only a.b and c differ, and what follows from them; ")


def test_an_allowed_confound_is_told_with_its_reason(tmp_path):
    found = ground(
        "Confounds", tmp_path, changes={"control": lines("✗", "warmup is part of the recipe")}
    )
    assert found.mark == "mind"
    assert "training.warmup: warmup is part of the recipe" in found.text


def test_a_confound_that_is_not_allowed_is_broken_ground(tmp_path):
    assert ground("Confounds", tmp_path, changes={"control": lines("✗", None)}).mark == "no"


def test_rates_that_were_not_tuned_are_to_be_kept_in_mind(tmp_path):
    assert ground("Learning rates", tmp_path).mark == "mind"


def test_tuned_rates_are_told(tmp_path):
    found = ground("Learning rates", tmp_path, rates=sweep_record(list(GAINS)))
    assert found.mark == "yes"
    assert found.text.startswith('Tuned alike, each optimum inside the grid: 0.004 for "causal"')


def test_an_optimum_outside_the_grid_is_broken_ground(tmp_path):
    rates = sweep_record(list(GAINS))
    rates["prefix"]["optimum"] = {**rates["prefix"]["optimum"], "inside": False}
    assert ground("Learning rates", tmp_path, rates=rates).mark == "no"


def test_rates_tuned_on_shorter_runs_are_told_under_rates(tmp_path):
    study = make_study(tmp_path, rates=sweep_record(list(GAINS)))
    plan = study.read_plan()
    plan["design"]["tune"]["share"] = 0.5
    study.write_plan(plan)
    found = {one.name: one for one in trust_checks(gather_report_data(study))}
    assert (
        found["Learning rates"].mark,
        "Rates tuned at 50 %." in found["Learning rates"].text,
    ) == ("mind", True)


def test_a_rate_that_is_the_factor_is_told_arm_by_arm(tmp_path):
    rates = {"causal": 0.004, "prefix": 0.008, "input hidden": 0.004}
    told = '0.004 for "causal", 0.008 for "prefix" and 0.004 for "input hidden"'
    study = set_arm_rates(make_study(tmp_path / "a"), rates, ["training.optimizer.rate"])
    found = next(
        one for one in trust_checks(gather_report_data(study)) if one.name == "Learning rates"
    )
    assert (found.mark, found.text) == (
        "yes",
        f"Not tuned, for the rate is what is compared: {told}.",
    )
    other = set_arm_rates(make_study(tmp_path / "b"), rates)
    found = next(
        one for one in trust_checks(gather_report_data(other)) if one.name == "Learning rates"
    )
    assert (found.mark, found.text) == ("mind", f"Not tuned, and not equal: {told}.")


def test_the_same_batches_are_claimed_only_where_the_control_table_shows_them(tmp_path):
    assert "all arms read the same batches" in ground("Pairing", tmp_path / "a").text
    for place, path in enumerate(
        ("text", "corpus.tokenizer.kind", "training.n_sequences", "objective.kind")
    ):
        found = ground(
            "Pairing", tmp_path / str(place), changes={"control": lines("→", None, path)}
        )
        assert (
            found.mark,
            f"Arms do not read the same batches alike: {path} differs." in found.text,
        ) == ("mind", True)
    study = make_study(tmp_path / "b")
    plan = study.read_plan()
    plan["arms"]["prefix"]["run"]["architecture"]["encoder"] = {"n_layers": 2, "mask": "full"}
    study.write_plan(plan)
    found = next(one for one in trust_checks(gather_report_data(study)) if one.name == "Pairing")
    assert "how input and target are laid out differs." in found.text


def test_sizes_are_one_only_where_they_are(tmp_path):
    assert ground("Size", tmp_path / "a").text.startswith("One size, 37.1k parameters")
    study = make_study(tmp_path / "b")
    plan = study.read_plan()
    plan["arms"]["prefix"]["price"]["parameters"] *= 2
    study.write_plan(plan)
    found = next(one for one in trust_checks(gather_report_data(study)) if one.name == "Size")
    assert found.text.startswith(
        'Sizes differ between arms: 37.1k for "causal", 74.2k for "prefix" and 37.1k for "input'
    )


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            (123_400, 123_401, 123_402),
            '123.4k for "causal", 123.401k for "prefix" and 123.402k for "input hidden"',
        ),
        (
            (123_400, 123_401, 123_400),
            '123.4k for "causal", 123.401k for "prefix" and 123.4k for "input hidden"',
        ),
    ],
)
def test_sizes_that_differ_by_little_look_different(tmp_path, sizes, said):
    study = make_study(tmp_path)
    plan = study.read_plan()
    for arm, n_parameters in zip(("causal", "prefix", "input hidden"), sizes, strict=True):
        plan["arms"][arm]["price"]["parameters"] = n_parameters
    study.write_plan(plan)
    found = next(one for one in trust_checks(gather_report_data(study)) if one.name == "Size")
    assert found.text.startswith(f"Sizes differ between arms: {said}, in parameters.")


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ((123_400, 123_401, 123_402, 123_403), "123.4k for a to 123.403k for d"),
        ((123_400, 123_400, 123_400, 123_401), "123.4k for 3 of them and 123.401k for d"),
        ((123_400, 123_401, 123_402, 246_000), "about 123k for 3 of them and 246k for d"),
    ],
)
def test_sizes_of_many_arms_are_never_one_for_all_where_they_differ(sizes, told):
    given = dict(zip("abcd", sizes, strict=True))
    assert describe_each(given, partial(format_count, digits=_size_digits(given))) == told


def test_contexts_that_were_cut_are_counted_by_arm(tmp_path):
    material = gather_report_data(make_study(tmp_path))
    assert "Window" not in [one.name for one in trust_checks(material)]
    own = {
        seed: replace(one, head=replace(one.head, n_truncated=5))
        for seed, one in material.findings.evaluations["prefix"].items()
    }
    found = replace(material.findings, evaluations={**material.findings.evaluations, "prefix": own})
    told = next(
        one for one in trust_checks(replace(material, findings=found)) if one.name == "Window"
    )
    assert told.text.endswith(
        ': 0 of 12 for "causal", 5 of 12 for "prefix" and 0 of 12 for "input hidden".'
    )


def test_items_that_stand_in_the_training_text_are_counted_by_arm(tmp_path):
    material = gather_report_data(make_study(tmp_path))
    assert not list(trained_item_checks(material))
    values = {"causal": "0 of 12", "prefix": "3 of 12", "input hidden": "0 of 12"}
    line = ControlLine("items in training text", Mark.CONFOUND, values, allowed="memory is asked")
    plan = material.plan.model_copy(update={"control": (*material.plan.control, line)})
    told_of = replace(material, findings=replace(material.findings, plan=plan))
    (told,) = trained_item_checks(told_of)
    assert (told.name, told.mark) == ("Seen items", "mind")
    assert told.text == (
        'Items that stand in the training text: 0 of 12 for "causal" and "input hidden"; 3 of 12'
        ' for "prefix". Allowed: memory is asked.'
    )


def test_a_text_that_a_head_reads_loses_its_end(tmp_path):
    material = gather_report_data(make_study(tmp_path))
    head = replace(TASK_HEAD, n_truncated=3)
    by_arm = {arm: {1: TaskEvaluation(head, ())} for arm in GAINS}
    cut = replace(material, findings=replace(material.findings, evaluations=by_arm))
    (told,) = window_checks(cut)
    assert told.text.startswith("Contexts that did not fit, and lost their beginnings: 3 of 4 for")
    for by_seed in by_arm.values():
        by_seed[1] = TaskEvaluation(replace(head, protocol={"kind": "head"}), ())
    (told,) = window_checks(cut)
    assert told.text.startswith("Texts that did not fit, and lost their ends: 3 of 4 for")


def test_new_documents_are_told_at_the_level_of_the_verdict(tmp_path):
    assert ground("Other documents", tmp_path).text.count(" (97.5 %)") == 2


def test_a_narrower_interval_on_new_documents_is_explained_and_widened(tmp_path):
    material = gather_report_data(make_study(tmp_path))
    first, last = material.findings.arms
    assert first.new_documents is not None
    assert first.new_documents.interval is not None
    assert first.judgement.comparison is not None
    wide = replace(first.judgement.comparison, low=-0.595, high=-0.037)
    thin = replace(first.new_documents.interval, low=-0.509, high=-0.123)
    other = replace(
        first,
        judgement=replace(first.judgement, comparison=wide),
        new_documents=replace(first.new_documents, interval=thin),
    )
    untold = replace(last, new_documents=None)
    narrow = replace(material, findings=replace(material.findings, arms=(other, untold)))
    found = next(one for one in trust_checks(narrow) if one.name == "Other documents")
    assert found.mark == "mind"
    assert '"prefix" −0.595 to −0.037 (97.5 %)' in found.text
    narrower = 'For "prefix" the interval on new documents comes out narrower than the one on these'
    assert f"{narrower} items, " in found.text
    assert (
        "because more degrees of freedom go into its estimate; it is no stronger claim"
        in found.text
    )
    lines = {line[0]: line[1] for line in detail_lines(narrow)}
    assert lines["to expect there, the wider of the two intervals"] == "−0.595 to −0.037"
    assert "−0.509 to −0.123" in lines["gain on new documents"]
    wider = replace(
        other,
        new_documents=replace(first.new_documents, interval=replace(thin, low=-0.7, high=0.1)),
    )
    whole = replace(material, findings=replace(material.findings, arms=(wider, untold)))
    found = next(one for one in trust_checks(whole) if one.name == "Other documents")
    assert (found.mark, "narrower" in found.text) == ("yes", False)


def worse_than_unigrams(study: Study, arm: str, seed: int) -> None:
    """Answers on disk that cost more than the unigram model's."""
    cell = next(cell for cell in study.read_cells() if (cell.arm, cell.seed) == (arm, seed))
    found = next(iter(read_evaluations(study.root / cell.run)))
    path = evaluation_path(study.root / cell.run, found.head.yardstick, found.head.items)
    write_evaluation(path, replace(found, head=replace(found.head, unigram_nats=0.0)))


def test_runs_that_were_not_trained_long_enough_are_told_apart_from_failed_ones(tmp_path):
    study = make_study(tmp_path, failed=[("prefix", 1)])
    worse_than_unigrams(study, "prefix", 3)
    material = gather_report_data(study)
    found = {one.name: one for one in trust_checks(material)}
    assert found["Failed runs"].text == (
        '1 of 12 runs did not train ("prefix", seed 1); none is dropped.'
    )
    said = (
        "1 run was not trained long enough: the loss was finite and had not risen, but the score is"
        " still worse than that of the unigram model. Train longer: more n_steps, or a larger"
        " --scale where the design has one."
    )
    assert (
        found["Length of training"].text
        == f'{said} Pairs with these arms get no verdict (1 of "prefix").'
    )
    assert found["Length of training"].mark == "no"
    first = verdict_texts(material)[0]
    assert first.failures == f'"prefix" trained in 2 of 4, "causal" in 4 of 4. {said}'
    assert first.headline == (
        'No verdict on "prefix" against "causal": not trained long enough (prefix in 1 of 4 seeds)'
    )


def test_the_control_must_have_come_out_worse(tmp_path):
    assert ground("Positive control", tmp_path / "a").mark == "yes"
    missed = ground("Positive control", tmp_path / "b", gains={**GAINS, "input hidden": 0.3})
    assert (missed.mark, "but is better" in missed.text) == ("no", True)


def test_a_failed_run_is_named(tmp_path):
    found = ground("Failed runs", tmp_path, failed=[("prefix", 3)])
    assert '1 of 12 runs did not train ("prefix", seed 3)' in found.text


def test_text_met_twice_is_to_be_kept_in_mind(tmp_path):
    once = ground("Text", tmp_path / "a")
    assert (once.mark, "0.7 epochs; no text was repeated" in once.text) == ("yes", True)
    values = {"causal": "1.5, 0.2", "prefix": "1.5, 0.2", "input hidden": "1.5, 0.2"}
    changes = {
        "control": [{"path": "epochs", "mark": "✓", "values": values, "note": "", "allowed": None}]
    }
    twice = ground("Text", tmp_path / "b", changes=changes)
    assert (twice.mark, "0.2 to 1.5 epochs; some text was repeated" in twice.text) == ("mind", True)


def test_how_often_the_longest_runs_of_a_ladder_read_their_text_is_told(tmp_path):
    report = make_ladder_report(tmp_path)
    (found,) = [one for one in trust_checks(report) if one.name == "Text of the ladder"]
    own_tokens, epochs = report.plan.arms["causal"].total("tokens_read"), 0.7
    readings = 32 * LARGEST_PARAMETERS / own_tokens * epochs
    assert found.mark == "mind"
    assert found.text == (
        f"Its longest runs read 54.4M tokens, {readings:.0f} epochs; some text was repeated."
    )
    names = [one.name for one in trust_checks(gather_report_data(make_study(tmp_path / "flat")))]
    assert "Text" in names
    assert "Text of the ladder" not in names


def chain_text(root: Path, epochs: str, text: str = "5" * 64) -> TrustCheck:
    study = add_first_stage(make_study(root))
    plan = study.read_plan()
    for line in plan["control"]:
        if line["path"] == "epochs":
            line["values"] = dict.fromkeys(GAINS, epochs)
    for arm in plan["arms"].values():
        arm["earlier_texts"] = [text]
    study.write_plan(plan)
    (found,) = [one for one in trust_checks(gather_report_data(study)) if one.name == "Text"]
    return found


def test_the_epochs_of_every_stage_are_told(tmp_path):
    found = chain_text(tmp_path / "a", "8.3; 0.845")
    assert (found.mark, found.text) == (
        "mind",
        "46.1k tokens in all stages: 8.3 epochs in pretrain and 0.845 epochs in tune; some text was"
        " repeated.",
    )
    once = chain_text(tmp_path / "b", "0.3, 0.6; 0.845")
    assert once.text.endswith(
        "0.3 to 0.6 epochs in pretrain and 0.845 epochs in tune; no text was repeated."
    )
    assert once.mark == "yes"
    twice = chain_text(tmp_path / "c", "0.6; 0.845", text="7" * 64)
    assert (twice.mark, "some text was repeated" in twice.text) == ("mind", True)


def test_an_older_plan_does_not_say_how_often_earlier_stages_read_their_text(tmp_path):
    found = chain_text(tmp_path / "a", "0.845")
    assert (found.mark, found.text) == (
        "mind",
        "46.1k tokens in all stages: 0.845 epochs of the text of tune. The plan does not say how"
        " often the text of pretrain was read.",
    )
    assert (
        "1.4 epochs of the text of tune, so some text was repeated. The plan"
        in chain_text(tmp_path / "b", "1.4").text
    )


def test_a_stage_whose_objective_differs_is_not_read_alike(tmp_path):
    values = {"causal": "causal", "prefix": "masked", "input hidden": "causal"}
    paths = ("stages.0.objective.kind", "stages.0.objective.rate", "stages.1.architecture.mask")
    control = [lines("Δ", None, path)[0] | {"values": values} for path in paths]
    found = ground("Pairing", tmp_path, changes={"control": control})
    assert found.mark == "mind"
    assert "Arms do not read the same batches alike: stages.0.objective differs." in found.text


def test_runs_of_two_environments_are_told(tmp_path):
    study = make_study(tmp_path, rates=sweep_record(list(GAINS)))
    run = study.read_cells()[0].run
    write_json(tmp_path / run / "environment.json", [{**ENVIRONMENT, "torch": "2.15.0"}])
    found = next(
        one for one in trust_checks(gather_report_data(study)) if one.name == "Machine and code"
    )
    assert (found.mark, found.text) == ("mind", "Runs were made under different torch.")
    rates = next(
        one for one in trust_checks(gather_report_data(study)) if one.name == "Learning rates"
    )
    assert (rates.mark, "different" in rates.text) == ("yes", False)


def test_another_machine_is_told_without_naming_it(tmp_path):
    study = make_study(tmp_path)
    write_json(
        tmp_path / study.read_cells()[0].run / "environment.json",
        [{**ENVIRONMENT, "machine": "m2"}],
    )
    found = next(
        one
        for one in trust_checks(gather_report_data(study, anonymous=True))
        if one.name == "Machine and code"
    )
    assert (found.mark, found.text) == ("mind", "Runs were made under different machine.")


def test_a_plan_that_changed_after_the_first_result_is_broken_ground(tmp_path):
    study = make_study(tmp_path)
    assert (
        next(
            one for one in trust_checks(gather_report_data(study)) if one.name == "As planned"
        ).mark
        == "yes"
    )
    study.freeze("e" * 64, "another", "paired t", ENVIRONMENT["code"])
    changed = next(
        one for one in trust_checks(gather_report_data(study)) if one.name == "As planned"
    )
    assert (changed.mark, changed.text) == (
        "no",
        "Not as planned: design changed after the first result.",
    )


def test_a_changed_plan_is_told_beside_the_verdict_and_from_what_to_what_unless_anonymous(tmp_path):
    study = make_study(tmp_path)
    study.freeze(
        "e" * 64, "another", "paired t", ENVIRONMENT["code"], ["primary.margin 0.5 → /home/me"]
    )
    told = "design changed after the first result"
    material = gather_report_data(study)
    assert f"<b>Not as planned:</b> {told}: primary.margin 0.5 → /home/me." in render_page(material)
    assert f"**Not as planned:** {told}: primary.margin 0.5 → /home/me." in markdown_report(
        material
    )
    hidden = gather_report_data(study, anonymous=True)
    assert f"<b>Not as planned:</b> {told}.</p>" in render_page(hidden)
    assert "/home/me" not in render_page(hidden) + markdown_report(hidden)


def test_a_plan_without_a_lock_is_to_be_kept_in_mind(tmp_path):
    study = make_study(tmp_path)
    (study.folder / "plan.lock").unlink()
    assert (
        next(
            one for one in trust_checks(gather_report_data(study)) if one.name == "As planned"
        ).mark
        == "mind"
    )
    assert read_json(study.folder / "plan.json")["name"] == "small"


def test_runs_that_were_known_before_the_plan_are_told(tmp_path):
    study = make_study(tmp_path)
    study.note_older_runs(4)
    ground = next(
        one for one in trust_checks(gather_report_data(study)) if one.name == "As planned"
    )
    assert (ground.mark, ground.text.split(";")[0]) == (
        "mind",
        "4 of 12 runs had been made for another study before this plan was locked",
    )
