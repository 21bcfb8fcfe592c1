"""What a loader hands to a model: where positions begin anew, and where they go on."""

from pathlib import Path

import torch

from paribus.corpus import prepare_corpus
from paribus.objectives import Problem, reads_on, separates_documents
from paribus.objectives.problem_layout import document_positions
from paribus.spec import resolve
from paribus.spec.run import load_run
from paribus.train.loader import ProblemLoader

TABLE = {
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 300}], "valid": 0.2},
    "objective": "prefix",
    "training": {"n_steps": 10, "n_sequences": 4, "length": 61},
}


def first_problem(cache: Path, preset: str, changes: dict[str, str]) -> Problem:
    run = load_run({**TABLE, "architecture": {"preset": preset} | changes})
    spec = resolve(run.architecture)
    corpus = prepare_corpus(run.stages[0].corpus, cache, show_progress=False)
    loader = ProblemLoader(
        dataset=corpus,
        stage=run.stages[0],
        has_encoder=spec.encoder is not None,
        separates_documents=separates_documents(spec),
        reads_on=reads_on(spec),
    )
    return loader.problems_at(0)[0]


def test_turns_are_encoded_alone_and_answers_are_one_sequence(
    tmp_path: Path,
) -> None:
    inputs = first_problem(tmp_path, "encdec-turns", {}).inputs
    assert inputs.source is not None
    source, text = inputs.source.layout, inputs.layout
    assert source.documents_BT is not None
    assert text.documents_BT is not None
    assert int(source.documents_BT.max()) > 0
    assert source.positions_BT is not None
    assert torch.equal(source.positions_BT, document_positions(source.documents_BT))
    assert text.positions_BT is None


def test_a_text_that_keeps_documents_apart_begins_anew_in_each(tmp_path: Path) -> None:
    changes = {"mask": "causal & same_document"}
    for preset in ("t5", "encdec-turns"):
        layout = first_problem(tmp_path, preset, changes).inputs.layout
        assert layout.documents_BT is not None
        assert layout.positions_BT is not None
        assert torch.equal(layout.positions_BT, document_positions(layout.documents_BT))
