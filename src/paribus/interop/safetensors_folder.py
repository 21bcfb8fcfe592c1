"""The tensors of a Hugging Face folder: one safetensors file, or shards and their index."""

from pathlib import Path
from typing import Any

from torch import Tensor

from paribus.errors import RecordError, describe_first
from paribus.files import MAX_RECORD_BYTES
from paribus.model.weights import read_json, read_tensors

TENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.ckpt")


def read_safetensors_folder(
    folder: Path, classname: str = "AutoModelForCausalLM"
) -> dict[str, Tensor]:
    """Every tensor by the name it has on disk; `classname` is the class that would convert
    other files.
    """
    if (folder / TENSORS_FILE).exists():
        return read_tensors(folder / TENSORS_FILE)
    if (folder / INDEX_FILE).exists():
        return _read_shards(
            folder, read_json(folder / INDEX_FILE, MAX_RECORD_BYTES).get("weight_map")
        )
    raise RecordError(_describe_other_weights(folder, classname))


def _describe_other_weights(folder: Path, classname: str) -> str:
    """Which other weights a folder holds, and how transformers turns them into safetensors."""
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if not pickles:
        return f"{folder} holds no weights; give {TENSORS_FILE} or shards with {INDEX_FILE}"
    return (
        f"{folder} holds only {', '.join(pickles)}, and nothing is unpickled; give {TENSORS_FILE},"
        " which transformers writes beside it, if you trust what is there:\n    model ="
        f" transformers.{classname}.from_pretrained({str(folder)!r})\n   "
        f" model.save_pretrained({str(folder)!r})"
    )


def _read_shards(folder: Path, weight_map: Any) -> dict[str, Tensor]:
    where = folder / INDEX_FILE
    if not isinstance(weight_map, dict) or not all(
        isinstance(name, str) for name in weight_map.values()
    ):
        raise RecordError(
            f"{where} has no weight_map from tensors to files; fetch or write it again"
        )
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(weight_map.values())):
        # A name with a folder in it could reach outside this one.
        if Path(shard).name != shard or shard == ".." or "\\" in shard:
            raise RecordError(
                f"{where} names the file {shard!r}; use a plain file name in the same folder"
            )
        shard_tensors = read_tensors(folder / shard)
        shard_names = {name for name, place in weight_map.items() if place == shard}
        if shard_tensors.keys() != shard_names:
            odd = ", ".join(
                describe_first(sorted(shard_tensors.keys() ^ shard_names), str, "tensors")
            )
            raise RecordError(
                f"{folder / shard} and {INDEX_FILE} disagree on {odd}; fetch or write both again"
            )
        tensors |= shard_tensors
    return tensors
