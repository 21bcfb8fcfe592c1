"""A tokenizer that loses text is refused before training: what it lost would be scored as if it
had been read.
"""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers
from trained_study import make_small_plan

from paribus.errors import SpecError

LETTERS = "ab01+="  # of the little study's languages


def letters(path: Path, known: str, decoder: Any) -> dict[str, str]:
    """A tokenizer.json with a word for each known letter and no bytes to fall back on."""
    library = Library(
        models.WordLevel({letter: place for place, letter in enumerate(known + "?")}, unk_token="?")
    )
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    library.decoder = decoder
    library.save(str(path))
    return {"kind": "file", "path": str(path)}


def test_letters_that_are_all_known_and_given_back_are_planned(
    study_cache: Path, tmp_path: Path
) -> None:
    whole = letters(tmp_path / "t.json", LETTERS, decoders.Fuse())
    assert make_small_plan(study_cache, {"base.corpus.tokenizer": whole}).arms[
        0
    ].dataset.tokenizer.unknown_id == len(LETTERS)


@pytest.mark.parametrize(
    ("known", "decoder", "lost"),
    [
        (
            LETTERS.replace("1", ""),
            decoders.Fuse(),
            r"'[0?+=]+', in which the tokenizer does not know a word",
        ),
        (
            LETTERS + " ",
            decoders.WordPiece(),
            r"'[ 01+=ab]+', which the tokenizer does not give back",
        ),
    ],
)
def test_a_tokenizer_that_loses_text_is_refused_before_training(
    study_cache: Path, tmp_path: Path, known: str, decoder: Any, lost: str
) -> None:
    tokenizer = letters(tmp_path / "t.json", known, decoder)
    said = (
        rf"primary.measure in full, reverse, causal: item [0-9a-f]+ has the target {lost}, so its"
        r" bytes are not those "
        r"that are predicted; use a tokenizer that loses nothing, such as byte-level BPE"
    )
    with pytest.raises(SpecError, match=said):
        make_small_plan(study_cache, {"base.corpus.tokenizer": tokenizer})
