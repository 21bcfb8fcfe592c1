"""Formats of published tasks, in small files of the same form, and in the real ones where they
are.
"""

import json
import tarfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from paribus.corpus.tasks import choice_items, generation_items, labelled_items
from paribus.errors import SpecError
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import ChoicesTask, GenerationTask, LabelsTask

SHARED = Path(__file__).parents[4] / "shared" / "data"


def choices(reader: str, *paths: Path) -> tuple[Any, ...]:
    task = load_task({"reader": reader, "paths": list(map(str, paths))})
    assert isinstance(task, ChoicesTask | LabelsTask)
    return choice_items(task)


def generation(reader: str, *paths: Path) -> tuple[Any, ...]:
    task = load_task({"reader": reader, "paths": list(map(str, paths))})
    assert isinstance(task, GenerationTask)
    return generation_items(task)


def lines(path: Path, *tables: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(table) + "\n" for table in tables))
    return path


def test_blimp_asks_for_the_right_sentence(tmp_path: Path) -> None:
    pair = {"sentence_good": "A dog runs.", "sentence_bad": "A dog run."}
    path = lines(tmp_path / "a.jsonl", {**pair, "UID": "agreement", "pairID": "0"})
    (item,) = choices("blimp", path)
    assert (item.name, item.document, item.context) == ("agreement-0", "agreement", "")
    assert (item.options, item.key) == (("A dog runs.", "A dog run."), 0)


def test_lambada_asks_for_the_last_word(tmp_path: Path) -> None:
    (item,) = generation("lambada", lines(tmp_path / "a.jsonl", {"text": "I see the sea"}))
    assert (item.source, item.references) == ("I see the", (" sea",))
    for text in ("sea", "sea "):
        path = lines(tmp_path / "a.jsonl", {"text": text})
        with pytest.raises(SpecError, match="line 1 has a text without a last word"):
            generation("lambada", path)
    with pytest.raises(SpecError, match="line 1 has no 'text'"):
        generation("lambada", lines(tmp_path / "a.jsonl", {"txt": "a b"}))


def test_mmlu_has_a_header_or_none_and_numbers_or_letters(tmp_path: Path) -> None:
    path = tmp_path / "anatomy_test.csv"
    path.write_text('question,choice0,choice1,choice2,choice3,answer\n"a, b?",w,x,y,z,2\n')
    (item,) = choices("mmlu", path)
    assert (item.context, item.options, item.key) == ("a, b?\nAnswer:", (" w", " x", " y", " z"), 2)
    path.write_text("a?,w,x,y,z,D\n")
    assert choices("mmlu", path)[0].key == 3
    path.write_text("a?,w,x,y,z,E\n")
    with pytest.raises(SpecError, match="line 1 has the key 'E'"):
        choices("mmlu", path)


def instruction(path: Path, text: str, answer: str) -> Path:
    path.write_text(json.dumps([{"instruction": text, "input": "", "answer": answer}]))
    return path


def test_options_are_parsed_back_out_of_instructions(tmp_path: Path) -> None:
    text = (
        "Please choose the correct answer to the question: Why?\n\nAnswer1: not Answer3: here"
        " Answer2: two Answer3: three\n\nAnswer format: answer1/answer2/answer3"
    )
    (item,) = choices("instruction-choices", instruction(tmp_path / "a.json", text, "answer3"))
    assert item.context == "Question: Why?\nAnswer:"
    assert (item.options, item.key) == ((" not Answer3: here", " two", " three"), 2)


def test_solutions_and_true_or_false_are_options_too(tmp_path: Path) -> None:
    text = (
        "Please choose the correct solution to the question: How?\n\nSolution1: so\n\nSolution2:"
        " thus\n\nAnswer format: solution1/solution2"
    )
    (item,) = choices("instruction-choices", instruction(tmp_path / "a.json", text, "solution1"))
    assert (item.options, item.key) == ((" so", " thus"), 0)
    text = (
        "Please answer the following question with true or false, question: is it?\n\nAnswer"
        " format: true/false"
    )
    (item,) = choices("instruction-choices", instruction(tmp_path / "a.json", text, "false"))
    assert (item.context, item.key) == ("Question: is it?\nAnswer:", 1)


@pytest.mark.parametrize(
    ("text", "answer", "message"),
    [
        ("Why? Answer1: a Answer2: b", "answer1", "without 'Answer format:'"),
        ("Why? Answer1: a\nAnswer format: answer1", "answer1", "names 1 options"),
        ("Why? Answer1: a Answer2: b\nAnswer format: answer1/answer2", "answer3", "has answer"),
    ],
)
def test_a_bad_instruction_is_refused(tmp_path: Path, text: str, answer: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"a.json item 1 .*{message}"):
        choices("instruction-choices", instruction(tmp_path / "a.json", text, answer))


def test_winogrande_puts_each_filler_in_the_blank(tmp_path: Path) -> None:
    text = (
        "Please choose the correct answer to fill in the blank to complete the given sentence:"
        " Ann met Bo so _ left.\n\nOption1: Ann Option2: Bo Answer format: option1/option2"
    )
    expected = ("Ann met Bo so Ann left.", "Ann met Bo so Bo left.")
    (item,) = choices("winogrande", instruction(tmp_path / "a.json", text, "option2"))
    assert (item.options, item.key) == (expected, 1)
    own = {"sentence": "Ann met Bo so _ left.", "option1": "Ann", "option2": "Bo", "answer": "1"}
    (item,) = choices("winogrande", lines(tmp_path / "a.jsonl", own))
    assert (item.options, item.key) == (expected, 0)
    with pytest.raises(SpecError, match="has answer '3'; use '1' or '2'"):
        choices("winogrande", lines(tmp_path / "a.jsonl", {**own, "answer": "3"}))
    with pytest.raises(SpecError, match="has 0 blanks"):
        choices("winogrande", lines(tmp_path / "a.jsonl", {**own, "sentence": "Ann left."}))


def test_arc_is_read_as_published_in_both_its_forms(tmp_path: Path) -> None:
    options = [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}]
    first = {"id": "1", "question": {"stem": "Why?", "choices": options}, "answerKey": "B"}
    second = {"id": "2", "question": "Why?", "answerKey": "2"}
    second["choices"] = {"text": ["x", "y"], "label": ["1", "2"]}
    items = choices("arc", lines(tmp_path / "a.jsonl", first, second))
    assert [(item.options, item.key) for item in items] == [((" x", " y"), 1)] * 2
    with pytest.raises(SpecError, match="line 1 has answerKey 'C'; use one of A, B"):
        choices("arc", lines(tmp_path / "a.jsonl", {**first, "answerKey": "C"}))


def test_cola_and_rte_have_columns_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("gj04\t0\t*\tThe car honked down the road.\n")
    (item,) = choices("cola", tmp_path / "dev.tsv")
    assert item.context.startswith("The car honked down the road.")
    assert (item.options[item.key], item.name) == (" no", "dev-1")
    (tmp_path / "dev.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n7\tIt is so.\tIs it?\tentailment\n"
    )
    (item,) = choices("rte", tmp_path / "dev.tsv")
    assert (item.name, item.options[item.key]) == ("dev-7", " True")


def test_ag_news_is_read_by_tabs_and_as_published(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("Shares fell.\tBusiness\n")
    (tmp_path / "a.csv").write_text('"3","Shares","They fell."\n')
    for name, text in (("a.tsv", "Shares fell."), ("a.csv", "Shares They fell.")):
        (item,) = choices("ag-news", tmp_path / name)
        assert (item.context, item.options[item.key]) == (f"{text}\nTopic:", " business")
    (tmp_path / "a.csv").write_text('"5","Shares","They fell."\n')
    with pytest.raises(SpecError, match="line 1 has topic '5'; use 1, 2, 3 or 4"):
        choices("ag-news", tmp_path / "a.csv")


def test_trec_has_fine_types_or_none_and_old_letters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"NUM:dist How far ?\nLOC:where is S\xe3o Paulo ?\n")
    task = load_task({"reader": "trec", "paths": str(path)})
    assert isinstance(task, LabelsTask)
    items = labelled_items(task)
    assert [(item.text, item.label) for item in items] == [
        ("How far ?", 5),
        ("where is São Paulo ?", 4),
    ]
    for content, message in ((b"how far ?\n", "no ':'"), (b"NUM:dist \n", "no question")):
        path.write_bytes(content)
        with pytest.raises(SpecError, match=f"line 1 has {message}"):
            labelled_items(task)


def test_parallel_lines_are_read_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_text("one\ntwo\n")
    (tmp_path / "t.de").write_text("eins\nzwei\n")
    items = generation("parallel-lines", tmp_path / "t.en", tmp_path / "t.de")
    assert [(item.source, item.references) for item in items] == [
        ("one\n", ("eins",)),
        ("two\n", ("zwei",)),
    ]
    with pytest.raises(SpecError, match="has 1 paths, but reader 'parallel-lines' takes them in"):
        generation("parallel-lines", tmp_path / "t.en")
    (tmp_path / "t.de").write_text("eins\n")
    with pytest.raises(SpecError, match=r"t.en has 2 lines and .*t.de 1"):
        generation("parallel-lines", tmp_path / "t.en", tmp_path / "t.de")


def test_gsm8k_and_squad_have_their_answers_as_references(tmp_path: Path) -> None:
    row = {"question": "1 and 1?", "answer": "<<1+1=2>>\n#### 2"}
    (item,) = generation("gsm8k", lines(tmp_path / "a.jsonl", row))
    assert item.references == (" <<1+1=2>>\n#### 2",)
    answers = [{"text": "Rome", "answer_start": 3}, {"text": "Rome", "answer_start": 3}]
    questions = [
        {"id": "q1", "question": "Where?", "answers": answers},
        {"id": "q2", "question": "When?", "answers": []},
    ]
    article = {"title": "T", "paragraphs": [{"context": "In Rome.", "qas": questions}]}
    (tmp_path / "s.json").write_text(json.dumps({"data": [article]}))
    (item,) = generation("squad", tmp_path / "s.json")
    assert (item.name, item.document, item.references) == ("q1", "T", (" Rome",))
    assert item.source == "In Rome.\nQuestion: Where?\nAnswer:"
    (tmp_path / "s.json").write_text("[]")
    with pytest.raises(SpecError, match="has no list 'data'"):
        generation("squad", tmp_path / "s.json")


WHOLE = [  # archives of one format
    ("blimp", "blimp.tar.xz", 67_000),
    ("lambada", "lambada.tar.xz", 5153),
    ("gsm8k", "gsm8k.tar.xz", 7473 + 1319),
    ("trec", "trec.tar.xz", 4965 + 500 + 500),
]
ADAPTED = "commonsense-llm-adapters.tar.xz"
INSIDE = [  # archives of several, and a file in each
    ("mmlu", "mmlu.tar.xz", "*/test/*.csv", 14_042),
    ("instruction-choices", ADAPTED, "*/ARC-Easy/test.json", 2376),
    ("instruction-choices", ADAPTED, "*/ARC-Challenge/test.json", 1172),
    ("instruction-choices", ADAPTED, "*/openbookqa/test.json", 500),
    ("instruction-choices", ADAPTED, "*/piqa/test.json", 1838),
    ("instruction-choices", ADAPTED, "*/social_i_qa/test.json", 1954),
    ("instruction-choices", ADAPTED, "*/boolq/test.json", 3270),
    ("winogrande", ADAPTED, "*/winogrande/test.json", 1267),
    ("sst2", "sst2-agnews.tar.xz", "*/SST-2/test.tsv", 872),
    ("ag-news", "sst2-agnews.tar.xz", "*/agnews/test.tsv", 7600),
    ("cola", "glue-small.tar.xz", "*/CoLA/dev.tsv", 1043),
    ("rte", "glue-small.tar.xz", "*/RTE/dev.tsv", 277),
    ("e2e", "e2e-nlg.tar.xz", "*/testset_w_refs.csv", 630),
]
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not here")


def n_items(reader: str, *paths: Path) -> int:
    task = load_task({"reader": reader, "paths": list(map(str, paths))})
    if isinstance(task, GenerationTask):
        return len(generation_items(task))
    assert isinstance(task, ChoicesTask | LabelsTask)
    return len(choice_items(task))


def unpack(archive: str, pattern: str, folder: Path) -> list[Path]:
    """The files of an archive that match a pattern."""
    paths: list[Path] = []
    with tarfile.open(SHARED / archive) as tar:
        for entry in tar:
            if entry.isfile() and fnmatch(entry.name, pattern):
                tar.extract(entry, folder, filter="data")
                paths.append(folder / entry.name)
    return paths


@real
@pytest.mark.parametrize(("reader", "archive", "number"), WHOLE)
def test_real_archives_are_read_without_unpacking(reader: str, archive: str, number: int) -> None:
    assert n_items(reader, SHARED / archive) == number


@real
@pytest.mark.parametrize(("reader", "archive", "pattern", "number"), INSIDE)
def test_real_files_have_all_their_items(
    tmp_path: Path, reader: str, archive: str, pattern: str, number: int
) -> None:
    assert n_items(reader, *unpack(archive, pattern, tmp_path)) == number


@real
def test_real_translations_lie_beside_each_other(tmp_path: Path) -> None:
    pattern = "*/raw/test_2016_flickr.[de][en].gz"
    target, source = sorted(unpack("multi30k.tar.xz", pattern, tmp_path))
    items = generation("parallel-lines", source, target)
    assert len(items) == 1000
    assert items[0].source.startswith("A man in an orange hat")
    assert items[0].references[0].startswith("Ein Mann mit einem orangefarbenen Hut")
