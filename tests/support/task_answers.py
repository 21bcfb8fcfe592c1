"""Answers to a task, made by hand."""

from collections.abc import Sequence

from paribus.record import TaskAnswer, TaskEvaluation, TaskHead

TASK_HEAD = TaskHead(
    task={"name": "pairs"},
    name="pairs",
    measure="accuracy",
    label="likelihood",
    protocol={"kind": "zero-shot"},
    component={},
    step=9,
    weights="",
    window=32,
    items="abc",
    n_items=4,
    n_truncated=0,
    n_left_out=0,
    text="",
    floors={"uniform": 0.5, "majority": 0.52, "length": 0.4},
    summary={},
    environment={},
)


def task_evaluation(*scores: float, documents: Sequence[str] | None = None) -> TaskEvaluation:
    """Items with these scores; without documents, each stands for itself."""
    answers = []
    for number, score in enumerate(scores):
        document = f"d{number}" if documents is None else documents[number]
        answers.append(
            TaskAnswer(
                item=f"i{number}", document=document, score=score, count=1.0, chosen=0, key=0
            )
        )
    return TaskEvaluation(TASK_HEAD, tuple(answers))
