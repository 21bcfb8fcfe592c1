"""What `kept` says of a cache is what happens in the model: append tokens, compare all earlier
hidden states.
"""

import numpy as np
import pytest
import torch
from tiny_model import PRESETS, random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.masks import SequenceLayout, appendable, unchanged_states, valid_cache
from paribus.model import Transformer, build
from paribus.spec import Architecture, resolve

OLD, NEW = 7, 11
PREFIXES = [
    (0, 0),
    (4, 4),
    (4, 9),
    (7, 11),
]  # fixed at the first turn; moved to the end of the prompt


def states(model: Transformer, length: int, prefix: int) -> torch.Tensor:
    """The input of every layer and the last output, [L + 1, T, D]."""
    seen: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
        for layer in model.stack.layers
    ]
    hooks.append(
        model.stack.layers[-1].register_forward_hook(
            lambda _, __, output: seen.append(output[0][0])
        )
    )
    source = None if model.encoder is None else random_tokens(1, 5, seed=1)
    # shared layers speak twice
    seen_by_encoder = len(model.stack.layers) + 1 if model.spec.shared else 0
    model(Batch.of(random_tokens(1, NEW)[:, :length], prefix=prefix, source=source))
    for hook in hooks:
        hook.remove()
    return torch.stack(seen[seen_by_encoder:])


@pytest.mark.parametrize("prefixes", PREFIXES)
@pytest.mark.parametrize("preset", PRESETS)
def test_kept_is_true_of_real_models(preset: str, prefixes: tuple[int, int]) -> None:
    planned_as_computed(tiny_architecture(preset), prefixes)


@pytest.mark.parametrize("prefixes", PREFIXES)
@pytest.mark.parametrize(
    "mask", ["same_side", "causal & same_side", "by_layer(causal & same_side, prefix)"]
)
def test_kept_is_true_of_models_whose_parts_are_apart(mask: str, prefixes: tuple[int, int]) -> None:
    planned_as_computed(tiny_architecture("gpt2", {"mask": mask}), prefixes)


def planned_as_computed(spec: Architecture, prefixes: tuple[int, int]) -> None:
    model, masks = build(spec).double(), resolve(spec).stack.masks
    before, after = states(model, OLD, prefixes[0]), states(model, NEW, prefixes[1])[:, :OLD]
    same = ((before - after).abs().amax(-1) < 1e-9).numpy()
    old, new = SequenceLayout(OLD, prefixes[0]), SequenceLayout(NEW, prefixes[1])
    assert (unchanged_states(masks, old, new) == same).all()
    assert (valid_cache(masks, old, new) == same[:-1]).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_appendable_is_kept_for_every_continuation(preset: str) -> None:
    masks = resolve(tiny_architecture(preset)).stack.masks
    fixed = [
        (old, new, p) for old in range(1, 7) for new in range(old + 1, 9) for p in range(old + 1)
    ]
    assert appendable(masks) == all(
        valid_cache(masks, SequenceLayout(o, p), SequenceLayout(n, p)).all() for o, n, p in fixed
    )
    grown = [(old, new, p, g) for old, new, p in fixed for g in range(p, new + 1)]
    moving = all(
        valid_cache(masks, SequenceLayout(o, p), SequenceLayout(n, g)).all() for o, n, p, g in grown
    )
    assert appendable(masks, prefix_grows=True) == moving


def test_the_table_of_presets_is_as_expected() -> None:
    grows = {
        preset
        for preset in PRESETS
        if appendable(resolve(tiny_architecture(preset)).stack.masks, prefix_grows=True)
    }
    assert grows == set(PRESETS) - {
        "bert",
        "mixed-heads",
        "mixed-layers",
        "fixed-head",
        "hybrid",
        "unilm",
    }
    assert appendable(resolve(tiny_architecture("unilm")).stack.masks)


def test_padding_that_becomes_text_is_seen_by_the_plan() -> None:
    model, masks = (
        build(tiny_architecture("bert")).double(),
        resolve(tiny_architecture("bert")).stack.masks,
    )
    text, real = random_tokens(1, 8), np.arange(8) < 5
    given = (Batch.of(text, real_BT=torch.from_numpy(real)[None]), Batch.of(text))
    before, after = (model.hidden_states(one).states_BTD[0] for one in given)
    same = ((before - after).abs().amax(-1) < 1e-9).numpy()
    assert (
        unchanged_states(masks, SequenceLayout(8, real=real), SequenceLayout(8))[-1][:5] == same[:5]
    ).all()
    assert not same[:5].any()
