"""Models to look into, and texts of random bytes to look with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from byte_models import BYTE_TOKENIZER

from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.interop.recorded_objective import write_objective
from paribus.model import Transformer, save
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeText, ProbeTexts
from paribus.record.file_names import TOKENIZER_FILE
from paribus.record.probe_rows import ProbeRow
from paribus.spec.run import load_objective


def checkpoint_folder(model: Transformer, folder: Path) -> Path:
    """A checkpoint over bytes that is asked as its masks can be."""
    save(model, folder)
    (folder / TOKENIZER_FILE).write_text(BYTE_TOKENIZER.json)
    masks = {str(mask) for mask in model.spec.stack.masks}
    kind = "causal" if masks == {"causal"} else "masked"
    if model.encoder is not None or "prefix" in "".join(masks):
        kind = "prefix"
    write_objective(folder, load_objective(kind))
    return folder


def probed(model: Transformer, folder: Path) -> ProbedModel:
    checkpoint = load_checkpoint(checkpoint_folder(model, folder / "checkpoint"))
    return ProbedModel.of(checkpoint, torch.device("cpu"))


def random_texts(n_texts: int, length: int, domain: str = "bytes", seed: int = 0) -> ProbeTexts:
    """Texts of lower-case letters, each a document."""
    draws = np.random.default_rng([seed, n_texts, length])
    texts = []
    for number in range(n_texts):
        tokens = draws.integers(97, 123, length).tolist()
        texts.append(ProbeText(f"{domain} {number}", domain, tuple(tokens)))
    return ProbeTexts(tuple(texts))


def with_uniform_attention(model: Transformer) -> Transformer:
    """A model whose self-attention weighs all that it sees equally."""
    with torch.no_grad():
        for block in model.stack.layers:
            block.attention.query.weight.zero_()
            block.attention.query.bias.zero_()
    return model


def found_values(rows: Iterable[ProbeRow], quantity: str, **where: object) -> list[float]:
    """The values of a quantity in the order of the rows, where fields are as given."""
    own = [row for row in rows if row.quantity == quantity]
    for name, value in where.items():
        own = [row for row in own if getattr(row, name) == value]
    return [row.value for row in own]


def without_attention(model: Transformer) -> Transformer:
    """Each position sees its own token alone, and a decoder nothing of its source."""
    with torch.no_grad():
        for block in model.stack.layers:
            for attention in (block.attention, block.cross):
                if attention is not None:
                    attention.output.weight.zero_()
                    if attention.output.bias is not None:
                        attention.output.bias.zero_()
    return model
