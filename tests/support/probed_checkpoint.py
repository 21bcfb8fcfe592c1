"""An untrained model as a checkpoint of a run, with what its stage says."""

from pathlib import Path
from typing import Any

from byte_models import byte_model

from paribus.corpus import Tokenizer
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model import Transformer
from paribus.spec.run import Stage

TRAINING = {"n_steps": 1, "n_sequences": 2, "length": 61}


def probed_checkpoint(
    folder: Path,
    preset: str,
    source: dict[str, Any],
    objective: str = "seq2seq",
    tokenizer: Tokenizer | None = None,
) -> tuple[LoadedCheckpoint, Transformer]:
    """A checkpoint of a tiny model that reads bytes, and the model."""
    tokenizer = tokenizer or byte_tokenizer()
    model = byte_model(preset, changes={"n_vocab": vocabulary_of(tokenizer).size})
    file = folder / "tokenizer.json"
    file.write_text(tokenizer.json)
    table = {"corpus": {"sources": [source]}, "objective": objective, "training": TRAINING}
    checkpoint = LoadedCheckpoint(
        folder=folder,
        run=folder,
        stage=Stage.model_validate(table),
        spec=model.spec,
        tokenizer_file=file,
        origin=None,
    )
    return checkpoint, model
