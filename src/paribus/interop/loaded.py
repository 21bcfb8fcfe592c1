"""A run, a checkpoint or an imported folder as one value: what can be generated from, measured and exported."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from paribus.batch import N_SIGNS, Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.built import vocabulary_of
from paribus.corpus.tokenizer import opened
from paribus.errors import RecordError, UnsupportedError
from paribus.interop.tokenizer import TOKENIZER_CONFIG_FILE
from paribus.masks import Causal
from paribus.model import Transformer, origin, restore
from paribus.model.kernels import Wanted
from paribus.model.weights import read_architecture, read_json
from paribus.record import RUNS, choose_checkpoint, stages_of
from paribus.record.file_names import ORIGIN_FILE, TOKENIZER_FILE
from paribus.spec import Resolved, resolve
from paribus.spec.objectives import CausalLM, Objective
from paribus.spec.reading import complaints
from paribus.spec.run import Stage

# Our name of a special token, its name in config.json and in tokenizer_config.json.
TOKENS = {
    "begin": ("bos_token_id", "bos_token"),
    "pad": ("pad_token_id", "pad_token"),
    "end": ("eos_token_id", "eos_token"),
    "start": ("decoder_start_token_id", ""),
    "mask": ("mask_token_id", "mask_token"),
}


@dataclass(frozen=True, eq=False)
class Loaded:
    """A checkpoint: its spec, tokenizer, vocabulary and stage; `restore` reads its weights."""

    folder: Path
    run: Path | None  # the run's folder; None: it was imported, or saved by hand
    stage: Stage | None  # what the run was last trained on, and how
    spec: Resolved
    tokenizer_file: Path | None
    origin: dict[str, Any] | None  # what an imported config said that the spec does not; None: it was made here
    notes: tuple[str, ...] = ()

    def restore(
        self, device: str | torch.device = "cpu", dtype: torch.dtype | None = None, kernel: Wanted = "auto"
    ) -> Transformer:
        """The model with its weights."""
        return restore(self.folder, device, dtype, kernel)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, read when it is first asked for; RecordError where there is none."""
        if self.tokenizer_file is None:
            raise RecordError(
                f"{self.folder} holds no {TOKENIZER_FILE}, so text cannot be read; put the one it was trained with "
                f"there, or name it with --tokenizer FILE (tokenizer= in Python)"
            )
        return opened(self.tokenizer_file)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Which ids are text and which are special tokens: ours, or those of an imported tokenizer."""
        vocabulary = vocabulary_of(self.tokenizer) if self.origin is None else self._own_vocabulary(self.tokenizer)
        if vocabulary.size > self.spec.n_vocab:
            raise UnsupportedError(
                f"{self.folder} has n_vocab {self.spec.n_vocab}, but its tokenizer needs {vocabulary.size} ids, of "
                f"which {vocabulary.size - vocabulary.n_text} are our special tokens; use the tokenizer it was "
                f"trained with"
            )
        return vocabulary

    def objective(self) -> Objective:
        """What it was trained to predict; of an imported model, what its class is for."""
        if self.run is not None:
            return (self.stage or stage_of(self.run)).objective
        if self.spec.encoder is None and set(self.spec.stack.masks) == {Causal()}:
            return CausalLM()
        raise UnsupportedError(
            f"{self.folder} was not trained here, and neither a config nor a spec says what an encoder or an "
            f"encoder-decoder was trained to predict; measure a decoder, or a run"
        )

    def text_ids(self, text: str) -> list[int]:
        """A text as the model is used to read it: an imported tokenizer adds the special tokens that it always adds."""
        if self.origin is None or self._has_our_tokens(self.tokenizer):
            return self.tokenizer.ids(text)
        return self.tokenizer.library.encode(text, add_special_tokens=True).ids

    def _own_vocabulary(self, tokenizer: Tokenizer) -> Vocabulary:
        n_text, counts = tokenizer.n_text, tokenizer.n_bytes
        if self._has_our_tokens(tokenizer):
            kept = np.concatenate([counts[: n_text - N_SIGNS], np.zeros(N_SIGNS, np.int64)])
            return Vocabulary(n_text - N_SIGNS, torch.from_numpy(kept))
        return Vocabulary(n_text, torch.from_numpy(counts), self._own_tokens(tokenizer))

    def _has_our_tokens(self, tokenizer: Tokenizer) -> bool:
        """Did the tokenizer leave from here, our special tokens under their names after its text?"""
        n_text = tokenizer.n_text - N_SIGNS
        if n_text < 1:
            return False
        ours = Vocabulary(n_text, torch.zeros(tokenizer.n_text, dtype=torch.int64)).signs
        return all(tokenizer.library.token_to_id(name) == number for name, number in ours.items())

    def _own_tokens(self, tokenizer: Tokenizer) -> dict[str, int]:
        """Ids of the special tokens an imported config names, or else its tokenizer's config."""
        beside = self.tokenizer_file.with_name(TOKENIZER_CONFIG_FILE) if self.tokenizer_file else None
        written = read_json(beside) if beside is not None and beside.is_file() else {}
        found: dict[str, int] = {}
        for name, (in_config, in_tokenizer) in TOKENS.items():
            number = _number((self.origin or {}).get(in_config))
            if number is None:
                number = _named(tokenizer, written.get(in_tokenizer))
            if number is not None and 0 <= number < self.spec.n_vocab:
                found[name] = number
        return {"pad": found["end"], **found} if "end" in found else found


def _number(given: Any) -> int | None:
    """An id; the first of several."""
    first = given[0] if isinstance(given, list) and given else given
    return first if isinstance(first, int) and not isinstance(first, bool) else None


def _named(tokenizer: Tokenizer, token: Any) -> int | None:
    """The id of a token that tokenizer_config.json names, plainly or as a table with its content."""
    content = token.get("content") if isinstance(token, dict) else token
    return tokenizer.library.token_to_id(content) if isinstance(content, str) else None


def load_checkpoint(
    named: str | Path, runs: str | Path = RUNS, best: bool = False, tokenizer: str | Path | None = None
) -> Loaded:
    """What a person named: a run by its name in `runs` or its folder, or a checkpoint, also an imported one.

    `tokenizer` is a tokenizer.json for a checkpoint that has none.
    """
    folder, run, notes = choose_checkpoint(named, runs, best)
    beside = folder / TOKENIZER_FILE
    given = Path(tokenizer) if tokenizer is not None else None
    if given is not None and beside.is_file():
        raise RecordError(f"--tokenizer is {given}, but {folder} has a tokenizer of its own; leave it out")
    return Loaded(
        folder=folder,
        run=run,
        stage=None if run is None else _stage_if_readable(run),
        spec=resolve(read_architecture(folder)),
        tokenizer_file=beside if beside.is_file() else given,
        origin=origin(folder) if (folder / ORIGIN_FILE).is_file() else None,
        notes=notes,
    )


def stage_of(run_folder: Path) -> Stage:
    """What a run was last trained on, and how."""
    written = stages_of(run_folder)[-1]
    table = {name: written.get(name) for name in Stage.model_fields}
    try:
        return Stage.model_validate_json(json.dumps(table))
    except ValidationError as fault:
        first = next(complaints(fault, table, Stage))
        raise RecordError(
            f"{run_folder} was trained by a spec that this version cannot read: {first}; "
            f"use the version it was made with"
        ) from fault


def _stage_if_readable(run: Path) -> Stage | None:
    """None for a run of another version, whose checkpoint can still be generated from and exported."""
    try:
        return stage_of(run)
    except RecordError:
        return None
