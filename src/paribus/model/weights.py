"""Native checkpoints: a spec and its weights in one folder, written whole or not at all.

`spec.json` is the architecture, `weights.safetensors` every parameter and selection bias under our
own names, and `origin.json`, where there is one, what an imported config said that the spec does
not: it travels on to export.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from paribus.errors import RecordError, SpecError, describe_first
from paribus.files import MAX_SPEC_BYTES, read_text
from paribus.model.build import allocate, build_empty
from paribus.model.kernels import KernelChoice
from paribus.model.transformer import Transformer
from paribus.record import RUNS, choose_checkpoint
from paribus.record.disk import folder_draft
from paribus.record.file_names import ORIGIN_FILE, SPEC_FILE, WEIGHTS_FILE
from paribus.record.spec_formats import convert_architecture
from paribus.spec import Architecture, parse_architecture
from paribus.spec.merging import require_plain_tables
from paribus.spec.reading import dict_of_unique_keys

FLOAT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

Shapes = Mapping[str, tuple[int, ...]]


def save(
    model: Transformer, folder: str | Path, extra_config: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint into a new or empty folder; `extra_config` is what `import_` kept of a
    config.
    """
    with atomic_folder(folder) as draft:
        write_checkpoint(draft, model, extra_config)


def write_checkpoint(
    draft: Path, model: Transformer, extra_config: Mapping[str, Any] | None
) -> None:
    """The files of a checkpoint, written into a folder that is there."""
    write_json(draft / SPEC_FILE, model.architecture.model_dump(mode="json"))
    write_tensors(draft / WEIGHTS_FILE, model.state_dict())
    if extra_config is not None:
        write_json(draft / ORIGIN_FILE, extra_config)


def restore(
    run_or_folder: str | Path,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    kernel: KernelChoice = "auto",
    runs: str | Path = RUNS,
) -> Transformer:
    """The model of a run, given by its name in `runs` or its folder, or of a checkpoint, also
    an imported one.

    It is in float32 unless asked otherwise. RecordError names every tensor that is off. Of a run,
    the newest whole checkpoint is taken, and a warning tells of those that were skipped.
    """
    folder, _, notes = choose_checkpoint(run_or_folder, runs)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    model = build_empty(
        read_architecture(folder), device="meta", dtype=dtype or torch.float32, kernel=kernel
    )
    tensors = read_tensors(folder / WEIGHTS_FILE)
    require_tensors(
        tensors,
        {name: tuple(place.shape) for name, place in model.state_dict().items()},
        folder / WEIGHTS_FILE,
    )
    return fill_weights(model, tensors, device)


def read_architecture(folder: Path) -> Architecture:
    """The architecture of a checkpoint."""
    try:
        return parse_architecture(convert_architecture(read_json(folder / SPEC_FILE)))
    except SpecError as fault:
        raise RecordError(
            f"{folder / SPEC_FILE} is not an architecture: {fault}; save the checkpoint again"
        ) from fault


def read_origin(folder: str | Path) -> dict[str, Any]:
    """What `import_` kept of the config a checkpoint came from; empty where it came from none."""
    path = Path(folder) / ORIGIN_FILE
    if path.exists():
        return read_json(path)
    return {}


@torch.no_grad()
def fill_weights(
    model: Transformer, tensors: dict[str, Tensor], device: str | torch.device
) -> Transformer:
    """A model of shapes alone with its tensors put in place; they have been checked, and are
    used up.
    """
    model = allocate(model, device)
    for name, place in model.state_dict().items():
        place.copy_(tensors.pop(name))
        if not bool(torch.isfinite(place).all()):
            raise RecordError(
                f"{name} has values too large for {_dtype_name(place.dtype)}; read it in float32 or"
                " bfloat16"
            )
    return model


def require_tensors(tensors: Mapping[str, Tensor], expected: Shapes, where: Path) -> None:
    """RecordError with every tensor that is missing, unknown, of another shape or not of
    floating point.
    """
    faults = list(
        describe_first(list(_tensor_faults(tensors, expected)), str, "tensors that are off")
    )
    if faults:
        raise RecordError(f"{where} does not hold this model: {'; '.join(faults)}")


def _tensor_faults(tensors: Mapping[str, Tensor], expected: Shapes) -> Iterator[str]:
    for name, shape in expected.items():
        if name not in tensors:
            yield f"{name} is missing, give one of shape {list(shape)}"
        elif tuple(tensors[name].shape) != shape:
            yield f"{name} has shape {list(tensors[name].shape)}, give {list(shape)}"
        elif tensors[name].dtype not in FLOAT_DTYPES:
            yield (
                f"{name} holds {_dtype_name(tensors[name].dtype)}, give"
                f" {', '.join(map(_dtype_name, FLOAT_DTYPES))}"
            )
        elif not bool(torch.isfinite(tensors[name]).all()):
            yield f"{name} holds values that are not finite, give finite ones"
    for name in tensors:
        if name not in expected:
            yield f"{name} does not belong to it, remove it"


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of one safetensors file."""
    if not path.is_file():
        raise RecordError(f"{path} does not exist; give a folder that holds it")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as fault:
        raise RecordError(
            f"{path} cannot be read as safetensors: {fault}; fetch or write it again"
        ) from fault


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """One safetensors file, marked the way transformers asks for."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(plain, path, metadata={"format": "pt"})
    os.umask(mask := os.umask(0))
    path.chmod(0o666 & ~mask)  # the library writes for the owner alone


def read_json(path: Path, max_bytes: int = MAX_SPEC_BYTES) -> dict[str, Any]:
    """The table a JSON file holds."""
    try:
        table = json.loads(read_text(path, max_bytes), object_pairs_hook=dict_of_unique_keys)
    except OSError as fault:
        raise RecordError(
            f"{path} cannot be read: {fault.strerror}; give a folder that holds it"
        ) from fault
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"{path} is not JSON: {fault}; fetch or write it again") from fault
    if not isinstance(table, dict):
        raise RecordError(
            f"{path} holds a {type(table).__name__}, not a table; write {{…}} with keys and values"
        )
    try:
        require_plain_tables(table, str(path))
    except SpecError as fault:
        raise RecordError(f"{fault}; fetch or write it again") from fault
    return table


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """A table as JSON, its keys in order."""
    path.write_text(json.dumps(dict(table), indent=2, sort_keys=True) + "\n", "utf-8")


@contextmanager
def atomic_folder(folder: str | Path) -> Iterator[Path]:
    """A draft beside `folder` that takes its name if all goes well and vanishes if not."""
    folder = Path(folder).absolute()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise RecordError(f"{folder} already holds something; give a new or an empty folder")
    try:
        with folder_draft(folder) as draft:
            yield draft
    except (OSError, SafetensorError) as fault:
        raise RecordError(f"{folder} cannot be written: {fault}; choose another folder") from fault
