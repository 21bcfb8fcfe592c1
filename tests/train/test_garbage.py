"""Before a capture garbage is freed, and what is older than the first look is left out."""

import gc
import weakref

import torch

from paribus.train.compile_turns import CompileTurns
from paribus.train.cuda_graph import CUDAGraphRunner


class Knot:
    """Holds itself, so only the collector frees it."""

    def __init__(self) -> None:
        self.own = self


def test_garbage_is_freed_before_every_capture_and_old_objects_are_looked_at_once() -> None:
    runner = CUDAGraphRunner[None](torch.device("cpu"), False, CompileTurns("a model"))
    knots = [weakref.ref(Knot())]
    runner._collect_garbage()
    n_left_out = gc.get_freeze_count()
    knots.append(weakref.ref(Knot()))
    runner._collect_garbage()
    assert [knot() for knot in knots] == [None, None]
    assert 10_000 < gc.get_freeze_count() <= n_left_out  # some of them may be gone meanwhile
    del runner
    assert gc.get_freeze_count() == 0
