"""A chain that ends with conversations, for three architectures."""

from typing import Any

from paribus.spec.run import RunSpec, load_run

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "causal": {"preset": "gpt2"},
    "prefix": {"preset": "gpt2", "mask": "prefix"},
    "encoder-decoder": {"preset": "t5", "encoder": {"n_layers": 1}},
}
SIZES: dict[str, Any] = {
    "n_layers": 1,
    "d_model": 32,
    "dropout": 0.0,
    "attention": {"n_heads": 2},
}
LANGUAGE: dict[str, Any] = {
    "kind": "reverse",
    "n_documents": 600,
    "n_symbols": 5,
    "min_length": 2,
    "max_length": 4,
}
TRAINING: dict[str, Any] = {
    "n_steps": 6,
    "n_sequences": 4,
    "length": 24,
    "row_every": 2,
    "valid_every": 6,
    "valid_batches": 1,
    "checkpoint_every": 3,
}


def conversation_table(name: str = "causal") -> dict[str, Any]:
    """A run that is pretrained on text, and then reads conversations."""
    objective = "prefix" if name == "encoder-decoder" else "causal"
    return {
        "architecture": {**SIZES, **ARCHITECTURES[name]},
        "training": TRAINING,
        "stages": {
            "0": {
                "corpus": {"sources": [{**LANGUAGE, "form": "text"}]},
                "objective": objective,
            },
            "1": {
                "kind": "instruct",
                "corpus": {"sources": [{**LANGUAGE, "form": "conversations"}]},
                "objective": "seq2seq",
            },
        },
    }


def conversation_run(name: str = "causal", changes: dict[str, Any] | None = None) -> RunSpec:
    return load_run(conversation_table(name), changes)


def preference_table(name: str = "causal", own_samples: bool = False) -> dict[str, Any]:
    """The run of `conversation_table`, and then one that prefers between responses."""
    table = conversation_table(name)
    objective: dict[str, Any] = {"kind": "preference"}
    form = "preferences"
    if own_samples:
        objective["own_samples"] = {"n_pairs": 20, "n_samples": 3, "n_tokens": 12}
        form = "conversations"
        table["stages"]["1"]["training"] = {"n_steps": 80, "optimizer": {"rate": 1e-2}}
    table["stages"]["2"] = {
        "kind": "prefer",
        "corpus": {"sources": [{**LANGUAGE, "form": form}]},
        "objective": objective,
        "training": {"optimizer": {"rate": 3e-3}},
    }
    return table


def preference_run(
    name: str = "causal", own_samples: bool = False, changes: dict[str, Any] | None = None
) -> RunSpec:
    return load_run(preference_table(name, own_samples), changes)


def long_preference_run() -> RunSpec:
    """One whose last stage is twice as long as the others together."""
    return preference_run(changes={"architecture.dropout": 0.1, "stages.2.training.n_steps": 24})
