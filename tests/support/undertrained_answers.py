"""Answers on disk as of a model that did not train."""

from dataclasses import replace

from paribus.record import Study, evaluation_path, read_evaluations, write_evaluation


def below_unigrams(study: Study, arm: str, *seeds: int) -> None:
    """Answers on disk that cost more than the unigram model's."""
    for cell in study.read_cells():
        if (cell.arm, cell.seed) in {(arm, seed) for seed in seeds}:
            found = next(iter(read_evaluations(study.root / cell.run)))
            path = evaluation_path(study.root / cell.run, found.head.yardstick, found.head.items)
            write_evaluation(path, replace(found, head=replace(found.head, unigram_nats=0.0)))
