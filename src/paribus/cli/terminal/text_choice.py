"""The text that a checkpoint is measured on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paribus.errors import SpecError
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, stages_of
from paribus.record.file_names import TOKENIZER_FILE
from paribus.spec.corpus import Corpus
from paribus.spec.run import load_text
from paribus.spec.stages import stage_corpus


def own_corpus(checkpoint: LoadedCheckpoint) -> Corpus | None:
    """The text that a run was trained on; None for a checkpoint that was not trained here."""
    if checkpoint.run is None:
        return None
    stages = stages_of(checkpoint.run)
    tokenizer = checkpoint.folder / TOKENIZER_FILE
    return stage_corpus(stages[-1].corpus, stages[0].corpus, tokenizer)


def corpus_of(
    checkpoint: LoadedCheckpoint, corpus: str | Path | Mapping[str, Any] | None
) -> Corpus:
    """The text that is named, or that of the run; SpecError where there is neither."""
    if corpus is not None:
        return load_text(corpus).corpus
    own = own_corpus(checkpoint)
    if own is None:
        raise SpecError(
            f"{checkpoint.folder} was not trained here, so it has no held-out text; "
            f"name one with --corpus SPEC, a file that `paribus corpus` takes"
        )
    return own
