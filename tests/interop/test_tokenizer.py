"""A tokenizer that goes along: transformers gives the ids training used, and knows our special
tokens.
"""

import json
from pathlib import Path

import pytest
import torch
from hf_folder import CHANGES
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from paribus.batch import N_SPECIAL_TOKENS, Batch
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import (
    Tokenizer,
    byte_tokenizer,
    open_tokenizer,
    read_tokenizer_file,
    train_tokenizer,
)
from paribus.errors import RecordError, UnsupportedError
from paribus.interop import export
from paribus.model import Transformer, build
from paribus.spec import BPETokenizer, TokenizerFile, load

TEXTS = [
    "",
    "plain words",
    " naïve café, 中文 and 😀 don't  stop\n\n\tindented",
    "\x00\x1c <|end|> ‹not a sign›",
]


def pairs_of_bytes() -> Tokenizer:
    return train_tokenizer(
        BPETokenizer(n_vocab=300), TEXTS * 5 + ["the other words that are said"] * 9
    )


def words() -> Library:
    library = Library(models.WordLevel({"[UNK]": 0, "plain": 1, "words": 2, "[CLS]": 3}, "[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.post_processor = processors.TemplateProcessing(
        "[CLS] $A", special_tokens=[("[CLS]", 3)]
    )
    library.add_special_tokens(["[CLS]", "[UNK]"])
    return library


TOKENIZERS = {"bytes": byte_tokenizer, "bpe": pairs_of_bytes, "file": lambda: Tokenizer(words())}


def small(preset: str, tokenizer: Tokenizer) -> Transformer:
    wanted = CHANGES[preset] | {"attention.n_heads": 3}
    n_vocab = vocabulary_of(tokenizer).size
    return build(
        load(preset, n_layers=2, d_model=15, n_vocab=n_vocab, max_length=67, changes=wanted)
    )


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_transformers_gives_the_ids_training_used(tmp_path: Path, kind: str):
    ours = TOKENIZERS[kind]()
    export(small("gpt2", ours), tmp_path / "hf", tokenizer=ours)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in TEXTS:
        assert theirs(text)["input_ids"] == ours.encode(text)
        assert theirs.decode(theirs(text)["input_ids"]) == ours.decode(ours.encode(text))


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_sign_has_its_name_and_its_number(tmp_path: Path, kind: str):
    ours = TOKENIZERS[kind]()
    export(small("gpt2", ours), tmp_path / "hf", tokenizer=ours)
    theirs, vocabulary = AutoTokenizer.from_pretrained(tmp_path / "hf"), vocabulary_of(ours)
    assert (theirs.pad_token_id, theirs.eos_token_id) == (vocabulary.pad, vocabulary.eos)
    assert (theirs.mask_token_id, theirs.bos_token_id) == (vocabulary.mask, None)
    assert len(vocabulary.special_tokens) == N_SPECIAL_TOKENS
    assert theirs.convert_tokens_to_ids(list(vocabulary.special_tokens)) == list(
        range(vocabulary.n_text, vocabulary.size)
    )
    assert theirs.convert_tokens_to_ids(["‹user›", "‹end of turn›"]) == [
        vocabulary.role_tokens["user"],
        vocabulary.end_of_turn,
    ]
    assert len(theirs) == vocabulary.size
    assert theirs.model_max_length == 67
    assert theirs("plain‹gap 7›")["input_ids"][-1] == vocabulary.sentinel(7)
    assert theirs("‹gap 7›", split_special_tokens=True)["input_ids"] == ours.encode("‹gap 7›")
    assert (
        theirs.decode(
            [*ours.encode("words"), vocabulary.eos, vocabulary.mode_tokens["S"]],
            skip_special_tokens=True,
        )
        == "words"
    )


@pytest.mark.parametrize("preset", CHANGES)
def test_every_family_loads_the_tokenizer_and_knows_where_texts_end(tmp_path: Path, preset: str):
    ours = byte_tokenizer()
    model, vocabulary = small(preset, ours), vocabulary_of(ours)
    export(model, tmp_path / "hf", tokenizer=ours)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs("né")["input_ids"] == [110, 195, 169]
    assert set(theirs("né")) == {"input_ids", "attention_mask"}
    config = AutoConfig.from_pretrained(tmp_path / "hf")
    assert (config.eos_token_id, config.pad_token_id) == (vocabulary.eos, vocabulary.pad)
    if model.encoder is not None:
        assert config.decoder_start_token_id == vocabulary.decoder_start


def test_a_text_read_by_transformers_alone_has_our_logits(tmp_path: Path):
    ours = byte_tokenizer()
    model = small("gpt2", ours)
    export(model, tmp_path / "hf", tokenizer=ours)
    theirs, tokenizer = (
        auto.from_pretrained(tmp_path / "hf") for auto in (AutoModelForCausalLM, AutoTokenizer)
    )
    logits = model(Batch.of(torch.tensor([ours.encode("naïve words")]))).logits_BTV
    with torch.no_grad():
        assert torch.allclose(
            theirs(**tokenizer("naïve words", return_tensors="pt")).logits, logits, atol=1e-5
        )


def test_numbers_with_gaps_stay_as_they_are(tmp_path: Path):
    library = Library(models.WordLevel({"plain": 2, "words": 7, "[UNK]": 0}, "[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    ours = Tokenizer(library)
    export(small("gpt2", ours), tmp_path / "hf", tokenizer=ours)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs("plain words")["input_ids"] == [2, 7]
    assert theirs.pad_token_id == vocabulary_of(ours).pad == 8


def test_pieces_with_scores_are_numbered_on(tmp_path: Path):
    library = Library(
        models.Unigram([("<unk>", 0.0), ("plain", -1.0)], unk_id=0, byte_fallback=False)
    )
    library.add_tokens(["words"])
    ours = Tokenizer(library)
    export(small("gpt2", ours), tmp_path / "hf", tokenizer=ours)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs("plainwords")["input_ids"] == ours.encode("plainwords") == [1, 2]
    assert theirs.pad_token_id == vocabulary_of(ours).pad == 3


def test_a_tokenizer_with_a_sign_of_ours_is_refused(tmp_path: Path):
    ours = Tokenizer(Library(models.WordLevel({"‹end›": 0}, "‹end›")))
    with pytest.raises(
        UnsupportedError, match=r"the tokenizer has a token '‹end›' of its own, .*; rename it"
    ):
        export(small("gpt2", ours), tmp_path / "hf", tokenizer=ours)


def test_a_torn_tokenizer_is_named(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(
        RecordError, match=r"tokenizer.json cannot be read as a tokenizer: .*; write it again"
    ):
        open_tokenizer(tmp_path / "tokenizer.json")


def test_without_a_tokenizer_none_is_written(tmp_path: Path):
    export(small("gpt2", byte_tokenizer()), tmp_path / "hf")
    assert sorted(path.name for path in (tmp_path / "hf").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    assert json.loads((tmp_path / "hf/config.json").read_text())["eos_token_id"] is None


def test_a_foreign_tokenizer_file_is_read_and_goes_along(tmp_path: Path):
    words().save(str(tmp_path / "theirs.json"))
    ours = read_tokenizer_file(TokenizerFile(path=str(tmp_path / "theirs.json")))
    export(small("gpt2", ours), tmp_path / "hf", tokenizer=ours)
    assert (
        AutoTokenizer.from_pretrained(tmp_path / "hf")("plain words")["input_ids"]
        == [1, 2]
        == ours.encode("plain words")
    )
