"""Imported models of every family answer as transformers computes it, with the special tokens that
each was trained with, item by item.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import paribus as pb
from paribus.errors import RecordError, SpecError
from paribus.evaluate import Item, select_items
from paribus.interop import load_checkpoint
from paribus.spec.yardstick import load_yardstick
from paribus.workspace import Workspace

transformers = pytest.importorskip("transformers")
hf_models = pytest.importorskip("hf_models")

CLOSE = 1e-4  # nats
N_ITEMS = 5
CORPUS = {
    "sources": [{"kind": "files", "paths": "text.jsonl"}],
    "tokenizer": {"kind": "bytes"},
    "test": 0.4,
}
KINDS = {"gpt2": "causal", "llama": "causal", "t5": "spans", "bart": "seq2seq", "bert": "masked"}


def write_text(folder: Path) -> None:
    """Documents of a few plain words each."""
    words = ["the", "other", "words", "reverse", "this", "and", "above", "bad", "cab", "dog", "egg"]
    lines = []
    for number in range(40):
        chosen = [words[(number * 7 + place * place) % len(words)] for place in range(9)]
        lines.append(json.dumps({"text": " ".join([*chosen, words[number % len(words)]])}))
    (folder / "text.jsonl").write_text("\n".join(lines))


def fields(family: str) -> dict[str, Any]:
    kind = "pseudo" if family == "bert" else "halves"
    return {"kind": kind, "max_bytes": 40, "min_bytes": 20, "n_items": N_ITEMS}


def asked_items(family: str, cache: Path) -> tuple[Item, ...]:
    table = fields(family)
    built = pb.build_corpus({"corpus": CORPUS}, cache=cache)
    return select_items(built, load_yardstick(table.pop("kind"), table))


def nats(logits_TV: Tensor, ids: list[int]) -> float:
    """Nats of ids whose logits are the last."""
    chances = logits_TV.log_softmax(-1)[-len(ids) :]
    return -chances.gather(1, torch.tensor(ids)[:, None]).sum().item()


@torch.no_grad()
def transformers_nats(family: str, model: Any, tokenizer: Any, item: Item) -> float:
    """What transformers gives a target after its context, each framed as its models are used."""
    context, target = (
        tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in (item.context, item.target)
    )
    match family:
        case "gpt2" | "llama":
            tokens = [tokenizer.bos_token_id, *context, *target]
            return nats(model(torch.tensor([tokens])).logits[0, :-1], target)
        case "t5":
            hole = tokenizer.convert_tokens_to_ids("<extra_id_0>")
            source = [*context, hole, tokenizer.eos_token_id]
            labels = [hole, *target]
        case "bart":
            source = tokenizer(item.context)["input_ids"]
            assert source == [0, *context, 2]
            labels = tokenizer(item.target)["input_ids"][:-1]
            assert labels == [0, *target]
        case _:
            return masked_nats(model, tokenizer, [*context, *target], len(target))
    outputs = model(input_ids=torch.tensor([source]), labels=torch.tensor([labels]))
    return nats(outputs.logits[0], target)


def masked_nats(model: Any, tokenizer: Any, ids: list[int], n_target: int) -> float:
    """Each of the last tokens hidden in turn, between BERT's two special tokens."""
    whole = [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
    total = 0.0
    for place in range(len(whole) - 1 - n_target, len(whole) - 1):
        asked = list(whole)
        asked[place] = tokenizer.mask_token_id
        logits = model(torch.tensor([asked])).logits[0, place]
        total -= logits.log_softmax(-1)[whole[place]].item()
    return total


@pytest.mark.parametrize("family", KINDS)
def test_an_import_is_measured_as_transformers_would(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)
    model = hf_models.write_family(family, tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained("theirs")
    pb.import_("theirs", out="ours")
    assert json.loads(Path("ours/objective.json").read_text())["kind"] == KINDS[family]
    found = pb.evaluate_run(
        "ours",
        fields(family),
        corpus={"corpus": CORPUS},
        workspace=Workspace(cache="cache", device="cpu"),
    )
    assert found.head.component["objective"]["kind"] == KINDS[family]
    items = asked_items(family, tmp_path / "cache")
    wanted = [transformers_nats(family, model, tokenizer, item) for item in items]
    assert len(found.answers) == N_ITEMS
    assert [answer.nats for answer in found.answers] == pytest.approx(wanted, abs=CLOSE)
    assert max(wanted) - min(wanted) > 0.5  # far from flat


def test_sentinels_are_found_by_their_names(tmp_path: Path) -> None:
    hf_models.write_family("t5", tmp_path / "theirs")
    pb.import_(tmp_path / "theirs", out=tmp_path / "ours")
    vocabulary = load_checkpoint(tmp_path / "ours").vocabulary
    assert vocabulary.n_sentinels == hf_models.N_SENTINELS
    first = 2 + hf_models.N_SENTINELS - 1
    assert [vocabulary.sentinel(number) for number in range(3)] == [first, first - 1, first - 2]
    numbers = torch.tensor([[-1, 0, 2]])
    assert torch.equal(
        torch.as_tensor(vocabulary.sentinel(numbers)), torch.tensor([[first, first, first - 2]])
    )
    assert (vocabulary.pad, vocabulary.eos, vocabulary.decoder_start) == (0, 1, 0)


def test_another_objective_is_recorded_where_it_is_asked_for(tmp_path: Path) -> None:
    hf_models.write_family("t5", tmp_path / "theirs")
    pb.import_(tmp_path / "theirs", out=tmp_path / "ours", objective="prefix")
    assert load_checkpoint(tmp_path / "ours").objective().kind == "prefix"
    with pytest.raises(SpecError, match="objective is 'prefix' without out"):
        pb.import_(tmp_path / "theirs", objective="prefix")


def test_an_objective_that_the_model_cannot_have_is_refused(tmp_path: Path) -> None:
    hf_models.write_family("bert", tmp_path / "theirs")
    with pytest.raises(SpecError, match="causal"):
        pb.import_(tmp_path / "theirs", out=tmp_path / "ours", objective="causal")
    assert not (tmp_path / "ours").exists()


def test_a_damaged_objective_is_refused(tmp_path: Path) -> None:
    hf_models.write_family("gpt2", tmp_path / "theirs")
    pb.import_(tmp_path / "theirs", out=tmp_path / "ours")
    (tmp_path / "ours/objective.json").write_text('{"kind": "guess"}')
    with pytest.raises(RecordError, match=r"objective\.json is not an objective: "):
        load_checkpoint(tmp_path / "ours").objective()


def test_a_bart_goes_on_as_transformers_does(tmp_path: Path) -> None:
    model = hf_models.write_family("bart", tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    pb.import_(tmp_path / "theirs", out=tmp_path / "ours")
    asked = tokenizer("the other", return_tensors="pt")["input_ids"]
    said = model.generate(
        input_ids=asked,
        decoder_input_ids=torch.tensor([[2, 0]]),
        max_new_tokens=9,
        do_sample=False,
        num_beams=1,
        forced_eos_token_id=None,
    )
    text = tokenizer.decode(said[0, 2:], skip_special_tokens=True)
    assert pb.generate_text(tmp_path / "ours", "the other", pb.Sampling(n_tokens=9)) == text
