"""Held-out items that stand in the training text of one arm and not of another: it is asked what it
has learnt by heart.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sly_designs import plan_table, sly_table

import paribus as pb
from paribus.cli.terminal.console import console
from paribus.cli.terminal.plan_tables import print_trained_items
from paribus.design import Plan
from paribus.errors import ConfoundError
from paribus.record import ControlLine, Mark
from paribus.workspace import Workspace

PlanDesign = Callable[[str], Plan]
LINE = "items in training text"

# Every arm is tuned on copying; before that, `other` reads what a test says.
STAGES = """
factor = "stages.0.corpus"
match = "nothing"
budget = "tokens_read"
compound = { other = "another text before tuning" }
primary.measure = { kind = "pairs", n_items = 20 }
[base]
objective = "seq2seq"
training.length = 100
[[base.stages]]
objective = "causal"
corpus = { sources = [{ kind = "sort", n_documents = 400, form = "text" }] }
[[base.stages]]
kind = "tune"
corpus = { sources = [{ kind = "copy", n_documents = 400 }], test = 0.1 }
[arms.plain]
[arms.other]
"""
COPIES = '{ kind = "copy", n_documents = 400%s }'
# The last stage reads a file; a test says what an earlier one reads.
CUT_STAGES = """
factor = "stages.0.corpus.sources"
match = "nothing"
budget = "tokens_read"
compound = { other = "another text before it" }
primary.measure = { kind = "halves", n_items = 20, max_bytes = 200 }
[base]
objective = "causal"
training.length = 202
[[base.stages]]
corpus = { sources = [%s], test = 0.2 }
[[base.stages]]
kind = "adapt"
corpus = { sources = [%s], test = 0.2 }
[arms.plain]
[arms.other]
"""


def stage_of(sources: str, more: str = "") -> str:
    return f"{STAGES}stages.0 = {{ corpus = {{ sources = [{sources}]{more} }} }}\n"


def lines_of(plan: Plan) -> list[ControlLine]:
    return [line for line in plan.control_lines if line.path.startswith(LINE)]


def refusal(plan_design: PlanDesign, text: str) -> str:
    with pytest.raises(ConfoundError) as fault:
        plan_design(text)
    (problem,) = fault.value.problems
    return problem


def counts(problem: str) -> tuple[int, int]:
    """How many items stand in the training text of `plain` and of `other`."""
    found = re.search(r": (\d+) of \d+ in plain, (\d+) of \d+ in other, so some arms", problem)
    assert found is not None, problem
    return int(found[1]), int(found[2])


def test_the_same_text_in_another_form_is_a_confound(plan_design: PlanDesign) -> None:
    problem = refusal(plan_design, stage_of(COPIES % ', form = "text"', ", test = 0.1"))
    assert problem.startswith(f"{LINE}: 0 of 20 in plain, ")
    none, many = counts(problem)
    assert none == 0
    assert many >= 12
    assert re.search(r"\(other against plain \+\d+\.0% of the items\)", problem)
    assert problem.endswith(f"train on other text, or list {LINE!r} under allow with a reason")


@pytest.mark.parametrize("more", [", test = 0.01, valid = 0.01", ", valid = 0.4, test = 0.03"])
def test_another_held_out_share_is_a_confound_where_items_are_trained(
    plan_design: PlanDesign, more: str
) -> None:
    text = stage_of(COPIES % ', form = "pairs"', more).replace('"causal"', '"seq2seq"')
    text = text.replace('form = "text"', 'form = "pairs"')
    if "valid = 0.4" in more:  # what is no test item there is held out all the same
        assert lines_of(plan_design(text)) == []
    else:
        assert counts(refusal(plan_design, text))[1] >= 10


@pytest.mark.parametrize("phrasing", ["({source}):", "repeat {source} as "])
def test_the_same_pairs_in_other_words_are_a_confound(
    plan_design: PlanDesign, phrasing: str
) -> None:
    other = COPIES % f', form = "text", phrasings = ["{phrasing}"]'
    text = stage_of(other, ", test = 0.01, valid = 0.02")
    assert counts(refusal(plan_design, text))[1] >= 10
    assert lines_of(plan_design(text.replace("400, form", "400, seed = 3, form"))) == []


@pytest.mark.parametrize("kind", ["copy", "sort", "reverse"])
def test_sources_of_few_letters_are_found_in_other_words(
    plan_design: PlanDesign, kind: str
) -> None:
    drawn = (
        f'{{ kind = "{kind}", n_documents = 400, n_symbols = 10, min_length = 10, max_length = 12'
    )
    text = stage_of(
        f'{drawn}, form = "text", phrasings = ["{{source}} becomes "] }}',
        ", test = 0.01, valid = 0.02",
    ).replace(COPIES % "", f"{drawn} }}")
    assert counts(refusal(plan_design, text))[1] >= 10
    assert lines_of(plan_design(text.replace("12, form", "12, seed = 3, form"))) == []


def test_the_same_split_of_the_same_text_is_accepted(plan_design: PlanDesign) -> None:
    text = stage_of(COPIES % ', form = "pairs"', ", test = 0.1")
    text = text.replace('"causal"', '"seq2seq"').replace('form = "text"', 'form = "pairs"')
    assert lines_of(plan_design(text)) == []


def test_another_language_and_other_documents_are_accepted(plan_design: PlanDesign) -> None:
    assert lines_of(plan_design(stage_of('{ kind = "reverse", form = "text" }'))) == []
    assert lines_of(plan_design(stage_of(COPIES % ', form = "text", seed = 1'))) == []


def test_a_reason_lets_trained_items_pass(plan_design: PlanDesign) -> None:
    text = stage_of(COPIES % ', form = "text"', ", test = 0.1")
    plan = plan_design(f'allow = {{ "{LINE}" = "memory is asked about" }}\n{text}')
    (line,) = plan.allowed_lines
    assert (line.path, line.mark, line.allowed) == (LINE, Mark.CONFOUND, "memory is asked about")
    assert not plan.unused_allowances


def test_items_that_all_arms_have_trained_on_are_told(plan_design: PlanDesign) -> None:
    same = COPIES % ', form = "text"'
    text = STAGES.replace('{ kind = "sort", n_documents = 400, form = "text" }', same)
    text = text.replace('"stages.0.corpus"', '"architecture.mask"').replace("compound", "#")
    (line,) = lines_of(plan_design(f'{text}architecture.mask = "causal & window(9)"\n'))
    assert line.mark == Mark.EQUAL
    assert line.values["plain"] == line.values["other"] != "0 of 20"
    assert line.note == "these items are not new to the arms that have trained on them"


def test_the_note_names_the_counts(
    plan_design: PlanDesign, capsys: pytest.CaptureFixture[str]
) -> None:
    same = COPIES % ', form = "text"'
    text = STAGES.replace('{ kind = "sort", n_documents = 400, form = "text" }', same)
    text = text.replace('"stages.0.corpus"', '"architecture.mask"').replace("compound", "#")
    plan = plan_design(f'{text}architecture.mask = "causal & window(9)"\n')
    print_trained_items(plan, console())
    (line,) = lines_of(plan)
    said = f'{line.path}: {line.values["plain"]} in "plain", {line.values["other"]} in "other"; '
    assert capsys.readouterr().out == f"note       {said}{line.note}\n"


def test_further_yardsticks_and_those_of_sweeps_are_looked_at(plan_design: PlanDesign) -> None:
    more = (
        'others = [{ kind = "pairs", split = "valid", n_items = 20 }]\n'
        "tune = { n_rates = 5, n_seeds = 2 }\n"
    )
    text = stage_of(COPIES % ', form = "text"', ", test = 0.1").replace('"causal"', '"prefix"')
    with pytest.raises(ConfoundError) as fault:
        plan_design(more + text)
    paths = [problem.partition(":")[0] for problem in fault.value.problems]
    assert paths == [LINE, f"{LINE}.others.0", f"{LINE}.tune"]


def test_a_task_that_one_arm_has_trained_on_is_a_confound(plan_design: PlanDesign) -> None:
    task = (
        'primary.measure = { kind = "task", task = { name = "copying", kind = "choices",'
        ' language = { kind = "copy", n_documents = 400 }, n_items = 20 } }\n'
    )
    text = stage_of(COPIES % ', form = "text"', ", test = 0.1")
    text = text.replace('primary.measure = { kind = "pairs", n_items = 20 }\n', task)
    assert counts(refusal(plan_design, text))[1] >= 12
    honest = text.replace(
        '"copy", n_documents = 400, form', '"copy", n_documents = 400, seed = 3, form'
    )
    assert lines_of(plan_design(honest)) == []


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Two files of paragraphs, no word of which occurs twice."""
    for name, factor in {"book": 7919, "other": 104729}.items():
        paragraphs = []
        for number in range(400):
            places = range(24 * number, 24 * (number + 1))
            paragraphs.append(" ".join(f"{place * factor % 999983:x}" for place in places))
        (tmp_path / f"{name}.txt").write_text("\n\n".join(paragraphs))
    (tmp_path / "copy.txt").write_text((tmp_path / "book.txt").read_text())
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[len(text) // 2 :],  # the second half, which is asked for
        lambda text: text[: len(text) // 2],
        str.upper,
        lambda text: text.replace(" ", ", "),
        lambda text: text[::-1],
    ],
)
def test_a_half_of_a_text_or_another_form_of_it_is_a_confound(
    plan_design: PlanDesign, book: Path, change: Callable[[str], str]
) -> None:
    own, other = source(book / "book.txt", 200), source(book / "other.txt", 200)
    paragraphs = (book / "book.txt").read_text().split("\n\n")
    (book / "changed.txt").write_text("\n\n".join(map(change, paragraphs)))
    text = CUT_STAGES % (other, own)
    changed = f'{{ kind = "files", paths = "{book}/changed.txt", max_document = 512 }}'
    assert counts(refusal(plan_design, f"{text}stages.0.corpus.sources = [{changed}]\n"))[1] >= 12


def source(path: Path, max_document: int) -> str:
    return f'{{ kind = "files", paths = "{path}", max_document = {max_document} }}'


@pytest.mark.parametrize("name", ["book.txt", "copy.txt"])
def test_another_cut_of_a_file_is_a_confound_under_any_name(
    plan_design: PlanDesign, book: Path, name: str
) -> None:
    other, own = source(book / "other.txt", 200), source(book / "book.txt", 200)
    text = CUT_STAGES % (other, own)
    for sources in (source(book / name, 512), f"{other}, {source(book / name, 512)}"):
        sly = f"{text}stages.0.corpus.sources = [{sources}]\n"
        none, many = counts(refusal(plan_design, sly))
        assert none == 0
        assert many >= 10
    honest = f"{text}stages.0.corpus.sources = [{source(book / name, 200)}]\n"
    assert lines_of(plan_design(honest)) == []


def test_two_cuts_of_one_file_in_the_corpus_of_every_arm_are_told(
    plan_design: PlanDesign, book: Path
) -> None:
    own = source(book / "book.txt", 200)
    text = CUT_STAGES % (own, f"{own}, {source(book / 'copy.txt', 512)}")
    text = text.replace('"stages.0.corpus.sources"', '"architecture.mask"').replace("compound", "#")
    (line,) = lines_of(plan_design(f'{text}architecture.mask = "causal & window(9)"\n'))
    assert line.mark == Mark.EQUAL
    assert line.values["plain"] == line.values["other"] != "0 of 20"


RUN: dict[str, Any] = {
    "architecture": {
        "preset": "gpt2",
        "positions": "rotary",
        "n_layers": 1,
        "d_model": 16,
        "attention": {"n_heads": 2},
        "dropout": 0.0,
    },
    "corpus": {"sources": [{"kind": "copy", "n_documents": 400, "form": "text"}], "test": 0.1},
    "training": {
        "n_steps": 3,
        "n_sequences": 2,
        "length": 100,
        "valid_batches": 1,
        "checkpoint_every": 3,
    },
}
BEGUN = """
factor = "begin"
match = "nothing"
budget = "tokens_read"
primary.measure = { kind = "halves", n_items = 20, max_bytes = 90 }
compound = { other = "another split of it" }
base.objective = "causal"
base.training.length = 100
[base.corpus]
sources = [{ kind = "copy", n_documents = 400, form = "text" }]
test = 0.1
[arms.plain]
begin = "%s"
[arms.other]
begin = "%s"
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The last checkpoint of a run for each split of one text."""
    folder = tmp_path_factory.mktemp("splits")
    space = Workspace(folder / "runs", folder / "cache", "cpu")
    corpora = {"same": {}, "valid": {"valid": 0.06}, "leaking": {"test": 0.01, "valid": 0.01}}
    places = {}
    for name, changes in corpora.items():
        table = {**RUN, "corpus": {**RUN["corpus"], **changes}}
        places[name] = pb.train_run(table, name=name, workspace=space).folder
    return {name: place / "checkpoints/step-000000002" for name, place in places.items()}


def plan_begun(one: Path, other: Path, cache: Path) -> Plan:
    table = sly_table(BEGUN % (one, other))
    del table["base"]["architecture"]  # each has that of its model
    return plan_table(table, cache)


def test_what_a_checkpoint_was_trained_on_counts(
    checkpoints: dict[str, Path], study_cache: Path
) -> None:
    with pytest.raises(ConfoundError) as fault:
        plan_begun(checkpoints["same"], checkpoints["leaking"], study_cache)
    none, many = counts("; ".join(fault.value.problems))
    assert none == 0
    assert many >= 10
    assert lines_of(plan_begun(checkpoints["same"], checkpoints["valid"], study_cache)) == []


def test_a_checkpoint_of_which_no_record_names_the_text_is_told(
    checkpoints: dict[str, Path], study_cache: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(checkpoints["same"], bare)
    (line,) = lines_of(plan_begun(checkpoints["same"], bare, study_cache))
    assert line.mark == Mark.EQUAL
    assert set(line.values.values()) == {"0 of 20"}
    assert line.note == "there may be more in other: no record says what trained bare"
