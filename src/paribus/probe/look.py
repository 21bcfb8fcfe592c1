"""Inner values of a model by name, as arrays: what every probe stands on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.model import Transformer
from paribus.model.forward import Part
from paribus.model.observed_places import PLACES, STACKS, places_of
from paribus.nearest import did_you_mean
from paribus.probe.subject import ProbedModel
from paribus.runtime import select_device
from paribus.spec import ResolvedArchitecture
from paribus.workspace import Workspace

Array = NDArray[np.generic]


@dataclass(frozen=True)
class WantedPlace:
    """A place of a forward pass: a name such as `stack.attention_weights`, and a layer."""

    name: str
    layer: int

    def __str__(self) -> str:
        return f"{self.name}.{self.layer}"


def wanted_places(
    spec: ResolvedArchitecture, places: str | Sequence[str]
) -> tuple[WantedPlace, ...]:
    """The places that are asked for, from the bottom up.

    Each of `places` is a place, such as `block_output`, perhaps with a stack before it
    (`encoder.block_output`) and a layer after it (`stack.block_output.0`; −1 is the last one).
    """
    there = places_of(spec)
    if isinstance(places, str):
        places = [places]
    if not places:
        raise SpecError(f"no place is named; use one or more of {_place_names(there)}")
    found: set[WantedPlace] = set()
    for asked in places:
        own = set(_matches(asked, there))
        if not own:
            raise UnsupportedError(_refusal(asked, there))
        found |= own
    order = list(there)
    return tuple(sorted(found, key=lambda one: (order.index(one.name), one.layer)))


def _matches(asked: str, there: Mapping[str, tuple[int, ...]]) -> Iterator[WantedPlace]:
    stacks, place, layer = _parse_place(asked)
    for stack in stacks:
        layers = there.get(f"{stack}.{place}", ())
        for number in layers:
            if layer is None or number == layer or number == layer + layers[-1] + 1:
                yield WantedPlace(f"{stack}.{place}", number)


def _parse_place(asked: str) -> tuple[tuple[str, ...], str, int | None]:
    """The stacks that are meant, the name of the place, and a layer or None for all."""
    parts, stacks, layer = asked.split("."), STACKS, None
    if parts[0] in STACKS:
        stacks, parts = (parts[0],), parts[1:]
    if len(parts) == 2 and parts[1].removeprefix("-").isdecimal():
        layer, parts = int(parts[1]), parts[:1]
    if len(parts) != 1 or parts[0] not in PLACES:
        meant = did_you_mean(parts[0] if parts else asked, PLACES)
        raise SpecError(
            f"{asked!r} is no place; {meant}use one of {', '.join(PLACES)}, perhaps with a stack"
            " before it and a layer after it, as in 'stack.block_output.0'"
        )
    return stacks, parts[0], layer


def _refusal(asked: str, there: Mapping[str, tuple[int, ...]]) -> str:
    n_layers = {stack: len(there.get(f"{stack}.block_output", ())) for stack in STACKS}
    sizes = [f"{stack} has {n}" for stack, n in n_layers.items() if n]
    return (
        f"this architecture has no {asked!r}; it has {_place_names(there)}; layers count"
        f" from 0: {', '.join(sizes)}"
    )


def _place_names(there: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(dict.fromkeys(name.split(".")[1] for name in there))


@dataclass(eq=False)
class PlaceRecorder:
    """An observer that keeps what it wants as arrays on the host."""

    places: Collection[WantedPlace]
    values: dict[str, Array] = field(default_factory=dict)

    def wants(self, name: str, layer: int) -> bool:
        return WantedPlace(name, layer) in self.places

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.values[str(WantedPlace(name, layer))] = to_array(value)


def to_array(value: Tensor) -> Array:
    """A copy on the host; numpy has no bfloat16, so that becomes float32."""
    value = value.detach()
    if value.dtype == torch.bfloat16:
        value = value.float()
    return np.array(value.cpu().numpy())


def look(
    run: str | Path,
    text: str,
    places: str | Sequence[str],
    *,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
) -> dict[str, Array]:
    """What lies at some places while a run, or a checkpoint, reads a text, by names such as
    `stack.attention_weights.3`.

    The text is read as in training: an encoder-decoder reads its first half as a source and its
    second half as a target, and for a prefix-LM the first half is the prefix. The end of the
    document before it is the first token where the run was trained with one there. `places` are
    described in `src/paribus/model/observed_places.py`.
    """
    if not isinstance(text, str):
        raise SpecError(f"text is of the type {type(text).__name__}; give a str")
    workspace = workspace or Workspace()
    checkpoint = load_checkpoint(run, workspace.runs_folder, tokenizer=tokenizer)
    subject = ProbedModel.of(checkpoint, select_device(workspace.device))
    wanted = wanted_places(subject.spec, places)
    tokens = subject.encode(text)
    if len(tokens) < 2:
        raise SpecError("the text has no two tokens to look at; give a longer one")
    if len(tokens) > subject.spec.max_length:
        raise SpecError(
            f"the text has {len(tokens)} tokens, but {run} reads at most"
            f" {subject.spec.max_length}; give a shorter one"
        )
    recorder = PlaceRecorder(wanted)
    subject.show(torch.tensor([tokens]), recorder)
    return recorder.values


@torch.no_grad()
def look_at(
    model: Transformer, batch: Batch, places: Sequence[str], left_out: Collection[Part] = ()
) -> dict[str, Array]:
    """What lies at some places while a model reads a batch, by names such as
    `stack.attention_weights.3`.
    """
    recorder = PlaceRecorder(wanted_places(model.spec, places))
    model.hidden_states(batch, observer=recorder, left_out=left_out)
    return recorder.values
