"""Checkpoints in and out of Hugging Face folders, by the verbs `import` and `export`."""

from pathlib import Path

import pytest
import torch

import paribus as pb


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    spec = pb.load("gpt2", n_layers=2, d_model=21, n_heads=3, n_vocab=37, max_length=11)
    pb.save(pb.build(spec, seed=3), tmp_path / "ours")
    return tmp_path / "ours"


def test_out_and_in_again_is_the_same_model(ask, checkpoint, tmp_path):
    out = ask("export", checkpoint, tmp_path / "theirs")
    assert out.status == 0, out.err
    assert "exported 12.2k parameters in " in out.out
    assert "model.safetensors" in out.out
    back = ask("import", tmp_path / "theirs", tmp_path / "again")
    assert back.status == 0, back.err
    assert "imported 12.2k parameters in " in back.out
    assert ask("diff", checkpoint, tmp_path / "again").out.startswith("same model")
    before, after = pb.restore(checkpoint).state_dict(), pb.restore(tmp_path / "again").state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_checkpoint_is_an_architecture_to_every_verb(ask, checkpoint):
    assert ask("show", checkpoint).out.startswith(f"{checkpoint}\n")


def test_weights_are_written_in_the_precision_asked_for(ask, checkpoint, tmp_path):
    assert ask("export", checkpoint, "theirs", "--dtype", "bfloat16").status == 0
    assert '"dtype": "bfloat16"' in (tmp_path / "theirs" / "config.json").read_text()


def test_an_unknown_precision_is_refused_before_anything_is_read(ask):
    answer = ask("import", "nowhere", "out", "--dtype", "int8")
    assert (answer.status, answer.err) == (
        2,
        "error: --dtype is 'int8'; use float32, bfloat16, float16\n",
    )


def test_a_full_folder_is_not_written_into(ask, checkpoint, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "mine").write_text("kept")
    answer = ask("export", checkpoint, "theirs")
    assert answer.status == 1
    assert "already holds something; give a new or an empty folder" in answer.err
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["mine"]


def test_torn_weights_leave_nothing_half_written(ask, checkpoint, tmp_path):
    ask("export", checkpoint, "theirs")
    weights = tmp_path / "theirs" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    answer = ask("import", "theirs", "out")
    assert answer.status == 1
    assert answer.err.startswith("error: ")
    assert "cannot be read as safetensors" in answer.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "theirs"]


def test_what_transformers_has_no_class_for_is_refused(ask, tmp_path):
    spec = pb.load("unilm", n_layers=2, d_model=21, n_heads=3, n_vocab=37, max_length=11)
    pb.save(pb.build(spec), tmp_path / "ours")
    answer = ask("export", "ours", "theirs")
    assert answer.status == 1
    assert answer.err.startswith("error: ")
    assert not (tmp_path / "theirs").exists()


def test_a_key_that_is_passed_over_is_told(ask, checkpoint, tmp_path):
    ask("export", checkpoint, "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(path.read_text().replace("{", '{"_num_labels": 3,', 1))
    answer = ask("import", "theirs", "again")
    assert answer.status == 0
    passed_over, no_tokenizer = answer.err.splitlines()
    assert (
        passed_over
        == "note: _num_labels is passed over: transformers does not read it, and no logit depends"
        " on it"
    )
    assert (
        no_tokenizer
        == "note: theirs holds no tokenizer.json, so the checkpoint has no tokenizer; transformers"
        " writes one with AutoTokenizer.from_pretrained('theirs').save_pretrained('theirs')"
    )
