"""A tokenizer of ours as one of transformers: the same ids for the same text, and our special
tokens under their names.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library

from paribus.batch import Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import TOKENIZER_FILES, open_tokenizer
from paribus.errors import UnsupportedError
from paribus.files import MAX_TOKENIZER_BYTES, read_text
from paribus.model.weights import write_json
from paribus.record.file_names import CHAT_TEMPLATE_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from paribus.spec import ResolvedArchitecture

GENERATION_CONFIG_FILE = "generation_config.json"


def write_tokenizer(folder: Path, tokenizer: Tokenizer, max_length: int) -> None:
    """tokenizer.json and tokenizer_config.json, for `AutoTokenizer.from_pretrained`."""
    special_tokens = vocabulary_of(tokenizer).special_tokens
    write_json(folder / TOKENIZER_FILE, _with_special_tokens(tokenizer, special_tokens))
    write_json(folder / TOKENIZER_CONFIG_FILE, _tokenizer_config(special_tokens, max_length))


def write_chat_template(
    folder: Path, template: str, vocabulary: Vocabulary, spec: ResolvedArchitecture
) -> None:
    """chat_template.jinja for `apply_chat_template`, and generation_config.json: an answer ends
    where a turn does.
    """
    (folder / CHAT_TEMPLATE_FILE).write_text(template, "utf-8")
    ids = special_token_ids(vocabulary, spec)
    ends = [vocabulary.end_of_turn, vocabulary.eos]
    write_json(folder / GENERATION_CONFIG_FILE, {**ids, "eos_token_id": ends})


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Bring an imported tokenizer along as it is, if there is one."""
    if not (source / TOKENIZER_FILE).is_file():
        return
    open_tokenizer(source / TOKENIZER_FILE)  # refused here rather than when it is needed
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def add_special_tokens(folder: Path, vocabulary: Vocabulary) -> None:
    """Write the special tokens that were added after an imported tokenizer's ids into its
    tokenizer.json.
    """
    if not (folder / TOKENIZER_FILE).is_file():
        return
    tokenizer, added = open_tokenizer(folder / TOKENIZER_FILE), dict[str, int]()
    by_id = sorted(vocabulary.named_special_tokens.items(), key=lambda one: one[1])
    for name, number in by_id:  # the library numbers what is new in the order that it reads
        if number >= tokenizer.n_text:
            added[f"‹{name}›"] = number
    if added:
        table = json.loads(read_text(folder / TOKENIZER_FILE, MAX_TOKENIZER_BYTES))
        _require_new_names(tokenizer, added)
        table["added_tokens"] += [_added_token(name, number) for name, number in added.items()]
        write_json(folder / TOKENIZER_FILE, table)


def tokenizer_notes(source: Path) -> Iterator[str]:
    """What a person should know where a folder has no tokenizer that can be brought along."""
    if not (source / TOKENIZER_FILE).is_file():
        yield (
            f"{source} holds no {TOKENIZER_FILE}, so the checkpoint has no tokenizer; transformers"
            " writes one with"
            f" AutoTokenizer.from_pretrained({str(source)!r}).save_pretrained({str(source)!r})"
        )


def special_token_ids(vocabulary: Vocabulary, spec: ResolvedArchitecture) -> dict[str, int | None]:
    """What config.json says of special tokens: texts end, and a decoder starts, as they did in
    training.
    """
    ids: dict[str, int | None] = {
        "eos_token_id": vocabulary.eos,
        "pad_token_id": vocabulary.pad,
        "bos_token_id": None,
    }
    if spec.encoder is None:
        return ids
    return {**ids, "decoder_start_token_id": vocabulary.decoder_start}


def _with_special_tokens(tokenizer: Tokenizer, special_tokens: dict[str, int]) -> dict[str, Any]:
    """The tokenizer's table with our special tokens among its tokens; nothing else is added to a
    text, as in training.
    """
    _require_new_names(tokenizer, special_tokens)
    table = json.loads(tokenizer.json)
    table["post_processor"] = None
    table["added_tokens"] += [_added_token(name, number) for name, number in special_tokens.items()]
    if isinstance(table["model"]["vocab"], dict):
        table["model"]["vocab"] |= (
            special_tokens  # else the library would number them anew where ids have gaps
        )
    library = Library.from_str(json.dumps(table))
    assert all(library.token_to_id(name) == number for name, number in special_tokens.items())
    return table


def _require_new_names(tokenizer: Tokenizer, special_tokens: Mapping[str, int]) -> None:
    clashes = sorted(
        tokenizer.library.get_vocab(with_added_tokens=True).keys() & special_tokens.keys()
    )
    if clashes:
        raise UnsupportedError(
            f"the tokenizer has a token {clashes[0]!r} of its own, which is the name of one of"
            " our special tokens; rename it in its tokenizer.json"
        )


def _added_token(name: str, number: int) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": name, "special": True, **plain}


def _tokenizer_config(special_tokens: dict[str, int], max_length: int) -> dict[str, Any]:
    pad, end, start, mask, *others = special_tokens
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pad,
        "eos_token": end,
        "mask_token": mask,
        "extra_special_tokens": [start, *others],
        # Without this GPT-2 would be handed segments too, and add their words to the text's.
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
