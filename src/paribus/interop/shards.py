"""The tensors of a Hugging Face folder: one safetensors file, or shards and their index."""

from pathlib import Path
from typing import Any

from torch import Tensor

from paribus.errors import RecordError, name_few
from paribus.files import MAX_RECORD
from paribus.model.weights import read_json, read_tensors

TENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.ckpt")


def read_folder(folder: Path, classname: str = "AutoModelForCausalLM") -> dict[str, Tensor]:
    """Every tensor by the name it has on disk; `classname` is the class that would convert other files."""
    if (folder / TENSORS_FILE).exists():
        return read_tensors(folder / TENSORS_FILE)
    if (folder / INDEX_FILE).exists():
        return _sharded(folder, read_json(folder / INDEX_FILE, MAX_RECORD).get("weight_map"))
    raise RecordError(_no_safetensors(folder, classname))


def _no_safetensors(folder: Path, classname: str) -> str:
    """Which other weights a folder holds, and how transformers turns them into safetensors."""
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if not pickles:
        return f"{folder} holds no weights; give {TENSORS_FILE} or shards with {INDEX_FILE}"
    return (
        f"{folder} holds only {', '.join(pickles)}, and nothing is unpickled; give {TENSORS_FILE}, which "
        f"transformers writes beside it, if you trust what is there:\n"
        f"    model = transformers.{classname}.from_pretrained({str(folder)!r})\n"
        f"    model.save_pretrained({str(folder)!r})"
    )


def _sharded(folder: Path, places: Any) -> dict[str, Tensor]:
    where = folder / INDEX_FILE
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise RecordError(f"{where} has no weight_map from tensors to files; fetch or write it again")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(places.values())):
        # A name with a folder in it could reach outside this one.
        if Path(shard).name != shard or shard == ".." or "\\" in shard:
            raise RecordError(f"{where} names the file {shard!r}; use a plain file name in the same folder")
        held = read_tensors(folder / shard)
        promised = {name for name, place in places.items() if place == shard}
        if held.keys() != promised:
            odd = ", ".join(name_few(sorted(held.keys() ^ promised), str, "tensors"))
            raise RecordError(f"{folder / shard} and {INDEX_FILE} disagree on {odd}; fetch or write both again")
        tensors |= held
    return tensors
