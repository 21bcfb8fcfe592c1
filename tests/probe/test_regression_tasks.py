"""Documents of regression as numbers, and the ideal learner of them."""

import math

import pytest
import torch

from paribus.corpus.languages.episodes import episode_weights
from paribus.corpus.languages.questions import language_questions
from paribus.probe.in_context import ridge_prediction
from paribus.probe.regression_tasks import (
    RegressionTasks,
    bin_centres,
    known_predictions,
    nearest_bins,
    posterior_nats,
    read_tasks,
    without_outermost,
)
from paribus.spec import RegressionLanguage
from paribus.watcher import Watcher


def drawn_tasks(n_examples: int, n_tasks: int, **fields: object) -> RegressionTasks:
    language = RegressionLanguage.model_validate(
        {"n_documents": n_tasks, "min_length": n_examples, "max_length": n_examples, **fields}
    )
    questions = list(language_questions(language, Watcher()))
    sources = [question.source for question in questions]
    return read_tasks(language, sources, [question.answer for question in questions])


def test_symbols_are_read_as_numbers_by_hand():
    language = RegressionLanguage(n_inputs=2, min_length=1, n_bins=4)  # bins from -5.66 to 5.66
    tasks = read_tasks(language, ["FG=aaa=d//"], ["c"])
    assert tasks.inputs_BKD.flatten().tolist() == pytest.approx([-0.05, 0.05, -3.15, -3.15])
    width = 2 * math.sqrt(2)
    assert tasks.outputs_BK.tolist() == [pytest.approx([-1.5 * width, 1.5 * width])]
    assert tasks.query_BD.tolist() == [pytest.approx([3.15, 3.15])]
    assert tasks.answers_B.tolist() == pytest.approx([0.5 * width])
    assert tasks.ridge == pytest.approx(8 / 12)
    assert nearest_bins(tasks.bins, torch.tensor([-9.0, 0.1])).tolist() == [0, 2]
    inputs, outputs, _ = without_outermost(tasks)  # both values are
    assert not inputs.any()
    assert not outputs.any()


def test_ridge_finds_the_weights_that_a_document_was_drawn_with():
    language = RegressionLanguage(n_documents=50, min_length=16)
    for question in language_questions(language, Watcher()):
        tasks = read_tasks(language, [question.source], [question.answer])
        inputs, outputs, _ = without_outermost(tasks)
        for number, weight in enumerate(episode_weights(language, question.source)[0]):
            axis = torch.eye(4, dtype=torch.float64)[number : number + 1]
            found = ridge_prediction(inputs, outputs, axis, tasks.ridge)
            assert found.item() == pytest.approx(weight, abs=0.25)


def test_no_prediction_lies_beyond_the_bins():
    language = RegressionLanguage(n_inputs=2, min_length=1)
    tasks = read_tasks(language, ["GF=RGF=RGF=R/a"], ["/"])  # a steep slope, and a query far out
    assert ridge_prediction(*without_outermost(tasks), tasks.ridge).item() > 100
    largest = tasks.bins.centre(63)
    assert known_predictions(tasks, tasks)["ridge"].item() == largest < 5.6


def test_without_examples_the_error_is_the_variance_of_the_answers():
    tasks = drawn_tasks(0, 2000)
    predictions = known_predictions(tasks, tasks)
    for predicted_B in predictions.values():
        assert not predicted_B.any()
    assert tasks.answers_B.square().mean().item() == pytest.approx(4, rel=0.2)


def test_learners_come_in_the_order_of_what_they_know():
    errors = {}
    tasks, other_tasks = drawn_tasks(16, 400), drawn_tasks(16, 400, seed=7)
    for name, predicted_B in known_predictions(tasks, other_tasks).items():
        errors[name] = (predicted_B - tasks.answers_B).square().mean().item()
    order = [f"{n} steps of gradient descent" for n in (16, 4, 2)]
    names = ["ridge", *order, "1 step of gradient descent", "mean"]
    assert sorted(errors, key=errors.__getitem__) == names
    assert errors["ridge"] < 0.02  # of 4, with 0.005 for the rounding of the answer alone
    assert errors["mean"] > 3


@pytest.mark.parametrize("n_examples", [2, 3])
def test_the_posterior_is_that_of_weights_that_fit_the_examples(n_examples):
    """Weights are drawn from the prior; those that put every example into its bin are kept."""
    tasks = drawn_tasks(n_examples, 40, n_inputs=2, n_bins=32)
    weights = torch.randn(400_000, 2, generator=torch.Generator().manual_seed(1)).double()
    edges = bin_centres(tasks.bins)[1:] - tasks.bins.width / 2
    nats = []
    for task in range(40):
        points = torch.cat([tasks.inputs_BKD[task], tasks.query_BD[task : task + 1]])
        own = torch.searchsorted(edges, weights @ points.T, right=True)
        seen = torch.searchsorted(edges, tasks.outputs_BK[task], right=True)
        fits = (own[:, :-1] == seen).all(1)
        chance = (own[fits, -1] == tasks.answer_bins_B[task]).double().mean()
        nats.append(-chance.log().item())
    assert posterior_nats(tasks).mean().item() == pytest.approx(sum(nats) / len(nats), rel=0.15)
