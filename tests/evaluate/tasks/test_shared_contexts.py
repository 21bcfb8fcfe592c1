"""A context that several targets share is read once, and no score tells."""

import numpy as np
import pytest
import torch
from byte_models import BYTE_TOKENIZER, VOCABULARY, byte_model
from random_masks import random_mask
from tiny_model import PRESETS

from paribus.evaluate.tasks import target_scores, task_arm
from paribus.evaluate.tasks.shared_contexts import min_saved_tokens
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, LaidItem, item_layout, lay_item
from paribus.spec.objectives import (
    CausalLM,
    MixtureComponent,
    Objective,
    PrefixLM,
    SpanCorruption,
)

WHOLE = 2**62  # tokens that no group saves
N_MASKS = 24


def drawn_items(layout: ItemLayout, seed: int, n_contexts: int = 7) -> list[LaidItem]:
    """Items of which some share a context: options of several lengths, one token too, and options
    that begin alike.
    """
    rng = np.random.default_rng(seed)
    items = []
    for number in range(n_contexts):
        context = rng.integers(256, size=rng.integers(1, 40)).tolist()
        for length in rng.integers(1, 12, size=rng.integers(1, 5)):
            target = rng.integers(256, size=length).tolist()
            items.append(lay_item(layout, str(number), context, target))
            items.append(lay_item(layout, str(number), context, [*target, 7]))
    rng.shuffle(items)
    return items


def require_same_scores(model: Transformer, layout: ItemLayout, seed: int) -> None:
    items = drawn_items(layout, seed)
    whole = target_scores(model, layout, items, with_greedy=True, min_saved=WHOLE)
    for max_positions in (1, None):
        shared = target_scores(model, layout, items, max_positions, True, min_saved=1)
        assert np.abs(shared.nats - whole.nats).max() < 1e-4
        assert shared.is_greedy is not None
        assert whole.is_greedy is not None
        assert (shared.is_greedy == whole.is_greedy).all()


def layout_of(model: Transformer, objective: Objective) -> ItemLayout:
    component = MixtureComponent(objective=objective)
    return item_layout(component, model.spec, VOCABULARY, model.spec.max_length)


@pytest.mark.parametrize("preset", PRESETS)
def test_scores_are_those_of_whole_texts(preset: str) -> None:
    """Also of models without a cache, which read every text whole. Routing jumps, so all is in
    float64.
    """
    model = byte_model(preset).double()
    objectives: list[Objective] = [PrefixLM()]
    if model.encoder is None:
        objectives.append(CausalLM())
    for objective in objectives:
        require_same_scores(model, layout_of(model, objective), seed=len(preset))


@pytest.mark.parametrize("number", range(N_MASKS))
def test_scores_under_a_random_mask_are_those_of_whole_texts(number: int) -> None:
    rng = np.random.default_rng(number)
    preset = ("gpt2", "llama", "palm")[number % 3]
    model = byte_model(preset, changes={"mask": random_mask(rng), "n_layers": 4, "d_model": 24})
    objective = (CausalLM(), PrefixLM(), SpanCorruption())[rng.integers(3)]
    require_same_scores(model, layout_of(model, objective), seed=number)


class TokenCounter:
    """How many tokens go through a model, padding too."""

    def __init__(self, model: Transformer):
        self.n_tokens = 0
        model.stack.register_forward_pre_hook(self._count)

    def _count(self, _: object, arguments: tuple[torch.Tensor, ...]) -> None:
        self.n_tokens += arguments[0].shape[0] * arguments[0].shape[1]

    def count(self, model: Transformer, layout: ItemLayout, items: list[LaidItem], n: int) -> int:
        self.n_tokens = 0
        target_scores(model, layout, items, min_saved=n)
        return self.n_tokens


@pytest.mark.parametrize(
    ("preset", "objective"), [("gpt2", CausalLM()), ("unilm", PrefixLM()), ("llama", CausalLM())]
)
def test_what_is_read_is_each_context_once_and_what_follows_it(
    preset: str, objective: Objective
) -> None:
    """The last token of an option is said and not read."""
    model = byte_model(preset)
    layout = task_arm(model.spec, objective, BYTE_TOKENIZER).layout
    items, n_context, n_options, n_target = [], 31, 5, 9
    rng = np.random.default_rng(1)
    for number in range(3):
        context = rng.integers(256, size=n_context).tolist()
        for _ in range(n_options):
            target = rng.integers(256, size=n_target).tolist()
            items.append(lay_item(layout, str(number), context, target))
    n_laid = len(items[0].inputs) + len(layout.opening)
    counter, n_after = TokenCounter(model), n_options * (n_target - 1)
    assert counter.count(model, layout, items, 1) == 3 * (n_laid + n_after)
    assert counter.count(model, layout, items, WHOLE) == 3 * (n_options * n_laid + n_after)


def test_options_of_one_token_need_the_context_alone() -> None:
    model = byte_model("gpt2")
    layout = layout_of(model, CausalLM())
    context = list(range(30))
    items = [lay_item(layout, "", context, target) for target in ([1], [2], [3, 4], [5, 6, 7])]
    counter = TokenCounter(model)
    assert counter.count(model, layout, items, 1) == 31 + 2 * 2


def test_a_context_is_shared_where_it_saves_enough_work() -> None:
    """A tiny model is faster with whole texts, unless they are long."""
    small, large = byte_model("gpt2"), byte_model("gpt2", changes={"n_layers": 8, "d_model": 240})
    assert min_saved_tokens(large) < 3 * 70 < min_saved_tokens(small)
    layout = layout_of(small, CausalLM())
    items = [lay_item(layout, "", list(range(69)), [n, n + 1]) for n in range(4)]
    for model, n_read in ((small, 4 * 71), (large, 70 + 4)):
        counter = TokenCounter(model)
        target_scores(model, layout, items)
        assert counter.n_tokens == n_read
