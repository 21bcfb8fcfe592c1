"""Learning from examples in the context: planted learners, real layouts, and what is refused."""

from pathlib import Path

import pytest
import torch
from probed_checkpoint import probed_checkpoint

from paribus.corpus.languages.episodes import read_episode
from paribus.corpus.languages.questions import AnsweredQuestion, language_questions
from paribus.corpus.tokenizer import train_tokenizer
from paribus.errors import SpecError, UnsupportedError
from paribus.probe.demonstrations import (
    SymbolAnswers,
    demonstration_rows,
    new_questions,
    regression_values,
    with_demonstrations,
)
from paribus.probe.item_answers import ItemReader, token_answers
from paribus.probe.regression_tasks import known_predictions, nearest_bins, read_tasks
from paribus.record.probe_rows import ProbeRow
from paribus.spec import BPETokenizer, ClassificationLanguage, RegressionLanguage
from paribus.watcher import Watcher

REGRESSION = {"kind": "regression", "max_length": 3, "n_documents": 50}
CLASSIFICATION = {"kind": "classification", "max_length": 3, "n_documents": 50}


def rows_by_key(rows: list[ProbeRow]) -> dict[tuple[str, str, float | None], float]:
    return {(row.quantity, row.variant, row.x): row.value for row in rows}


def test_ridge_as_the_model_is_told_from_the_others():
    language = RegressionLanguage(max_length=8)
    questions = new_questions(language, 300)
    sources, symbols = zip(*((one.source, one.answer) for one in questions), strict=True)
    tasks = read_tasks(language, sources[:150], symbols[:150])
    others = read_tasks(language, sources[150:], symbols[150:])
    ridge = known_predictions(tasks, others)["ridge"]
    sure = torch.nn.functional.one_hot(nearest_bins(tasks.bins, ridge), 64).double()
    answers = SymbolAnswers((sure + 1e-9).log().log_softmax(1), tasks.answer_bins_B)
    values = {}
    for quantity, variant, items in regression_values(answers, tasks, others):
        values[quantity, variant] = items.double().mean().item()
    assert values["squared difference", "ridge"] < 0.02  # a bin's rounding: 0.25² / 12 = 0.005
    others_apart = [
        value
        for (quantity, variant), value in values.items()
        if quantity == "squared difference" and variant != "ridge"
    ]
    assert min(others_apart) > 0.05
    assert values["squared error", ""] == pytest.approx(values["squared error", "ridge"], abs=0.02)
    assert values["accuracy", "ridge"] == pytest.approx(answers.is_right_B.double().mean().item())


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "t5"])
def test_rows_of_every_layout(preset: str, tmp_path: Path) -> None:
    checkpoint, model = probed_checkpoint(tmp_path, preset, REGRESSION)
    rows = list(demonstration_rows(checkpoint, model, n_items=7))
    assert {row.x for row in rows} == {0, 1, 2, 3}
    assert {row.n for row in rows} == {7}
    found = rows_by_key(rows)
    assert 0 < found["mass of symbols", "", 3.0] < 1
    reader = ItemReader.of(checkpoint, model)
    questions = new_questions(RegressionLanguage.model_validate(REGRESSION), 14)[:7]
    items = [reader.lay(one.question, one.answer) for one in questions]
    nats = [answer.nats_M.item() for answer in token_answers(reader, items)]
    assert found["nats", "", 3.0] == pytest.approx(sum(nats) / 7, rel=1e-5)


def test_labels_have_learners_of_their_own(tmp_path: Path) -> None:
    checkpoint, model = probed_checkpoint(tmp_path, "gpt2", CLASSIFICATION)
    language = ClassificationLanguage(max_length=16, min_length=16)
    with pytest.raises(UnsupportedError, match="does not fit the window of 61"):
        list(demonstration_rows(checkpoint, model, language))
    found = rows_by_key(list(demonstration_rows(checkpoint, model, n_items=200)))
    assert ("accuracy", "nearest example", 0.0) not in found  # there is no label to choose
    frequent, nearest = (
        found["accuracy", variant, 3.0] for variant in ("most frequent label", "nearest example")
    )
    assert 0.4 < frequent < nearest < 0.9


def test_questions_are_new_ones_of_the_same_language():
    language = RegressionLanguage(n_documents=400, min_length=2, max_length=2)
    trained = {question.source for question in language_questions(language, Watcher())}
    questions = new_questions(language, 200)
    assert len(questions) == 200
    assert not trained & {question.source for question in questions}
    assert {len(read_episode(language, one.source).values) for one in questions} == {2}


def test_fewer_demonstrations_leave_the_last_ones_and_the_query():
    language = RegressionLanguage(n_inputs=2, min_length=1, phrasings=("at {source}:",))
    question = AnsweredQuestion("ab=Xcd=Yef", "at ab=Xcd=Yef:", "Z", ())
    sources = []
    for n_demonstrations in (0, 1, 2):
        short = with_demonstrations(language, question, n_demonstrations)
        assert short.question == f"at {short.source}:"
        assert short.answer == "Z"
        sources.append(short.source)
    assert sources == ["ef", "cd=Yef", "ab=Xcd=Yef"]


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="was not last trained on 'regression' or 'classif"):
        list(demonstration_rows(*probed_checkpoint(tmp_path, "gpt2", {"kind": "copy"})))
    checkpoint, model = probed_checkpoint(tmp_path, "gpt2", REGRESSION)
    with pytest.raises(SpecError, match="n_items is 0; ask for at least 1 document"):
        list(demonstration_rows(checkpoint, model, n_items=0))


def test_a_tokenizer_that_joins_symbols_is_refused(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(BPETokenizer(n_vocab=257), ["FFFF"])
    assert len(tokenizer.encode("FF")) == 1
    checkpoint, model = probed_checkpoint(tmp_path, "gpt2", REGRESSION, tokenizer=tokenizer)
    with pytest.raises(UnsupportedError, match=r"tokens of the \d+ symbols .* must be one token"):
        list(demonstration_rows(checkpoint, model))
