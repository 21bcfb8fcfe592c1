import hashlib
import math

import pytest

from paribus.canonical import canonical_json
from paribus.errors import RecordError
from paribus.record import run_address

PRETRAIN, TUNE = {"name": "pretrain", "seed": 3}, {"name": "tune", "rate": 0.1}


def test_an_address_is_the_hash_of_a_stage_and_its_parents_address():
    first = hashlib.sha256(b'{"parent":null,"stage":{"name":"pretrain","seed":3}}').hexdigest()
    second = hashlib.sha256(
        f'{{"parent":"{first}","stage":{{"name":"tune","rate":0.1}}}}'.encode()
    ).hexdigest()
    assert run_address([PRETRAIN]) == first
    assert run_address([PRETRAIN, TUNE]) == second


def test_the_order_of_keys_does_not_matter_and_that_of_stages_does():
    assert run_address([{"seed": 3, "name": "pretrain"}]) == run_address([PRETRAIN])
    assert run_address([PRETRAIN, TUNE]) != run_address([TUNE, PRETRAIN])


def test_the_same_stage_after_another_parent_has_another_address():
    assert run_address([PRETRAIN, TUNE]) != run_address([{**PRETRAIN, "seed": 5}, TUNE])


@pytest.mark.parametrize("value", [math.nan, {1, 2}, {"a": object()}])
def test_what_json_cannot_say_has_no_address(value: object):
    said = r"a stage cannot be written as JSON: .*; give finite numbers, text, lists and tables"
    with pytest.raises(RecordError, match=said):
        run_address([{"value": value}])


def test_what_is_canonical_has_sorted_keys_and_no_spaces():
    assert canonical_json({"b": [1, 2.0, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,2.0,null]}'


def test_where_files_lie_is_no_part_of_an_address():
    def stage(folder: str, text: str = "0a1b") -> dict:
        sources = [{"kind": "files", "paths": [f"{folder}/a.txt"], "weight": 1.0}]
        tokenizer = {"kind": "file", "path": f"{folder}/tokenizer.json"}
        return {
            "text": text,
            "corpus": {"sources": sources, "tokenizer": tokenizer},
            "path": "kept",
        }

    assert run_address([stage("here")]) == run_address([stage("/there")])
    assert run_address([stage("here")]) != run_address([stage("here", text="2c3d")])
    assert run_address([stage("here")]) != run_address([{**stage("here"), "path": "another"}])
    assert run_address([stage("here")], with_places=True) != run_address(
        [stage("/there")], with_places=True
    )
