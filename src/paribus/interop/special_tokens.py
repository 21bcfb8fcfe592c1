"""Which of an imported tokenizer's ids are special tokens, and what it puts around a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from paribus.batch import N_SPECIAL_TOKENS
from paribus.corpus import Tokenizer
from paribus.corpus.dataset import vocabulary_of
from paribus.model.weights import read_json
from paribus.record.file_names import TOKENIZER_CONFIG_FILE
from paribus.spec.corpus import N_ROLE_TOKENS
from paribus.vocabulary import NO_FRAME, TextFrame, Vocabulary, sentinel_name

# Our name of a special token, its names in config.json and in tokenizer_config.json, the first
# that is there. BERT begins a text with what it calls cls, and ends it with what it calls sep.
SPECIAL_TOKEN_KEYS = {
    "begin": (("bos_token_id", "bos_token"), ("cls_token_id", "cls_token")),
    "pad": (("pad_token_id", "pad_token"),),
    "end": (("eos_token_id", "eos_token"), ("sep_token_id", "sep_token")),
    "start": (("decoder_start_token_id", ""),),
    "mask": (("mask_token_id", "mask_token"),),
}
T5_SENTINEL = "<extra_id_{}>"  # its ids descend as the number grows
_PROBE = "a"  # any text shows what is put around one


def imported_vocabulary(
    tokenizer: Tokenizer, tokenizer_file: Path | None, origin: Mapping[str, Any], n_vocab: int
) -> Vocabulary:
    """The vocabulary of a tokenizer that came with an imported model: ours where it left from
    here, else its own special tokens.
    """
    if has_our_special_tokens(tokenizer):
        counts = tokenizer.bytes_of_ids.copy()
        counts[-N_SPECIAL_TOKENS:] = 0
        return Vocabulary(tokenizer.n_text - N_SPECIAL_TOKENS, torch.from_numpy(counts))
    config = _read_tokenizer_config(tokenizer_file)
    special_tokens = own_special_tokens(tokenizer, config, origin, n_vocab)
    return vocabulary_of(tokenizer, special_tokens, text_frame(tokenizer))


def has_our_special_tokens(tokenizer: Tokenizer) -> bool:
    """Did the tokenizer leave from here, our special tokens under their names after its text?
    The last ones were sentinels before there were roles.
    """
    n_text = tokenizer.n_text - N_SPECIAL_TOKENS
    if n_text < 1:
        return False
    ours = Vocabulary(n_text, torch.zeros(tokenizer.n_text, dtype=torch.int64)).special_tokens
    before_roles = list(ours.items())[:-N_ROLE_TOKENS]
    return all(tokenizer.library.token_to_id(name) == number for name, number in before_roles)


def own_special_tokens(
    tokenizer: Tokenizer,
    tokenizer_config: Mapping[str, Any],
    origin: Mapping[str, Any],
    n_vocab: int,
) -> dict[str, int]:
    """Ids of the special tokens an imported config names, or else its tokenizer's config, and of
    T5's sentinels; as far as the model has a row for them.
    """
    ids: dict[str, int] = {}
    for name, places in SPECIAL_TOKEN_KEYS.items():
        for in_config, in_tokenizer in places:
            number = _first_id(origin.get(in_config))
            if number is None:
                number = _token_id(tokenizer, tokenizer_config.get(in_tokenizer))
            if number is not None and 0 <= number < n_vocab:
                ids.setdefault(name, number)
    if "end" in ids:
        ids.setdefault("pad", ids["end"])
    for number, sentinel in enumerate(own_sentinels(tokenizer)):
        if sentinel < n_vocab:
            ids[sentinel_name(number)] = sentinel
    return ids


def text_frame(tokenizer: Tokenizer) -> TextFrame:
    """What a tokenizer puts before and after each text by itself."""
    encoding = tokenizer.library.encode(_PROBE, add_special_tokens=True)
    ids, is_special = encoding.ids, encoding.special_tokens_mask
    if all(is_special):
        return NO_FRAME
    n_before, n_after = is_special.index(0), is_special[::-1].index(0)
    return TextFrame(tuple(ids[:n_before]), tuple(ids[len(ids) - n_after :]))


def own_sentinels(tokenizer: Tokenizer) -> list[int]:
    """The ids of T5's sentinels, from the first hidden span on; none where it has none."""
    ids: list[int] = []
    while (number := tokenizer.library.token_to_id(T5_SENTINEL.format(len(ids)))) is not None:
        ids.append(number)
    return ids


def _read_tokenizer_config(tokenizer_file: Path | None) -> Mapping[str, Any]:
    if tokenizer_file is None:
        return {}
    beside = tokenizer_file.with_name(TOKENIZER_CONFIG_FILE)
    return read_json(beside) if beside.is_file() else {}


def _first_id(ids: Any) -> int | None:
    """An id; the first of several."""
    first = ids[0] if isinstance(ids, list) and ids else ids
    if isinstance(first, int) and not isinstance(first, bool):
        return first
    return None


def _token_id(tokenizer: Tokenizer, token: Any) -> int | None:
    """The id of a token that tokenizer_config.json names, plainly or as a table with its
    content.
    """
    content = token.get("content") if isinstance(token, dict) else token
    if isinstance(content, str):
        return tokenizer.library.token_to_id(content)
    return None
