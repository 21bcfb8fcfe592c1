"""An engine cannot be told from a model that answers each request alone, from its beginning: in
random conversations that share steps, blocks and a budget, every token has the log-probability that
one fresh pass gives it.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from byte_models import VOCABULARY, byte_model
from cross_forms import CROSS_FORMS
from tiny_model import PRESETS

from paribus.errors import UnsupportedError
from paribus.generate import AnswerHandle, Engine, Sampling, TokenRequest, can_generate, row_steps
from paribus.generate.answer_batch import answer_batch
from paribus.generate.choosing import RowStream
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, plain_layout

WINDOW, N_CONVERSATIONS, N_TURNS = 83, 3, 3
MASKS = [
    "window(7)",
    "prefix & window(9)",
    "by_head(causal, window(3))",
    "alternate(causal, window(5))",
    "by_layer(prefix, causal)",
    "by_head(prefix, causal & strided(2))",
    "causal & same_side",
    "window(3) | (causal & strided(4))",
]


@dataclass
class Conversation:
    """Tokens so far, and the turn that is being answered."""

    tokens: Ids
    salt: bytes
    handle: AnswerHandle | None = None
    n_turns: int = 0


def fresh_logprobs(model: Transformer, layout: ItemLayout, inputs: Ids, said: Ids) -> list[float]:
    """The log-probability of each token of an answer, from one pass over all of it."""
    answer = torch.tensor([[*layout.opening, *said[:-1]]], dtype=torch.int64).view(1, -1)
    batch = answer_batch(layout, torch.tensor([inputs]), None, answer)
    states_BTD = model.hidden_states(batch).states_BTD[:, -len(said) :]
    logprobs_TV = model.logits(states_BTD).float().log_softmax(-1)[0]
    return logprobs_TV[torch.arange(len(said)), torch.tensor(said)].tolist()


def submit_turn(engine: Engine, layout: ItemLayout, one: Conversation, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if rng.random() < 0.7:  # else the same turn is answered once more
        one.tokens = (*one.tokens, *rng.integers(97, 103, int(rng.integers(1, 20))).tolist())
    temperature = float(rng.choice([0.0, 1.0]))
    n_tokens = int(rng.integers(1, 8))
    request = TokenRequest(
        inputs=one.tokens,
        layout=layout,
        sampling=Sampling(n_tokens=n_tokens, temperature=temperature, n_logprobs=0),
        stream=RowStream(seed),
        salt=one.salt,
    )
    one.handle, one.n_turns = engine.submit(request), one.n_turns + 1


def record_steps(monkeypatch: pytest.MonkeyPatch, from_first: bool) -> None:
    """Let an engine record its steps from the first on, or none."""
    monkeypatch.setattr(row_steps, "MIN_TOKENS", 0 if from_first else 10**6)
    monkeypatch.setattr(row_steps, "SLOTS_READ", 5)


@torch.no_grad()
def require_invisible(model: Transformer, layout: ItemLayout, seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = Engine(
        model,
        int(rng.choice([0, 30_000, 2**20])),
        max_rows=int(rng.integers(1, N_CONVERSATIONS + 1)),
        chunk=int(rng.choice([3, 16, 40])),
    )
    salts = [b"", b"", b"salt"]
    conversations = [Conversation((97, 98), salt) for salt in salts]
    n_steps = 0
    while any(one.n_turns < N_TURNS or one.handle is not None for one in conversations):
        for number, one in enumerate(conversations):
            if one.handle is None and one.n_turns < N_TURNS and rng.random() < 0.5:
                submit_turn(engine, layout, one, 100 * seed + 10 * number + one.n_turns)
        engine.step()
        n_steps += 1
        assert n_steps < 1000
        for one in conversations:
            if one.handle is None or one.handle.finish_reason is None:
                continue
            handle, one.handle = one.handle, None
            said = tuple(token.token for token in handle)  # raises the fault that ended it
            assert handle.finish_reason in ("stop", "length")
            assert said or handle.end_token is not None
            expected = fresh_logprobs(model, layout, handle.request.inputs, said) if said else []
            assert [token.logprob for token in handle.said_tokens] == pytest.approx(
                expected, abs=1e-4
            )
            if rng.random() < 0.7:
                one.tokens = (*one.tokens, *said)


@pytest.mark.parametrize("preset", PRESETS)
def test_of_every_preset(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = byte_model(preset, WINDOW).double()
    layout = plain_layout(model.spec, VOCABULARY, WINDOW)
    if not can_generate(model):
        with pytest.raises(UnsupportedError, match="lets a position see later tokens"):
            submit_turn(Engine(model, 0), layout, Conversation((97,), b""), 0)
        return
    for seed in range(2):
        record_steps(monkeypatch, from_first=seed % 2 == 1)
        require_invisible(model, layout, seed)


@pytest.mark.parametrize("form", CROSS_FORMS)
def test_of_every_form_of_cross_attention(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preset, changes = CROSS_FORMS[form]
    model = byte_model(preset, WINDOW, changes).double()
    layout = plain_layout(model.spec, VOCABULARY, WINDOW)
    for seed in range(2):
        record_steps(monkeypatch, from_first=seed % 2 == 1)
        require_invisible(model, layout, seed)


@pytest.mark.parametrize("context_is_prefix", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_of_masks(mask: str, context_is_prefix: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = byte_model("llama", WINDOW, {"mask": mask}).double()
    layout = plain_layout(model.spec, VOCABULARY, WINDOW, context_is_prefix)
    for seed in range(2, 5):
        record_steps(monkeypatch, from_first=seed % 2 == 1)
        require_invisible(model, layout, seed)
