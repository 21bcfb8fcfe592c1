"""Formats of published tasks, each as rows with the columns that `paribus.spec.task_readers` names.

Every reader takes an open file and gives rows with their place in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.tasks.rows import (
    TaskRow,
    file_rows,
    flat_values,
    parse_json,
    table_rows,
    text_lines,
    whole_json,
)
from paribus.errors import SpecError

Reader = Callable[[ArchiveMember], Iterator[TaskRow]]
_INSTRUCTION = re.compile(
    r"^Please (?:choose the correct (?:answer|solution) to the question|answer the following"
    r" question with true or false, question|choose the correct answer to fill in the blank to"
    r" complete the given sentence): ?",
)
_FORMAT = re.compile(r"\s*Answer format: *(\S.*?)\s*$", re.DOTALL)
_BLANK = "_"
_TREC_FINE = frozenset(
    re.findall(
        r"\w+",
        "abb exp animal body color cremat currency dismed event food instru lang letter "
        "other plant product religion sport substance symbol techmeth termeq veh word def "
        "desc manner reason gr ind title city country mount state code count date dist "
        "money ord perc period speed temp volsize weight ",
    )
)
_AG_NEWS_TOPICS = ("World", "Sports", "Business", "Sci/Tech")


def read_lambada(member: ArchiveMember) -> Iterator[TaskRow]:
    """A passage without its last word, and that word."""
    for number, (where, text) in enumerate(text_lines(member), 1):
        if not text.strip():
            continue
        passage = parse_json(text, where).get("text")
        if not isinstance(passage, str):
            raise SpecError(f"{where} has no 'text'; write one passage per line under that key")
        context, space, word = passage.rpartition(" ")
        if not space or not word.strip() or not context.strip():
            raise SpecError(f"{where} has a text without a last word after a space; leave it out")
        yield TaskRow(where, {"context": context, "word": word, "id": f"{_stem(member)}-{number}"})


def read_mmlu(member: ArchiveMember) -> Iterator[TaskRow]:
    """A question, its four options and the number of the right one, under a header or without."""
    subject = re.sub(r"_(dev|val|test)$", "", _stem(member))
    names = ("question", "choice0", "choice1", "choice2", "choice3", "answer")
    for number, row in enumerate(table_rows(member, tab=False, header=names), 1):
        answer = str(row.values["answer"])
        if number == 1 and answer == "answer":
            continue
        if answer in "ABCD" and len(answer) == 1:
            answer = str("ABCD".index(answer))
        options = tuple(str(row.values[name]) for name in names[1:5])
        values = {"question": str(row.values["question"]), "options": options, "key": answer}
        yield TaskRow(row.where, {**values, "subject": subject, "id": f"{_stem(member)}-{number}"})


def read_instruction_choices(member: ArchiveMember) -> Iterator[TaskRow]:
    """A question and its options out of an instruction that names them."""
    for where, table in _objects(member):
        question, options, key = _parse_instruction(table, where)
        name = f"{_folder(member)}{_stem(member)}-{where.rpartition(' ')[2]}"
        yield TaskRow(where, {"question": question, "options": options, "key": key, "id": name})


def read_winogrande(member: ArchiveMember) -> Iterator[TaskRow]:
    """A sentence with each filler in its blank, and the number of the right one."""
    for where, table in _objects(member):
        if "instruction" in table:
            sentence, fillers, key = _parse_instruction(table, where)
        else:
            values = flat_values(table, where)
            sentence = str(_value(values, "sentence", where))
            fillers = tuple(str(_value(values, f"option{n}", where)) for n in (1, 2))
            answer = str(_value(values, "answer", where))
            if answer not in ("1", "2"):
                raise SpecError(f"{where} has answer {answer!r}; use '1' or '2'")
            key = str(int(answer) - 1)
        if sentence.count(_BLANK) != 1:
            raise SpecError(
                f"{where} has {sentence.count(_BLANK)} blanks {_BLANK!r}; write one blank"
            )
        name = f"{_folder(member)}{_stem(member)}-{where.rpartition(' ')[2]}"
        options = tuple(sentence.replace(_BLANK, filler) for filler in fillers)
        yield TaskRow(where, {"sentence": sentence, "options": options, "key": key, "id": name})


def read_arc(member: ArchiveMember) -> Iterator[TaskRow]:
    """ARC's own lines: options with labels, and the label of the right one."""
    for where, text in text_lines(member):
        if not text.strip():
            continue
        values = flat_values(parse_json(text, where), where)
        stem = "question.stem" if "question.stem" in values else "question"
        prefix = "question.choices" if "question.choices.text" in values else "choices"
        labels = _value(values, f"{prefix}.label", where)
        answer = str(_value(values, "answerKey", where))
        if answer not in labels:
            raise SpecError(f"{where} has answerKey {answer!r}; use one of {', '.join(labels)}")
        yield TaskRow(
            where,
            {
                "question": _value(values, stem, where),
                "options": _value(values, f"{prefix}.text", where),
                "key": str(list(labels).index(answer)),
                "id": _value(values, "id", where),
            },
        )


def read_sst2(member: ArchiveMember) -> Iterator[TaskRow]:
    """Sentence and label under a header."""
    for number, row in enumerate(table_rows(member, tab=True), 1):
        text = str(_value(row.values, "sentence", row.where)).strip()
        label = _value(row.values, "label", row.where)
        yield TaskRow(row.where, {"text": text, "label": label, "id": f"{_stem(member)}-{number}"})


def read_cola(member: ArchiveMember) -> Iterator[TaskRow]:
    """Source, label, the author's own mark, sentence; no header."""
    header = ("source", "label", "mark", "text")
    for number, row in enumerate(table_rows(member, tab=True, header=header), 1):
        yield TaskRow(row.where, {**row.values, "id": f"{_stem(member)}-{number}"})


def read_rte(member: ArchiveMember) -> Iterator[TaskRow]:
    """Index, two sentences and a label, under a header or without."""
    header = ("index", "text", "second", "label")
    for row in table_rows(member, tab=True, header=header):
        if row.values["index"] != "index":
            name = f"{_stem(member)}-{row.values['index']}"
            yield TaskRow(row.where, {**row.values, "id": name})


def read_ag_news(member: ArchiveMember) -> Iterator[TaskRow]:
    """Text and topic by tabs, or the original's number of the topic, title and text by commas."""
    if member.suffix == ".tsv":
        rows = table_rows(member, tab=True, header=("text", "label"))
    else:
        rows = table_rows(member, tab=False, header=("topic", "title", "body"))
    for number, row in enumerate(rows, 1):
        values = dict(row.values)
        if "topic" in values:
            topic = str(values["topic"])
            if topic not in ("1", "2", "3", "4"):
                raise SpecError(f"{row.where} has topic {topic!r}; use 1, 2, 3 or 4")
            values["label"] = _AG_NEWS_TOPICS[int(topic) - 1]
            values["text"] = f"{values['title']} {values['body']}"
        yield TaskRow(row.where, {**values, "id": f"{_stem(member)}-{number}"})


def read_trec(member: ArchiveMember) -> Iterator[TaskRow]:
    """`LOC:city What county …`, or `LOC:where are …` where the fine type was taken out; the
    published files are Latin-1.
    """
    for number, (where, text) in enumerate(text_lines(member, "latin-1"), 1):
        if not text.strip():
            continue
        label, colon, rest = text.partition(":")
        if not colon:
            raise SpecError(f"{where} has no ':' after its type; write TYPE:fine question")
        fine, _, question = rest.partition(" ")
        if fine not in _TREC_FINE:
            fine, question = "", rest
        if not question.strip():
            raise SpecError(f"{where} has no question after its type; write TYPE:fine question")
        values = {"text": question.strip(), "label": label, "fine": fine}
        yield TaskRow(where, {**values, "id": f"{_stem(member)}-{number}"})


def read_squad(member: ArchiveMember) -> Iterator[TaskRow]:
    """Each question that has an answer."""
    data = whole_json(member)
    if not isinstance(data, dict) or not isinstance(data.get("data"), list):
        raise SpecError(f"{member.where} has no list 'data'; give SQuAD's JSON")
    for a, article in enumerate(data["data"]):
        for p, paragraph in enumerate(article.get("paragraphs", ())):
            for q, question in enumerate(paragraph.get("qas", ())):
                where = f"{member.where} data.{a}.paragraphs.{p}.qas.{q}"
                values = flat_values(question, where)
                answers = values.get("answers.text", ())
                if answers:
                    yield TaskRow(
                        where,
                        {
                            "title": str(article.get("title", a)),
                            "passage": str(paragraph.get("context", "")),
                            "question": _value(values, "question", where),
                            "answers": tuple(dict.fromkeys(answers)),
                            "id": _value(values, "id", where),
                        },
                    )


def read_conll(member: ArchiveMember) -> Iterator[TaskRow]:
    """Sentences of words, the tag of each in the last column."""
    words: list[str] = []
    tags: list[str] = []
    first = ""
    for where, text in text_lines(member):
        if not text.strip() or text.startswith("-DOCSTART-"):
            if words:
                yield TaskRow(first, {"words": tuple(words), "tags": tuple(tags)})
            words, tags = [], []
            continue
        columns = text.split("\t") if "\t" in text else text.split()
        if len(columns) < 2:
            raise SpecError(f"{where} has one column; write a word and its tag")
        first = first if words else where
        words.append(columns[0])
        tags.append(columns[-1].strip())
    if words:
        yield TaskRow(first, {"words": tuple(words), "tags": tuple(tags)})


READER_FUNCTIONS: dict[str, Reader] = {
    "blimp": file_rows,
    "lambada": read_lambada,
    "mmlu": read_mmlu,
    "instruction-choices": read_instruction_choices,
    "arc": read_arc,
    "winogrande": read_winogrande,
    "sst2": read_sst2,
    "cola": read_cola,
    "rte": read_rte,
    "ag-news": read_ag_news,
    "trec": read_trec,
    "e2e": file_rows,
    "gsm8k": file_rows,
    "squad": read_squad,
    "conll": read_conll,
}


def _objects(member: ArchiveMember) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list in .json, or of lines of .jsonl."""
    if member.suffix == ".jsonl":
        for where, text in text_lines(member):
            if text.strip():
                yield where, parse_json(text, where)
        return
    data = whole_json(member)
    if not isinstance(data, list):
        raise SpecError(f"{member.where} holds no list; give a list of objects")
    for number, table in enumerate(data, 1):
        where = f"{member.where} item {number}"
        if not isinstance(table, dict):
            raise SpecError(f"{where} is no object; give a list of objects")
        yield where, table


def _parse_instruction(table: dict[str, Any], where: str) -> tuple[str, tuple[str, ...], str]:
    """The question, its options and the index of the right one."""
    instruction, answer = table.get("instruction"), table.get("answer")
    if not isinstance(instruction, str) or not isinstance(answer, str):
        raise SpecError(f"{where} has no 'instruction' and 'answer' as text; give both")
    form = _FORMAT.search(instruction)
    if form is None:
        raise SpecError(f"{where} has an instruction without 'Answer format:'; give the whole one")
    names = [name.strip() for name in form[1].split("/")]
    body = _INSTRUCTION.sub("", instruction[: form.start()])
    if names == ["true", "false"]:
        question, options = body.strip(), ("true", "false")
    else:
        question, options = _parse_options(body, answer, where)
        names = [f"{answer.rstrip('0123456789')}{n}" for n in range(1, len(options) + 1)]
    if answer not in names:
        raise SpecError(f"{where} has answer {answer!r}; use one of {', '.join(names)}")
    return question, options, str(names.index(answer))


def _parse_options(body: str, answer: str, where: str) -> tuple[str, tuple[str, ...]]:
    """What stands before `Answer1:` and after each such name; the names must be numbered from 1.

    An option may hold such a name itself: the next one is looked for behind the last.
    """
    word = answer.rstrip("0123456789").capitalize()
    places: list[tuple[int, int]] = []
    begin = 0
    while True:
        mark = f"{word}{len(places) + 1}:"
        at = body.find(mark, begin)
        if at < 0:
            break
        places.append((at, at + len(mark)))
        begin = at + len(mark)
    if len(places) < 2:
        raise SpecError(f"{where} names {len(places)} options; it needs {word}1: and {word}2:")
    ends = [at for at, _ in places[1:]] + [len(body)]
    options: list[str] = []
    for (_, first), last in zip(places, ends, strict=True):
        options.append(body[first:last].strip())
    return body[: places[0][0]].strip(), tuple(options)


def _value(values: Any, column: str, where: str) -> Any:
    if column not in values:
        there = ", ".join(values) or "none"
        raise SpecError(f"{where} has no column {column!r}; its columns are {there}")
    return values[column]


def _stem(member: ArchiveMember) -> str:
    """The name of a file without its ending."""
    return PurePath(member.where.rpartition(":")[2]).name.partition(".")[0]


def _folder(member: ArchiveMember) -> str:
    """The name of a file's folder, where files of several tasks have one name."""
    name = PurePath(member.where.rpartition(":")[2]).parent.name
    if name:
        return f"{name}/"
    return ""
