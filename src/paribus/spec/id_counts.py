"""How many ids a tokenizer has, and the sizes of an architecture that follow from text and
training.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from paribus.errors import SpecError
from paribus.files import MAX_TOKENIZER_BYTES, expand_home, looked_for, read_text
from paribus.spec.corpus import N_SPECIAL_TOKENS, BPETokenizer, ByteTokenizer, Corpus, TokenizerFile
from paribus.spec.reading import dict_of_unique_keys
from paribus.spec.stages import Stage

MAX_IDS = 2**22  # of a tokenizer: several times the largest there is


def derived_sizes(stages: Sequence[Stage]) -> dict[str, int]:
    """The sizes of an architecture that follow from text and training where nobody writes them."""
    return {
        "n_vocab": _n_ids_of(stages[0].corpus),
        "max_length": max(stage.training.length for stage in stages),
    }


def _n_ids_of(corpus: Corpus) -> int:
    """How many ids text and special tokens have: ours, unless the tokenizer has its own."""
    if isinstance(corpus.tokenizer, TokenizerFile) and corpus.tokenizer.special_tokens is not None:
        largest = max(corpus.tokenizer.special_tokens.values(), default=0)
        return max(n_text(corpus), largest + 1)
    return n_text(corpus) + N_SPECIAL_TOKENS


def n_text(corpus: Corpus) -> int:
    """How many tokens the tokenizer has."""
    match corpus.tokenizer:
        case ByteTokenizer():
            return 256
        case BPETokenizer(n_vocab=n_vocab):
            return n_vocab
        case TokenizerFile(path=path):
            return _n_file_ids(expand_home("corpus.tokenizer.path", path))


def _n_file_ids(path: Path) -> int:
    try:
        return n_ids(read_text(path, MAX_TOKENIZER_BYTES))
    except OSError as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} cannot be read: {fault.strerror}; give a"
            f" tokenizer.json{looked_for(path)}"
        ) from fault
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise SpecError(
            f"corpus.tokenizer.path {path} is not a tokenizer.json: {fault}; give one of the"
            " tokenizers library"
        ) from fault


def n_ids(tokenizer: str) -> int:
    """One more than the largest id of a tokenizer.json; ValueError where one is no id, or no
    table has room for it.
    """
    table = json.loads(tokenizer, object_pairs_hook=dict_of_unique_keys)
    words = table["model"]["vocab"]  # with their ids, or in the order of those
    word_ids = range(len(words)) if isinstance(words, list) else words.values()
    ids = [*word_ids, *(token["id"] for token in table.get("added_tokens", ()))]
    for number in ids:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < MAX_IDS:
            raise ValueError(
                f"it has the id {number!r}, where ids are whole numbers from 0 to {MAX_IDS - 1:,}"
            )
    return max(ids) + 1
