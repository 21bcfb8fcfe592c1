"""Native checkpoints: written whole, read strictly."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_model import tiny_architecture as small

from paribus.errors import RecordError
from paribus.model import Transformer, build, read_origin, restore, save
from paribus.record.file_names import SPEC_FILE
from paribus.spec import load, presets


def tiny(preset: str) -> Transformer:
    return build(small(preset), seed=3)


def same(left: Transformer, right: Transformer) -> bool:
    mine, other = left.state_dict(), right.state_dict()
    return left.architecture == right.architecture and all(
        torch.equal(mine[name], other[name]) for name in mine
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tiny("gpt2"), tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("preset", presets())
def test_every_preset_comes_back_as_it_was(preset: str, tmp_path: Path):
    model = tiny(preset)
    with torch.no_grad():
        for buffer in model.buffers():
            buffer.normal_()
    save(model, tmp_path / "run")
    assert same(restore(tmp_path / "run"), model)
    assert load(tmp_path / "run") == model.architecture


def test_dtype_and_kernel_are_those_asked_for(folder: Path):
    assert restore(folder).embedding.weight.dtype == torch.float32
    model = restore(folder, dtype=torch.bfloat16, kernel="dense")
    assert model.embedding.weight.dtype == torch.bfloat16
    assert model.stack.kernel == "dense"


def test_a_checkpoint_in_half_precision_is_restored_in_float32(tmp_path: Path):
    save(tiny("gpt2").bfloat16(), tmp_path / "run")
    assert (
        load_file(tmp_path / "run" / "weights.safetensors")["embedding.weight"].dtype
        == torch.bfloat16
    )
    assert restore(tmp_path / "run").embedding.weight.dtype == torch.float32


def test_what_was_kept_of_a_config_is_kept(tmp_path: Path):
    save(tiny("gpt2"), tmp_path / "run", {"eos_token_id": 5})
    assert read_origin(tmp_path / "run") == {"eos_token_id": 5}


def test_a_model_of_our_own_has_no_origin(folder: Path):
    assert read_origin(folder) == {}
    assert sorted(path.name for path in folder.iterdir()) == [SPEC_FILE, "weights.safetensors"]


def test_a_folder_that_holds_something_is_refused_and_left_as_it_was(folder: Path):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        RecordError, match="run already holds something; give a new or an empty folder"
    ):
        save(tiny("llama"), folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["run"]


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RecordError, match="run already holds something"):
        save(tiny("gpt2"), tmp_path / "run")
    with pytest.raises(RecordError, match=r"inner cannot be written: .*; choose another folder"):
        save(tiny("gpt2"), tmp_path / "run" / "inner")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_save_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(path: Path, tensors: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("paribus.model.weights.write_tensors", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(tiny("gpt2"), tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_parents_are_made(tmp_path: Path):
    save(tiny("gpt2"), tmp_path / "a" / "b")
    restore(tmp_path / "a" / "b")


def test_a_missing_file_is_named(folder: Path):
    (folder / "weights.safetensors").unlink()
    with pytest.raises(
        RecordError, match=r"weights.safetensors does not exist; give a folder that holds it"
    ):
        restore(folder)
    (folder / SPEC_FILE).unlink()
    with pytest.raises(
        RecordError,
        match=r"run is neither a checkpoint nor a run; give one of them, or the name of a run",
    ):
        restore(folder)
    (folder / "weights.safetensors").touch()
    with pytest.raises(
        RecordError, match=r"spec.json cannot be read: No such file or directory; give a folder"
    ):
        restore(folder)


def test_a_torn_weights_file_is_named(folder: Path):
    path = folder / "weights.safetensors"
    whole = path.read_bytes()
    for torn in (b"", whole[:50], whole[:-3]):
        path.write_bytes(torn)
        with pytest.raises(
            RecordError,
            match=r"weights.safetensors cannot be read as safetensors: .*; fetch or write it",
        ):
            restore(folder)


def test_a_spec_that_is_none_is_named(folder: Path):
    table = json.loads((folder / SPEC_FILE).read_text())
    (folder / SPEC_FILE).write_text(json.dumps(table | {"n_layers": "two"}))
    with pytest.raises(
        RecordError,
        match=r"spec.json is not an architecture: n_layers .*; save the checkpoint again",
    ):
        restore(folder)
    (folder / SPEC_FILE).write_text("{")
    with pytest.raises(RecordError, match=r"spec.json is not JSON: .*; fetch or write it again"):
        restore(folder)


def test_every_tensor_that_is_off_is_named_at_once(folder: Path):
    tensors = load_file(folder / "weights.safetensors")
    del tensors["stack.final_norm.bias"]
    tensors["embedding.weight"] = torch.ones(19, 14)
    tensors["stack.final_norm.weight"] = torch.ones(23, dtype=torch.int64)
    tensors["extra"] = torch.ones(1)
    save_file(tensors, folder / "weights.safetensors")
    with pytest.raises(RecordError) as raised:
        restore(folder)
    message = str(raised.value)
    assert message.startswith(f"{folder / 'weights.safetensors'} does not hold this model: ")
    assert "stack.final_norm.bias is missing, give one of shape [23]" in message
    assert "embedding.weight has shape [19, 14], give [37, 23]" in message
    assert (
        "stack.final_norm.weight holds int64, give float64, float32, float16, bfloat16" in message
    )
    assert "extra does not belong to it, remove it" in message
