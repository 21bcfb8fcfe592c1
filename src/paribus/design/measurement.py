"""A finished run measured with a yardstick of its design, whatever that asks."""

from __future__ import annotations

from pathlib import Path

import torch

from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.evaluate import evaluate
from paribus.evaluate.head_answers import evaluate_head
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import DesignYardstick, HeadYardstick, TaskYardstick
from paribus.train.parent import Texts


def measure_run(
    folder: Path, run: RunSpec, texts: Texts, yardstick: DesignYardstick, device: torch.device
) -> None:
    """Ask a run's last checkpoint, and keep what it says; what was asked before is not asked
    again.
    """
    if isinstance(yardstick, HeadYardstick):
        objective = run.last.objective
        assert isinstance(objective, TextLabels | WordTags)
        evaluate_head(folder, LabelledCorpus(texts[-1], objective), device, yardstick.split)
    elif not isinstance(yardstick, TaskYardstick):
        n_sequences = run.last.training.n_sequences
        evaluate(folder, yardstick, texts[-1], device=device, n_sequences=n_sequences)
