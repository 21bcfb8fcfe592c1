"""Samples and items beside a study: read back, absent at first, refused where they are not what
was written.
"""

import json

import pytest

from paribus.errors import RecordError
from paribus.record import open_study
from paribus.record.samples import (
    ItemText,
    PromptSample,
    read_item_texts,
    read_samples,
    write_item_texts,
    write_samples,
)


def test_what_is_written_is_read_back(tmp_path):
    own = open_study(tmp_path, "one")
    samples = (PromptSample("p <b>", {"a": "x\n"}, {"b": "it cannot"}),)
    items = {"i": ItemText("context", "target")}
    write_samples(own, samples)
    write_item_texts(own, items)
    assert (read_samples(own), read_item_texts(own)) == (samples, items)


def test_samples_under_older_names_are_read(tmp_path):
    own = open_study(tmp_path, "one")
    older = [{"prompt": "p", "said": {"a": "x"}, "refused": {"b": "it cannot"}}]
    (own.folder / "samples.json").write_text(json.dumps(older))
    assert read_samples(own) == (PromptSample("p", {"a": "x"}, {"b": "it cannot"}),)


def test_before_a_study_is_done_there_are_none(tmp_path):
    own = open_study(tmp_path, "one")
    assert (read_samples(own), read_item_texts(own)) == ((), {})


def test_files_of_another_shape_are_refused(tmp_path):
    own = open_study(tmp_path, "one")
    (own.folder / "samples.json").write_text("{}")
    with pytest.raises(
        RecordError,
        match=r"samples.json holds a dict; remove it, and `paribus run` writes it again",
    ):
        read_samples(own)
    (own.folder / "items.json").write_text('{"i": {"context": "c"}}')
    with pytest.raises(
        RecordError, match=r"items.json cannot be read: .*target.*; remove it, and `paribus run`"
    ):
        read_item_texts(own)
