"""A run, a checkpoint or an imported folder as one value: what can be generated from, measured
and exported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from paribus.batch import Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.conversations import CHAT_TEMPLATE, Turn, prompt_tokens
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import open_tokenizer
from paribus.errors import RecordError, UnsupportedError
from paribus.files import MAX_TOKENIZER_BYTES, read_text
from paribus.interop.recorded_objective import read_objective
from paribus.interop.special_tokens import imported_vocabulary
from paribus.masks import Causal
from paribus.model import Transformer, read_origin, restore
from paribus.model.kernels import KernelChoice
from paribus.model.weights import read_architecture
from paribus.record import RUNS, choose_checkpoint, read_stages
from paribus.record.file_names import (
    CHAT_TEMPLATE_FILE,
    OBJECTIVE_FILE,
    ORIGIN_FILE,
    TOKENIZER_FILE,
)
from paribus.spec import ResolvedArchitecture, resolve
from paribus.spec.corpus import TokenizerFile
from paribus.spec.objectives import CausalLM, Objective
from paribus.spec.reading import describe_faults
from paribus.spec.run import Stage
from paribus.vocabulary import NO_FRAME


@dataclass(frozen=True, eq=False)
class LoadedCheckpoint:
    """A checkpoint: its spec, tokenizer, vocabulary and stage; `restore` reads its weights."""

    folder: Path
    run: Path | None  # the run's folder; None: it was imported, or saved by hand
    stage: Stage | None  # what the run was last trained on, and how
    spec: ResolvedArchitecture
    tokenizer_file: Path | None
    # what an imported config said that the spec does not; None: it was made here
    origin: dict[str, Any] | None
    notes: tuple[str, ...] = ()

    def restore(
        self,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
        kernel: KernelChoice = "auto",
    ) -> Transformer:
        """The model with its weights."""
        return restore(self.folder, device, dtype, kernel)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, read when it is first asked for; RecordError where there is none."""
        if self.tokenizer_file is None:
            raise RecordError(
                f"{self.folder} holds no {TOKENIZER_FILE}, so text cannot be read; put the one it"
                " was trained with there, or name it with --tokenizer FILE (tokenizer= in Python)"
            )
        return open_tokenizer(self.tokenizer_file)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Which ids are text and which are special tokens: ours, or those of an imported
        tokenizer.
        """
        own_special_tokens = None
        if self.stage is not None and isinstance(self.stage.corpus.tokenizer, TokenizerFile):
            own_special_tokens = self.stage.corpus.tokenizer.special_tokens
        if self.origin is None or self.run is not None:  # it was trained here, framed as here
            vocabulary = vocabulary_of(self.tokenizer, own_special_tokens)
        else:
            vocabulary = imported_vocabulary(
                self.tokenizer, self.tokenizer_file, self.origin, self.spec.n_vocab
            )
        if vocabulary.size > self.spec.n_vocab:
            raise UnsupportedError(
                f"{self.folder} has n_vocab {self.spec.n_vocab}, but its tokenizer needs"
                f" {vocabulary.size} ids, of which {vocabulary.size - vocabulary.n_text} are our"
                " special tokens; use the tokenizer it was trained with"
            )
        return vocabulary

    @cached_property
    def chat_template(self) -> str | None:
        """Our template of conversations, where it was trained on any; another's is not ours to
        follow.
        """
        path = self.folder / CHAT_TEMPLATE_FILE
        if path.is_file() and read_text(path, MAX_TOKENIZER_BYTES) == CHAT_TEMPLATE:
            return CHAT_TEMPLATE
        return None

    def encode_prompt(self, text: str) -> list[int]:
        """A text to answer: one turn of a user, where the model was trained on conversations."""
        if self.chat_template is None:
            return self.tokenizer.encode(text)
        return prompt_tokens([Turn("user", text)], self.tokenizer, self.vocabulary)

    def objective(self) -> Objective:
        """What it was trained to predict; of an imported model, what was recorded then."""
        if self.run is not None:
            return (self.stage or last_stage_of(self.run)).objective
        if (self.folder / OBJECTIVE_FILE).is_file():
            return read_objective(self.folder / OBJECTIVE_FILE)
        if self.spec.encoder is None and set(self.spec.stack.masks) == {Causal()}:
            return CausalLM()
        raise UnsupportedError(
            f"{self.folder} was not trained here, and neither a config nor a spec says what an"
            " encoder or an encoder-decoder was trained to predict; import it again, which records"
            " it, with --objective KIND where its family's own is not it"
        )

    def encode_text(self, text: str) -> list[int]:
        """A text as the model is used to read it: an imported tokenizer adds the special tokens
        that it always adds.
        """
        frame = self.vocabulary.frame or NO_FRAME
        return [*frame.before, *self.tokenizer.encode(text), *frame.after]


def load_checkpoint(
    run_or_folder: str | Path,
    runs: str | Path = RUNS,
    best: bool = False,
    tokenizer: str | Path | None = None,
) -> LoadedCheckpoint:
    """What a person named: a run by its name in `runs` or its folder, or a checkpoint, also an
    imported one.

    `tokenizer` is a tokenizer.json for a checkpoint that has none.
    """
    folder, run, notes = choose_checkpoint(run_or_folder, runs, best)
    beside = folder / TOKENIZER_FILE
    tokenizer_path = Path(tokenizer) if tokenizer is not None else None
    if tokenizer_path is not None and beside.is_file():
        raise RecordError(
            f"--tokenizer is {tokenizer_path}, but {folder} has a tokenizer of its own; leave it"
            " out"
        )
    return LoadedCheckpoint(
        folder=folder,
        run=run,
        stage=None if run is None else _stage_if_readable(run),
        spec=resolve(read_architecture(folder)),
        tokenizer_file=beside if beside.is_file() else tokenizer_path,
        origin=read_origin(folder) if (folder / ORIGIN_FILE).is_file() else None,
        notes=notes,
    )


def last_stage_of(run_folder: Path) -> Stage:
    """What a run was last trained on, and how."""
    return stages_of(run_folder)[-1]


def stages_of(run_folder: Path) -> tuple[Stage, ...]:
    """What a run was trained on, and how, stage by stage."""
    stages: list[Stage] = []
    for stage_table in read_stages(run_folder):
        # the architecture that is stage_table there is a whole one, not what the stage changed
        names = Stage.model_fields.keys() - {"architecture"}
        table = {name: stage_table.get(name) for name in names}
        try:
            stages.append(Stage.model_validate_json(json.dumps(table)))
        except ValidationError as fault:
            first = next(describe_faults(fault, table, Stage))
            raise RecordError(
                f"{run_folder} was trained by a spec that this version cannot read: {first}; "
                "use the version it was made with"
            ) from fault
    return tuple(stages)


def _stage_if_readable(run: Path) -> Stage | None:
    """None for a run of another version, whose checkpoint can still be generated from and
    exported.
    """
    try:
        return last_stage_of(run)
    except RecordError:
        return None
