"""Questions of invented languages: held out as in a corpus, with one right option among four."""

import pytest

from paribus.corpus import language_answer
from paribus.corpus.documents import Document
from paribus.corpus.languages.questions import language_documents
from paribus.corpus.splits import piece_digests, split_digest, split_of
from paribus.corpus.tasks import choice_items, task_rows
from paribus.spec.task_loading import LANGUAGES, load_task
from paribus.spec.tasks import ChoicesTask
from paribus.watcher import Watcher


@pytest.mark.parametrize("kind", LANGUAGES)
def test_a_question_has_one_right_option_and_is_held_out(kind: str) -> None:
    task = load_task(f"{kind}-choices", {"language.n_documents": 1500})
    assert isinstance(task, ChoicesTask)
    assert task.language is not None
    (language,) = task.language
    items = choice_items(task)
    assert len(items) > 20
    for item in items:
        answer = language_answer(language, item.context)
        assert [option == answer for option in item.options].index(True) == item.key
        assert len(set(item.options)) == len(item.options) == 4
        digest = piece_digests(Document(item.context.encode()))[0]
        assert split_of(digest, 0.05, 0.05) == "test"
    assert len({item.key for item in items}) == 4


def test_demonstrations_are_other_questions() -> None:
    task = load_task("recall", {"language.n_documents": 1000})
    questions = {}
    for split in ("train", "test"):
        questions[split] = {row.values["question"] for row in task_rows(task, split)}
    assert questions["train"]
    assert not questions["train"] & questions["test"]


@pytest.mark.parametrize("form", ["pairs", "text", "conversations", "preferences"])
def test_questions_are_held_out_as_in_a_corpus_of_the_same_form(form: str) -> None:
    task = load_task("reverse", {"language.n_documents": 400, "language.form": form})
    assert task.language is not None
    (language,) = task.language
    held_out = set()
    for document in language_documents(language, Watcher()):
        if split_of(split_digest(document), 0.05, 0.05) == "test":
            held_out.add(document.pieces[0])
    rows = list(task_rows(task, "test"))
    assert len(rows) == len(held_out) > 10
    for row in rows:
        question = str(row.values["question"]).encode()
        assert any(question in source for source in held_out)


def test_several_languages_are_one_task_and_each_question_is_in_one_of_its_phrasings() -> None:
    languages = [
        {"kind": "recall", "n_documents": 500, "phrasings": ["look up {source}:"]},
        {"kind": "linear", "n_documents": 500},
    ]
    task = load_task({"kind": "choices", "language": languages})
    rows = list(task_rows(task))
    questions = {"recall": [], "linear": []}
    for row in rows:
        questions[row.values["language"]].append(row.values["question"])
    assert len(questions["recall"]) > 10
    assert len(questions["linear"]) > 10
    assert all(one.startswith("look up ") and one[-1] == ":" for one in questions["recall"])
    assert all(one.endswith(">=") for one in questions["linear"])


def test_a_source_that_is_asked_is_in_no_training_text_of_another_phrasing() -> None:
    table = {"kind": "arithmetic", "n_documents": 3000}
    asked = load_task({"language": {**table, "phrasings": ["what is {source}?"]}})
    trained = load_task({"language": {**table, "form": "conversations"}})
    sources = {row.values["question"][8:-1] for row in task_rows(asked)}
    others = {row.values["question"][:-1] for row in task_rows(trained, "train")}
    assert len(sources) > 50
    assert not sources & others
