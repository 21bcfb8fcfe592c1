"""Steps replayed from CUDA graphs, whatever garbage the launched ones have left."""

import gc
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from paribus.batch import Batch, BatchLayout
from paribus.objectives import Problem
from paribus.train.compile_turns import CompileTurns
from paribus.train.cuda_graph import WARMUP_STEPS, CUDAGraphRunner

pytestmark = pytest.mark.gpu


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def problem(value: int) -> Problem:
    tokens_BT = torch.full((2, 4), value)
    return Problem(
        inputs=Batch(tokens_BT, BatchLayout(2, 4)),
        scored_positions_BM=tokens_BT,
        targets_BM=tokens_BT,
        weights_BM=torch.ones(2, 4),
        target_positions_BM=tokens_BT,
    )


@pytest.mark.usefixtures("no_collector")
def test_a_step_is_captured_though_graphs_of_earlier_ones_wait_for_the_collector() -> None:
    device = torch.device("cuda")
    weight = torch.ones(4, device=device, requires_grad=True)

    def step(micro_batches: Sequence[Problem]) -> Tensor:
        loss = (weight * micro_batches[0].inputs.tokens_BT).sum()
        loss.backward()
        garbage: list[object] = [loss]
        garbage.append(garbage)  # a cycle: only the collector frees the graph of this loss
        assert weight.grad is not None
        return weight.grad

    runner = CUDAGraphRunner[Tensor](device, captures=True, turns=CompileTurns("a model"))
    weight.grad = torch.zeros_like(weight)
    for value in range(1, WARMUP_STEPS + 4):
        weight.grad.zero_()
        gradient = runner(step, [problem(value)])
        assert gradient.tolist() == [2 * value] * 4
    assert len(runner.graphs) == 1
    assert runner.clock.seconds > 0  # of the capture
