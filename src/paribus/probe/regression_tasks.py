"""Documents of the language `regression` as numbers, and what known learners predict for them.

B documents with K examples of D inputs each. A value is the centre of its bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.corpus.languages.episodes import BinGrid, input_numbers, read_episode, value_bins
from paribus.probe.in_context import (
    descent_prediction,
    fit_rate,
    mean_prediction,
    ridge_prediction,
)
from paribus.spec.languages import VALUE_SYMBOLS, RegressionLanguage
from paribus.spec.probe_variants import DESCENT_STEPS, MEAN, RIDGE, descent_learner

SMALLEST_PROBABILITY = 1e-12  # of a bin, before its logarithm is taken


@dataclass(frozen=True, eq=False)
class RegressionTasks:
    """Examples, queries, and the bins of the values at the queries."""

    language: RegressionLanguage
    inputs_BKD: Tensor
    outputs_BK: Tensor
    query_BD: Tensor
    answer_bins_B: Tensor

    @property
    def bins(self) -> BinGrid:
        return value_bins(self.language)

    @property
    def ridge(self) -> float:
        """The variance of what is added to w·x: the noise, and the rounding to a bin as if it
        were uniform noise, width² / 12.
        """
        return self.language.noise**2 + self.bins.width**2 / 12

    @property
    def answers_B(self) -> Tensor:
        return bin_centres(self.bins)[self.answer_bins_B]


def read_tasks(
    language: RegressionLanguage, sources: Sequence[str], answers: Sequence[str]
) -> RegressionTasks:
    """Sources with equally many examples, and their answers, as numbers."""
    episodes = [read_episode(language, source) for source in sources]
    inputs = [[input_numbers(language, x) for x in episode.inputs] for episode in episodes]
    output_bins = [[VALUE_SYMBOLS.index(y) for y in episode.values] for episode in episodes]
    queries = [input_numbers(language, episode.query) for episode in episodes]
    shape = (len(episodes), len(episodes[0].inputs))
    outputs = bin_centres(value_bins(language))[torch.tensor(output_bins, dtype=torch.int64)]
    return RegressionTasks(
        language=language,
        inputs_BKD=torch.tensor(inputs, dtype=torch.float64).view(*shape, language.n_inputs),
        outputs_BK=outputs.view(shape),
        query_BD=torch.tensor(queries, dtype=torch.float64),
        answer_bins_B=torch.tensor([VALUE_SYMBOLS.index(answer) for answer in answers]),
    )


def bin_centres(bins: BinGrid) -> Tensor:
    """The value that stands for each bin, [n_bins]."""
    return torch.tensor([bins.centre(index) for index in range(bins.n_bins)], dtype=torch.float64)


def nearest_bins(bins: BinGrid, values_B: Tensor) -> Tensor:
    """The bin that each value is in."""
    return torch.tensor([bins.index(value) for value in values_B.tolist()])


def without_outermost(tasks: RegressionTasks) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, outputs and queries, with zeros for examples whose value lies in an outermost bin:
    nobody knows how large it is.
    """
    is_inner_BK = tasks.outputs_BK.abs() < tasks.bins.limit - tasks.bins.width
    outputs_BK = tasks.outputs_BK * is_inner_BK
    return tasks.inputs_BKD * is_inner_BK[..., None], outputs_BK, tasks.query_BD


def known_predictions(tasks: RegressionTasks, other_tasks: RegressionTasks) -> dict[str, Tensor]:
    """What each known learner predicts at the queries, [B] each, within the centres of the bins.

    The rates of gradient descent are those that do best on other tasks with as many examples.
    """
    seen, others = without_outermost(tasks), without_outermost(other_tasks)
    predictions = {RIDGE: ridge_prediction(*seen, tasks.ridge), MEAN: mean_prediction(*seen)}
    for n_steps in DESCENT_STEPS:
        rate = fit_rate(*others, other_tasks.answers_B, n_steps)
        predictions[descent_learner(n_steps)] = descent_prediction(*seen, n_steps, rate)
    largest = tasks.bins.centre(tasks.bins.n_bins - 1)
    return {name: one.clamp(-largest, largest) for name, one in predictions.items()}


def posterior_nats(tasks: RegressionTasks) -> Tensor:
    """-ln p of each answer's bin under the posterior N(x·ŵ, ridge · xᵀ(XᵀX + ridge · I)⁻¹x +
    noise²), [B]. Rounding is taken for Gaussian noise, so it is nearly what the ideal learner pays.
    """
    inputs, outputs, query = without_outermost(tasks)
    gram = inputs.mT @ inputs + tasks.ridge * torch.eye(inputs.shape[-1], dtype=inputs.dtype)
    solved = torch.linalg.solve(gram, query[..., None])[..., 0]
    variance_B = tasks.ridge * (query * solved).sum(-1) + tasks.language.noise**2
    mean_B = ridge_prediction(inputs, outputs, query, tasks.ridge)
    edges = bin_centres(tasks.bins)[1:] - tasks.bins.width / 2
    below = torch.special.ndtr((edges - mean_B[:, None]) / variance_B.sqrt()[:, None])
    below = F.pad(F.pad(below, (1, 0), value=0.0), (0, 1), value=1.0)
    chances = below.diff().gather(1, tasks.answer_bins_B[:, None])[:, 0]
    return -chances.clamp_min(SMALLEST_PROBABILITY).log()
