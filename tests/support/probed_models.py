"""Models to look into, and texts of random bytes to look with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from byte_models import BYTE_TOKENIZER

from paribus.batch import Batch
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.interop.recorded_objective import write_objective
from paribus.model import Transformer, save
from paribus.probe.look import look_at
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


def with_planted_attention(model: Transformer, places: Sequence[Sequence[int]]) -> Transformer:
    """A model of one layer and learned positions whose heads look at one place each: head h of
    query t at `places[h][t]`, whatever the text is. Heads beyond them weigh all alike.

    Positions are points of a circle. A query is the point that it looks for, 1,000 times as long.
    """
    (block,) = model.stack.layers
    attention, length = block.attention, len(places[0])
    angles = 2 * math.pi * torch.arange(length) / length
    points_T2 = torch.stack([angles.cos(), angles.sin()], 1)
    batch = Batch.of(torch.zeros(1, length, dtype=torch.int64))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("embedding"):
                parameter.zero_()
        place = "stack.attention_input.0"
        inputs_TD = torch.from_numpy(look_at(model, batch, [place])[place])[0]
        reading_DT = torch.linalg.pinv(inputs_TD)
        for projection in (attention.query, attention.key):
            projection.weight.zero_()
            projection.bias.zero_()
        for head, own in enumerate(places):
            rows = slice(head * attention.d_head, head * attention.d_head + 2)
            attention.key.weight[rows] = (reading_DT @ points_T2).T
            attention.query.weight[rows] = (reading_DT @ (1000 * points_T2[list(own)])).T
    return model
