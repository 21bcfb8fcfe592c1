"""Masks drawn at random, under which a text can be read piece by piece."""

import numpy as np

LEAVES = ["causal", "prefix", "window(2)", "window(5)", "causal & strided(2)", "causal & same_side"]


def random_mask(rng: np.random.Generator) -> str:
    """A mask for four layers of six heads."""
    one, two = rng.choice(LEAVES, 2)
    forms = [
        f"({one}) & ({two})",
        f"({one}) | ({two})",
        f"by_head({one}, {two})",
        f"by_layer({one}, {two})",
        f"alternate({one}, by_head({two}, {one}))",
        f"by_layer(({one}) | window(3), {two})",
    ]
    return str(rng.choice(forms))
