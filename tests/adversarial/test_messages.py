"""Designs that are refused, and what they are told: where, what was given, what would do. No value
is quoted at length, no fault brings others that are none, and each remedy is one that works.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from sly_designs import sly_table
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from paribus.design import Plan, find_design
from paribus.errors import MAX_VALUE_LETTERS, ConfoundError, SpecError
from paribus.record import Mark

MASKS = """
factor = "architecture.mask"
[arms.plain]
[arms.other]
architecture.mask = "prefix"
"""
MATCHED = 'match = { by = "parameters", moves = "d_ff", times = %s }\n' + MASKS
TWO_SOURCES = """
factor = [%s]
budget = "tokens_read"
[base.corpus]
sources = [
    { kind = "translation", n_documents = 400, form = "text" },
    { kind = "copy", n_documents = 400, form = "text" },
]
[arms.plain]
[arms.other]
corpus.sources = [
    { kind = "translation", n_documents = 400, form = "text", weight = 3 },
    { kind = "copy", n_documents = 400, form = "text"%s },
]
"""
FILES = """
factor = "architecture.mask"
budget = "tokens_read"
match = "nothing"
[base.corpus]
tokenizer = { kind = "file", path = "%s" }
[arms.plain]
[arms.other]
architecture.mask = "prefix"
corpus.tokenizer.path = "%s"
"""
STAGES = """
factor = "stages.0.corpus.test"
budget = "tokens_read"
[[base.stages]]
[[base.stages]]
kind = "tune"
[arms.plain]
[arms.other]
stages.0.corpus.test = 0.0
"""


def refusal(plan_design, text: str) -> str:
    with pytest.raises(SpecError) as fault:
        plan_design(text)
    (problem,) = fault.value.problems
    return problem


def line_of(plan: Plan, path: str):
    (line,) = [line for line in plan.control_lines if line.path == path]
    return line


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ("1e300", r"match\.times is 1e\+300 \(float\); use 1000 or less"),
        (f"1{'0' * 300}", r"match\.times is 10{38} … 0{38} \(int\); use 1000 or less"),
        ("nan", r"match\.times is nan \(float\); use a finite number"),
        ("inf", r"match\.times is inf \(float\); use a finite number"),
        ("0", r"match\.times is 0 \(int\); use more than 0"),
        ("-2.0", r"match\.times is -2\.0 \(float\); use more than 0"),
    ],
)
def test_a_size_that_no_arm_can_have_is_refused_where_it_is_written(
    plan_design, times: str, said: str
) -> None:
    with pytest.raises(SpecError, match=f"^{said}$"):
        plan_design(MATCHED % times)


def test_a_size_that_an_arm_can_have_is_matched(plan_design) -> None:
    assert plan_design(MATCHED % "1.0").arms[1].name == "other"


@pytest.mark.parametrize("question", ["", "  ", r"\n\t"])
def test_a_design_without_a_question_is_refused(plan_design, question: str) -> None:
    said = refusal(plan_design, f'question = "{question}"\n{MASKS}')
    assert said.endswith(
        "; write what the comparison is to tell, such as 'Does a prefix mask help?'"
    )
    assert plan_design(f'question = "?"\n{MASKS}').design.question == "?"


def test_one_arm_is_told_once_and_by_its_name(plan_design) -> None:
    said = refusal(plan_design, 'factor = "architecture.mask"\n[arms.plain]\n')
    assert said == (
        "arms has only plain, and a comparison needs two; add the arm that it is compared with"
    )


def test_a_preset_as_a_factor_is_told_what_it_writes(plan_design) -> None:
    design = """
factor = [%s]
match = "nothing"
budget = "tokens_read"
%s
[arms.plain]
[arms.other]
architecture.preset = "llama"
"""
    said = refusal(plan_design, design % ('"architecture.preset"', ""))
    start = (
        "factor 'architecture.preset' is no field, but stands for all that a preset writes; name"
    )
    assert said.startswith(f"{start} what differs: 'architecture.attention', ")
    fields = said.removeprefix(f"{start} what differs: ")
    reason = 'compound = { other = "two families, as they were published" }'
    plan = plan_design(design % (fields, reason))
    assert plan.judged[0].is_compound


def test_fields_of_one_source_are_factors_by_the_names_that_plan_prints(plan_design) -> None:
    plan = plan_design(TWO_SOURCES % ('"corpus.sources.0.weight"', ""))
    assert line_of(plan, "corpus.sources").mark == Mark.FACTOR
    assert plan.judged[0].factors == ("corpus.sources.0.weight",)
    with pytest.raises(
        ConfoundError,
        match=r"corpus\.sources is .*, but it is not the factor: corpus\.sources\.1\.seed could"
        r" have been equal; set it equal",
    ):
        plan_design(TWO_SOURCES % ('"corpus.sources.0.weight"', ", seed = 3"))
    said = refusal(plan_design, TWO_SOURCES % ('"corpus.sources.7.weight"', ""))
    assert "is a field of no arm's run; did you mean 'corpus.sources." in said


def test_one_tokenizer_under_two_names_is_no_difference(plan_design, tmp_path: Path) -> None:
    letters = pre_tokenizers.ByteLevel.alphabet()
    for name, order in (("one", sorted(letters)), ("third", sorted(letters, reverse=True))):
        vocabulary = {letter: number for number, letter in enumerate(order)}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.save(str(tmp_path / f"{name}.json"))
    shutil.copy(tmp_path / "one.json", tmp_path / "second.json")
    plan = plan_design(FILES % (tmp_path / "one.json", tmp_path / "second.json"))
    line = line_of(plan, "corpus.tokenizer.path")
    assert (line.mark, line.note) == (Mark.FOLLOWS, "the same tokenizer under two names")
    assert plan.judged[0].factors == ("mask",)
    with pytest.raises(ConfoundError, match=r"corpus\.tokenizer\.path is .* not the factor"):
        plan_design(FILES % (tmp_path / "one.json", tmp_path / "third.json"))


def test_why_an_allowance_is_not_needed(plan_design) -> None:
    reasons = '{ visible_share = "it is what a mask is", "training.z_loss" = "an old habit" }'
    plan = plan_design(f"allow = {reasons}{MASKS}")
    assert line_of(plan, "visible_share").mark == Mark.FOLLOWS
    assert plan.unused_allowances == {
        "visible_share": "what differs there is → (follows from the factor) and needs no reason",
        "training.z_loss": "nothing differs there",
    }


def test_stages_that_share_a_text_in_one_arm_are_compared_stage_by_stage(plan_design) -> None:
    line = line_of(plan_design(STAGES), "epochs")
    first, second = [
        [float(epochs) for epochs in str(value).split(";")] for value in line.values.values()
    ]
    largest = max(abs(other / one - 1) for one, other in zip(first, second, strict=True))
    assert largest < 0.06
    told = float(line.note.removeprefix("other against plain ").partition("%")[0])
    assert abs(told) == pytest.approx(100 * largest, abs=0.1)


def test_weights_of_another_kind_are_the_only_fault(plan_design) -> None:
    begin = 'base.begin = { name = "somewhere", weights = %s }\n'
    for weights, given in (('"abc"', "'abc' (str)"), ("7", "7 (int)")):
        said = refusal(plan_design, begin % weights + MASKS)
        assert said.startswith(f"in every arm, begin.weights is {given}; use ")
    assert "its sha256: 64 digits and letters from a to f" in refusal(
        plan_design, begin % '"abc"' + MASKS
    )


@pytest.mark.parametrize(
    "mask",
    [
        "(" * 3000 + "causal" + ")" * 3000,
        "causal & " * 20_000 + "causal",
        "-" * 5000 + "causal",
        "nope" * 1000,
        "causal & " + "x" * 1000,
        f"window(8, {'a' * 1000})",
        " | ".join(["causal"] * 65),
    ],
)
def test_a_mask_is_quoted_at_most_a_line_long(plan_design, mask: str) -> None:
    said = refusal(plan_design, MASKS.replace("prefix", mask))
    assert said.startswith("arms.other: architecture.mask '")
    assert " … " in said
    assert len(said) < 2 * MAX_VALUE_LETTERS + 300
    assert plan_design(MASKS.replace("prefix", f"{'(' * 90}prefix{')' * 90}")).judged[0].factors


@pytest.mark.parametrize(
    ("base", "entry"),
    [
        ("", "corpus.sources.0.weight = 0.5"),
        (
            'base.objective = { kind = "mixture", components = [{ objective = "causal" }] }',
            "objective.components.0.weight = 0.5",
        ),
    ],
)
def test_an_entry_of_a_list_that_is_written_by_its_place_is_answered_with_the_list(
    plan_design: Any, base: str, entry: str
) -> None:
    said = r"arms\.w: \S+ has 0 as a key, but entries of a list .*; write the whole list"
    with pytest.raises(SpecError, match=said):
        plan_design(f'{base}\nfactor = "architecture.mask"\n[arms.plain]\n[arms.w]\n{entry}')


def test_a_yardstick_that_does_not_fit_a_text_names_the_arm(plan_design: Any) -> None:
    said = r"^primary\.measure, in plain, w: yardstick\.kind is 'pairs', which needs pairs"
    text = 'factor = "architecture.mask"\n[arms.plain]\n[arms.w]\narchitecture.mask = "causal"'
    with pytest.raises(SpecError, match=said):
        plan_design(f'primary.measure = {{ kind = "pairs" }}\n{text}')


KIND_AS_KEY = """
factor = "architecture.encoder"
[arms.plain]
[arms.other]
architecture = { kind = "%s", %s = %s }
"""


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("task", '"reverse"', "architecture.task is not a key here; "),
        ("init", "{ spread = 2 }", "architecture.init.spread is not a key here; "),
    ],
)
def test_a_key_that_is_called_as_a_kind_is_named(
    plan_design, key: str, value: str, said: str
) -> None:
    with pytest.raises(SpecError) as fault:
        plan_design(KIND_AS_KEY % (key, key, value))
    starts = tuple(f"arms.other: {one}" for one in ("architecture.kind is not a key here; ", said))
    assert [problem for problem in fault.value.problems if problem.startswith(starts[0])]
    assert [problem for problem in fault.value.problems if problem.startswith(starts[1])]


@pytest.mark.parametrize("place", ["", "scales", "base.architecture", "arms.other"])
def test_a_key_that_is_no_text_is_refused(place: str) -> None:
    table = sly_table(MASKS + "[scales.smoke]\nseeds = 3\n")
    assert find_design(table, "smoke")[1].seeds == (1, 2, 3)
    inner = table
    for name in place.split(".") if place else ():
        inner = inner[name]
    inner[5] = {}
    with pytest.raises(SpecError, match=r"^the table has the key 5 \(int\); write keys as text$"):
        find_design(table, "smoke")
