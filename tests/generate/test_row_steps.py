"""An engine replays recorded steps where its rows lie place by place, and reads them itself
elsewhere.
"""

import pytest
from byte_models import VOCABULARY, byte_model
from engine_requests import BUDGET, TEXTS, answer_alone, drain, request_of, tokens_of
from torch import Tensor

from paribus.generate import Engine, Sampling, row_steps
from paribus.generate.row_steps import RowSteps
from paribus.objectives.framing import plain_layout

WINDOW = 160


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each step that could be recorded, whether it was."""
    found: list[bool] = []

    def note(steps: RowSteps, tokens: list[int]) -> Tensor | None:
        logits_BV = original(steps, tokens)
        found.append(logits_BV is not None)
        return logits_BV

    original = RowSteps.logits
    monkeypatch.setattr(RowSteps, "logits", note)
    return found


def require_answers_as_alone(preset: str, mask: str | None, n_tokens: int) -> None:
    changes = {} if mask is None else {"mask": mask}
    model = byte_model(preset, WINDOW, changes)
    layout = plain_layout(model.spec, VOCABULARY, WINDOW, context_is_prefix=mask is None)
    engine = Engine(model, BUDGET, max_rows=3)
    handles = []
    for number, text in enumerate(TEXTS):
        sampling = Sampling(n_tokens=n_tokens + number, temperature=1.0, seed=number)
        handles.append(engine.submit(request_of(layout, text, sampling)))
    drain(engine)
    for handle in handles:
        assert tokens_of(handle) == answer_alone(model, handle.request)


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "t5"])
def test_recorded_steps_say_what_is_said_alone(
    preset: str, recorded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_steps, "MIN_TOKENS", 2)
    require_answers_as_alone(preset, None, n_tokens=20)
    assert not any(recorded[:2])
    assert all(recorded[3:])


def test_rows_that_use_slots_again_are_read_without_a_recording(
    recorded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_steps, "MIN_TOKENS", 0)
    require_answers_as_alone("gpt2", "window(5)", n_tokens=100)
    assert recorded[0]
    assert not all(recorded)


def test_a_few_steps_are_not_recorded(recorded: list[bool]) -> None:
    require_answers_as_alone("gpt2", None, n_tokens=2)
    assert recorded
    assert not any(recorded)
