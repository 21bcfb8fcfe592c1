"""Arms that are asked, or tuned, in ways that are not alike: it is refused or said beside them."""

import pytest

from paribus.errors import SpecError
from paribus.record import Mark

ENCODED = """
factor = "objective"
budget = "tokens_read"
base.architecture.encoder = {}
base.training.n_steps = 15
[arms.plain]
objective = "spans"
[arms.mixed]
[arms.mixed.objective]
kind = "mixture"
components = [{ objective = "spans" }, { objective = "prefix", weight = WEIGHT }]
"""
TASK = """
primary.margin = 5
[primary.measure]
kind = "task"
[primary.measure.task]
name = "reversed"
kind = "choices"
n_items = 20
language = { kind = "reverse", n_documents = 400, min_length = 4, max_length = 8 }
"""
STAGES = f"""
FIELDS
{TASK}
[base]
training = {{ n_steps = 60, length = 64 }}
[[base.stages]]
objective = "prefix"
corpus.sources = [
  {{ kind = "reverse", n_documents = 400, min_length = 4, max_length = 8, form = "text" }}]
[[base.stages]]
kind = "SECOND"
objective = "seq2seq"
corpus.sources = [
  {{ kind = "reverse", n_documents = 400, min_length = 4, max_length = 8, form = "FORM" }}]
"""
THIRD = """
[[base.stages]]
kind = "prefer"
objective = OBJECTIVE
corpus.sources = [
  { kind = "reverse", n_documents = 400, min_length = 4, max_length = 8, form = "THIRD" }]
"""
MASKS = '[arms.plain]\narchitecture.mask = "causal"\n[arms.other]\narchitecture.mask = "prefix"\n'


def stages(fields: str, arms: str, form: str = "pairs", third: str = "") -> str:
    kind = "tune" if form == "pairs" else "instruct"
    text = STAGES.replace("FIELDS", fields).replace("SECOND", kind).replace("FORM", form)
    return f"{text}{third}{arms}"


def notes(plan_design, text: str) -> str:
    (one,) = plan_design(text).judged
    return "; ".join(one.notes)


@pytest.mark.parametrize("weight", ["1e-9", "0.009"])
def test_no_arm_is_asked_in_a_form_that_it_hardly_learnt(plan_design, weight: str) -> None:
    said = "arms.mixed: it would be asked as prefix, which is .* % of its objective's weight, and"
    with pytest.raises(SpecError, match=f"{said} plain as spans; give that component a weight"):
        plan_design(ENCODED.replace("WEIGHT", weight))


def test_a_component_that_answers_stands_beside_the_pair_with_its_share(plan_design) -> None:
    said = notes(plan_design, ENCODED.replace("WEIGHT", "1.0"))
    assert "is asked as prefix (50 % of its training), plain as spans" in said


def test_a_component_that_hardly_counts_may_differ_where_both_are_asked_alike(plan_design) -> None:
    text = ENCODED.replace('"spans"', '"prefix"', 1).replace("WEIGHT", "1.0")
    text = text.replace('{ objective = "spans" }', '{ objective = "spans", weight = 1e-3 }')
    assert "is asked" not in notes(plan_design, text)


def test_objectives_that_are_asked_as_they_are_written_need_no_note(plan_design) -> None:
    text = 'factor = "objective"\nbudget = "bytes_read"\n[arms.plain]\n[arms.other]\n'
    assert "is asked" not in notes(plan_design, f'{text}objective = "causal"\n')


def test_a_short_last_stage_that_decides_how_an_arm_is_asked_is_said(plan_design) -> None:
    text = """
    factor = "stages.1"
    allow = { tokens_read = "the stage adds as much as it does" }
    [[base.stages]]
    [[base.stages]]
    kind = "adapt"
    objective = "spans"
    training = { n_steps = 1, warmup = 1 }
    [arms.plain]
    stages.1 = false
    [arms.more]
    """
    said = notes(plan_design, text)
    assert "is asked as spans (7.69 % of its training), plain as prefix" in said


def minus_parent(text: str) -> str:
    return text.replace('kind = "task"', 'kind = "task"\nminus_parent = true')


PREFERENCES = THIRD.replace("OBJECTIVE", '"preference"').replace("THIRD", "preferences")


def test_parents_of_two_stages_are_not_taken_off_one_pair(plan_design) -> None:
    fields = 'factor = "stages.2"\nbudget = "tokens_read"'
    arms = "[arms.plain]\n[arms.other]\nstages.2 = false\n"
    said = "plain would be judged by stage 2 minus stage 1, other by stage 1 minus stage 0; leave"
    with pytest.raises(SpecError, match=said):
        plan_design(minus_parent(stages(fields, arms, "conversations", PREFERENCES)))


def test_parents_of_one_stage_may_be_taken_off_and_are_named_where_they_differ(plan_design) -> None:
    rate = 'factor = "stages.1.training.optimizer.rate"'
    last = "[arms.plain]\n[arms.other]\nstages.1.training.optimizer.rate = 1e-3\n"
    assert notes(plan_design, minus_parent(stages(rate, last))) == ""
    said = notes(plan_design, minus_parent(stages('factor = "architecture.mask"', MASKS)))
    assert said == "is scored minus its own parent, which is not that of plain"


def test_a_turn_and_a_bare_question_are_told_apart(plan_design) -> None:
    fields = 'factor = "stages.1"\nallow = { tokens_read = "the stage is asked about" }'
    arms = "[arms.plain]\nstages.1 = false\n"
    turns = stages(fields, f"{arms}[arms.other]\n", "conversations")
    assert "is asked in the turn of a user, plain bare" in notes(plan_design, turns)
    pairs = stages(fields, f"{arms}[arms.other]\n")
    assert "bare" not in notes(plan_design, pairs)


GENERATED = (
    TASK.replace('"choices"', '"generation"')
    + """
measure = "MEASURE"
[base]
corpus.sources = [{ kind = "reverse", n_documents = 400, form = "text" }]
[arms.plain]
objective = "causal"
[arms.other]
objective = "masked"
"""
)
GENERATED = f'factor = "objective"\nmatch = "nothing"\nbudget = "tokens_read"\n{GENERATED}'


def test_answers_under_masks_are_told_from_those_that_are_written_on(plan_design) -> None:
    said = notes(plan_design, GENERATED.replace("MEASURE", "reward"))
    assert "answers under masks that are filled one by one, plain from left to right" in said
    alike = GENERATED.replace("MEASURE", "reward").replace('"masked"', '"prefix"')
    assert "left to right" not in notes(plan_design, alike)


def test_bits_of_references_are_not_judged_by_two_kinds_of_likelihood(plan_design) -> None:
    said = "items would be scored by likelihood in plain, pseudo-likelihood in other"
    with pytest.raises(SpecError, match=said):
        plan_design(GENERATED.replace("MEASURE", "bits per byte"))


OWN = THIRD.replace("OBJECTIVE", '{ kind = "preference", own_samples = { n_pairs = 8 } }')
OWN = OWN.replace("THIRD", "conversations")


def test_pairs_that_each_parent_wrote_itself_stand_beside_the_verdict(plan_design) -> None:
    fields = 'factor = "architecture.mask"'
    own = notes(plan_design, stages(fields, MASKS, "conversations", OWN))
    assert own == "learns in stage 2 from other pairs, those that its own parent wrote"
    assert notes(plan_design, stages(fields, MASKS, "conversations", PREFERENCES)) == ""
    beta = "[arms.plain]\n[arms.other]\nstages.2.objective.beta = 0.5\n"
    one_parent = stages('factor = "stages.2.objective.beta"', beta, "conversations", OWN)
    assert notes(plan_design, one_parent) == ""


def test_rates_that_are_found_on_two_criteria_are_told_apart(plan_design) -> None:
    fields = 'tune = true\nfactor = "stages.1"\nbudget = "tokens_read"'
    shorter = plan_design(stages(fields, "[arms.plain]\n[arms.other]\nstages.1 = false\n"))
    (one,) = shorter.judged
    assert one.notes[-1] == (
        "has the rate of its last stage tuned on the held-out loss of its own objective, plain on"
        " valid items"
    )
    tuned = {line.path: line.note for line in shorter.control_lines if line.mark == Mark.TUNED}
    assert "on the held-out loss of its own" in tuned["stages.0.training.optimizer.rate"]
    assert "on valid items" in tuned["stages.1.training.optimizer.rate"]
    alike = stages('tune = true\nfactor = "architecture.mask"', MASKS)
    assert notes(plan_design, alike) == ""


def test_longer_training_of_a_stage_is_a_factor_without_a_budget(plan_design) -> None:
    text = """
    factor = "stages.NUMBER.training.n_steps"
    [[base.stages]]
    [[base.stages]]
    kind = "adapt"
    [arms.plain]
    [arms.longer]
    stages.NUMBER.training.n_steps = 24
    """
    for number in ("0", "1"):
        said = notes(plan_design, text.replace("NUMBER", number))
        assert "reads 1.5 × the bytes of text" in said
        assert f"takes 24 steps in stage {number} for 12" in said
    both = text.replace("NUMBER", "0") + 'architecture.mask = "prefix"\nobjective = "causal"\n'
    meant = 'compound = { longer = "all of it is meant" }\n'
    named = 'factor = ["architecture.mask", "stages.0.objective", "stages.1.objective",'
    both = both.replace("factor = ", f"{named} ").replace('n_steps"\n', 'n_steps"]\n', 1)
    both = both.replace('objective = "causal"', 'stages.1.objective = "causal"')
    with pytest.raises(SpecError, match="budget is missing"):
        plan_design(meant + both)


def test_a_budget_may_be_shared_out_over_stages(plan_design) -> None:
    text = """
    budget = "tokens_read"
    factor = "stages.0.training.n_steps"
    [[base.stages]]
    [[base.stages]]
    kind = "adapt"
    [arms.plain]
    [arms.longer]
    stages.0.training.n_steps = 18
    """
    assert "takes 6 steps in stage 1 for 12" in notes(plan_design, text)
    with pytest.raises(SpecError, match=r"stages\.1\.training\.n_steps, which budget"):
        plan_design(text.replace("stages.0", "stages.1"))
