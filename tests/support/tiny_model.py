"""Every preset at a size that runs in milliseconds, with odd numbers wherever they are legal."""

from collections.abc import Mapping
from typing import Any

import torch

from paribus.batch import Batch
from paribus.spec import Architecture, load, presets

PRESETS = presets()
N_VOCAB, MAX_LENGTH = 37, 29
LATENT = {
    "n_heads": 6,
    "d_latent": 11,
    "d_query_latent": 7,
    "d_content": 5,
    "d_rotary": 4,
    "d_value": 3,
}
EXPERTS = {"n_experts": 8, "n_active": 2, "d_expert": 13, "n_dense_layers": 0, "d_ff": None}


def tiny_architecture(preset: str, changes: Mapping[str, Any] | None = None) -> Architecture:
    """A preset with its own wiring and small, mostly prime widths; a start that makes logits of
    order one.
    """
    wired = load(preset)
    small: dict[str, Any] = {
        "n_vocab": N_VOCAB,
        "max_length": MAX_LENGTH,
        "d_model": 23,
        "n_layers": 4,
        "init": "fan_in",
    }
    if wired.attention.kind == "latent":
        small |= {f"attention.{name}": value for name, value in LATENT.items()}
    else:
        few = wired.attention.n_kv_heads not in (None, wired.attention.n_heads)
        small |= {
            "attention.n_heads": 6,
            "attention.n_kv_heads": 2 if few else 6,
            "attention.d_head": 6,
        }
    if wired.feed_forward.kind == "experts":
        kept = wired.feed_forward.n_active
        small |= {
            f"feed_forward.{name}": value
            for name, value in (EXPERTS | {"n_active": min(kept, 2)}).items()
        }
        if wired.feed_forward.n_dense_layers:
            small |= {"feed_forward.n_dense_layers": 1, "feed_forward.d_ff": 17}
        if wired.feed_forward.router.n_groups > 1:
            small |= {"feed_forward.router.n_groups": 4, "feed_forward.router.n_active_groups": 2}
    else:
        small |= {"feed_forward.d_ff": 19}
    if wired.encoder is not None:
        small |= {"encoder.n_layers": 4}
    changes = dict(changes or {})
    # a whole table is meant
    small = {path: value for path, value in small.items() if path.split(".")[0] not in changes}
    return load(preset, changes=small | changes)


def random_tokens(n_sequences: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(
        N_VOCAB, (n_sequences, length), generator=torch.Generator().manual_seed(seed)
    )


def tiny_batch(
    spec: Architecture, n_sequences: int = 2, length: int = 11, prefix: int = 4
) -> Batch:
    """Tokens to read, with a source where there is an encoder."""
    source = None if spec.encoder is None else random_tokens(n_sequences, 7, seed=1)
    return Batch.of(random_tokens(n_sequences, length), prefix=prefix, source=source)
