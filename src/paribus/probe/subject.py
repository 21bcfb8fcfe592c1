"""A model to look into, and how it reads a text: as its training laid one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from paribus.batch import Batch, Vocabulary
from paribus.corpus import Tokenizer
from paribus.errors import SpecError, UnsupportedError
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, stages_of
from paribus.model import Observer, Transformer, build, restore
from paribus.model.forward import Part
from paribus.model.kernels import KernelChoice
from paribus.model.weights import read_architecture
from paribus.objectives.answering import reading_component
from paribus.objectives.framing import Ids, ItemLayout, item_layout
from paribus.record import CHECKPOINTS
from paribus.record.checkpoints import Checkpoint, checkpoint_folders, verify_checkpoint
from paribus.record.file_names import checkpoint_step
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import Objective
from paribus.spec.probe_variants import after_steps


def text_layout(
    objective: Objective, spec: ResolvedArchitecture, vocabulary: Vocabulary
) -> ItemLayout:
    """How a model reads a text: as the component of its objective that goes on from one, or as the
    first.
    """
    return item_layout(reading_component(objective), spec, vocabulary, spec.max_length)


def laid_text(layout: ItemLayout, tokenizer: Tokenizer, text: str) -> Ids:
    """The tokens of a document, with what stands before one."""
    return (*layout.question_begin, *layout.document_prefix, *tokenizer.encode(text))


def steps_done(checkpoint: Checkpoint) -> str:
    """A checkpoint by the number of steps before it; the first step is 0."""
    return after_steps(checkpoint.step + 1)


@dataclass(frozen=True, eq=False)
class ProbedModel:
    """A model with its weights, and how texts are laid before it."""

    checkpoint: LoadedCheckpoint
    model: Transformer
    layout: ItemLayout
    device: torch.device

    @staticmethod
    def of(checkpoint: LoadedCheckpoint, device: torch.device) -> ProbedModel:
        """The weights of a checkpoint. Lengths are few, so nothing is compiled for them."""
        model = checkpoint.restore(device, kernel="masked" if device.type == "cuda" else "auto")
        layout = text_layout(checkpoint.objective(), checkpoint.spec, checkpoint.vocabulary)
        return ProbedModel(checkpoint, model.eval(), layout, device)

    @property
    def spec(self) -> ResolvedArchitecture:
        return self.model.spec

    @property
    def default_length(self) -> int:
        """Tokens of a text: as many as a row had in training."""
        stage = self.checkpoint.stage
        if stage is None:
            return self.spec.max_length
        return min(stage.training.length, self.spec.max_length)

    def require_length(self, length: int) -> None:
        """SpecError where texts of a length do not fit."""
        if length > self.spec.max_length:
            raise SpecError(
                f"length is {length}, but {self.checkpoint.folder} reads at most"
                f" {self.spec.max_length} tokens; use that or less"
            )

    def encode(self, text: str) -> Ids:
        """A document with what stands before one."""
        return laid_text(self.layout, self.checkpoint.tokenizer, text)

    def batch(self, tokens_BT: Tensor) -> Batch:
        """Texts as the model reads them. Its second half follows the first where a source or a
        prefix stands before what is written; a model that fills masks reads all of it at once.
        """
        n_tokens = tokens_BT.shape[1]
        match self.layout.framing:
            case "shifted":
                batch = Batch.of(tokens_BT)
            case "together":
                batch = Batch.of(tokens_BT, prefix=n_tokens // 2)
            case "in place":
                batch = Batch.of(tokens_BT, prefix=n_tokens)
            case "apart":
                source_BS = tokens_BT[:, : n_tokens // 2]
                start_B1 = torch.full_like(tokens_BT[:, :1], self.layout.vocabulary.decoder_start)
                written_BT = torch.cat([start_B1, tokens_BT[:, n_tokens // 2 : -1]], 1)
                batch = Batch.of(written_BT, source=Batch.of(source_BS, prefix=source_BS.shape[1]))
        return batch.to(self.device)

    @property
    def has_encoder_alone(self) -> bool:
        """Is a text read by the encoder, and nothing written? So where an encoder fills masks."""
        return self.layout.framing == "in place" and self.model.encoder is not None

    @torch.no_grad()
    def show(self, tokens_BT: Tensor, observer: Observer, left_out: Collection[Part] = ()) -> None:
        """Let an observer look on while texts are read."""
        self.read(tokens_BT, observer, left_out)

    def read(self, tokens_BT: Tensor, observer: Observer, left_out: Collection[Part] = ()) -> None:
        """Let an observer look on while texts are read, and keep what derivatives need."""
        batch = self.batch(tokens_BT)
        if self.has_encoder_alone:
            self.model.text_states(batch, observer=observer, left_out=left_out)
        else:
            self.model.hidden_states(batch, observer=observer, left_out=left_out)

    def with_kernel(self, kernel: KernelChoice) -> ProbedModel:
        """The model with another kernel of attention, its weights read again."""
        return replace(self, model=self.checkpoint.restore(self.device, kernel=kernel).eval())

    @cached_property
    def earlier_checkpoints(self) -> tuple[Checkpoint, ...]:
        """What its run keeps of the training before it, the oldest first."""
        if self.checkpoint.run is None:
            return ()
        folders = checkpoint_folders(self.checkpoint.run / CHECKPOINTS)
        last = checkpoint_step(self.checkpoint.folder.name)
        earlier = [folder for folder in folders if checkpoint_step(folder.name) < last]
        return tuple(map(verify_checkpoint, earlier))

    def at_checkpoint(self, checkpoint: Checkpoint) -> ProbedModel:
        """The model as it was at another checkpoint of its run."""
        kernel = self.model.stack.kernel
        model = restore(checkpoint.folder, self.device, kernel=kernel)
        return replace(self, model=model.eval())

    def at_start(self) -> ProbedModel:
        """The model before any training, with the weights that its run began with;
        UnsupportedError where it has no run.
        """
        if self.checkpoint.run is None:
            raise UnsupportedError(
                f"{self.checkpoint.folder} was not trained here, so how it began is not known; set"
                " start to false"
            )
        seed = stages_of(self.checkpoint.run)[0].training.seed
        architecture = read_architecture(self.checkpoint.folder)
        model = build(architecture, seed=seed, device=self.device, kernel=self.model.stack.kernel)
        return replace(self, model=model.eval())
