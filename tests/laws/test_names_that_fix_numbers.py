"""Some names are part of the numbers: labels of random streams, names of parameters and of places
of dropout. A change of one of them changes every run, so each is written down here.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from typing import get_args

import pytest
import torch
from source_trees import source_trees
from tiny_model import PRESETS, tiny_architecture

from paribus.model import Transformer
from paribus.runtime import derive_seed
from paribus.spec.languages import Language

STREAMS = {
    "derive_seed",
    "torch_generator",
    "numpy_generator",
    "numpy_generator_per_name",
    "derive_seed_per_name",
    "random_uint64",
}
# Every label in the source with its key under seed 1; a `*` is a name that is computed.
KEYS = {
    ("added rows", "*"): 8236473760257784537,
    ("conversation",): 1711662663450596943,
    ("corpus", "*", "*"): 4911584626293569647,
    ("corpus", "*", "*", "follow-up"): 2423088006568788899,
    ("corpus", "*", "*", "phrasing"): 2484938539321871980,
    ("corpus", "*", "*", "mistake"): 8436976138862053959,
    ("corpus", "*", "documents", "*"): 1530162627393860939,
    ("corpus", "*", "function", "*"): 4260483795385585731,
    ("corpus", "*", "offset", "*"): 1685504920790008121,
    ("corpus", "*", "rows", "*"): 1346274784690195070,
    ("corpus", "*", "targets"): 9200520645988782311,
    ("corpus", "mixture", "*"): 3429303343427622199,
    ("corpus", "sample", "*"): 2590097792468781423,
    ("corpus", "translation", "lexicon"): 6047806068304750374,
    ("descent similarity", "random attention"): 7128020824898041292,
    ("descent similarity", "random update"): 349824184755370534,
    ("doctor", "*"): 4530262661405676473,
    ("dropout", "*"): 2822713406142266700,
    ("experts", "domains"): 798172121008093212,
    ("flow", "directions"): 4042508420098494753,
    ("generate", "*"): 7389337568651507783,
    ("generate sample", "*"): 3426668609597465257,
    ("masked", "*"): 4303228456995968963,
    ("objective", "*"): 1340224682260338218,
    ("own samples", "*"): 5411883784218041411,
    ("own samples", "*", "*"): 3830725240056028291,
    ("position probe", "batches"): 8405969141666551260,
    ("position probe", "documents"): 8496417043490297470,
    ("position probe", "shuffled positions"): 3514091910181587322,
    ("position probe", "weights"): 7059147186111350458,
    ("probe", "*"): 9098154386017654709,
    ("shuffled context", "*"): 5489944931531505395,
    ("spans", "*"): 8468026455049558147,
    ("split", "*"): 3213047036067593115,
    ("stage", "*"): 6701510826745330120,
    ("start", "*"): 2213930520131987723,
    ("task", "*", "*"): 7461625329113351383,
    ("task", "function-summary", "*"): 3932839773789002819,
    ("task", "demonstrations", "*"): 7591751120109494165,
}
# A language draws its questions from a stream of its kind's name.
LANGUAGES = {
    "copy",
    "reverse",
    "sort",
    "recall",
    "linear",
    "translation",
    "arithmetic",
    "regression",
    "classification",
}
# Digests of the names in a model's state, in their order, and of its places of dropout.
PARAMETERS = {
    "bart": "82efd559cc8116e9",
    "bert": "7587a3fc38a052f3",
    "deepseek-v3": "0618623a8d7a0f92",
    "encdec-causal-encoder": "5663d4c2150ee8a1",
    "encdec-mixed-encoder": "5663d4c2150ee8a1",
    "encdec-shared": "60f67b3e2a60703e",
    "encdec-turns": "5663d4c2150ee8a1",
    "fixed-head": "7587a3fc38a052f3",
    "gpt1": "c4aac9f3c7a25ea6",
    "gpt2": "3e37dc1336a90294",
    "hybrid": "3e37dc1336a90294",
    "llama": "c2562a42fe1795c2",
    "mixed-heads": "7587a3fc38a052f3",
    "mixed-layers": "7587a3fc38a052f3",
    "mixtral": "7269fc329e402ef7",
    "palm": "769dea036931deed",
    "switch": "bd477e11b2bfd028",
    "t5": "5663d4c2150ee8a1",
    "t5-v1.1": "5c1e42ee0dcf3dc3",
    "unilm": "3e37dc1336a90294",
}
DROPOUT = {
    "bart": "8ff04660eb9bbba6",
    "bert": "dd3102efb2557631",
    "deepseek-v3": "dd3102efb2557631",
    "encdec-causal-encoder": "8ff04660eb9bbba6",
    "encdec-mixed-encoder": "8ff04660eb9bbba6",
    "encdec-shared": "8ff04660eb9bbba6",
    "encdec-turns": "8ff04660eb9bbba6",
    "fixed-head": "dd3102efb2557631",
    "gpt1": "dd3102efb2557631",
    "gpt2": "dd3102efb2557631",
    "hybrid": "dd3102efb2557631",
    "llama": "dd3102efb2557631",
    "mixed-heads": "dd3102efb2557631",
    "mixed-layers": "dd3102efb2557631",
    "mixtral": "dd3102efb2557631",
    "palm": "dd3102efb2557631",
    "switch": "8ff04660eb9bbba6",
    "t5": "8ff04660eb9bbba6",
    "t5-v1.1": "8ff04660eb9bbba6",
    "unilm": "dd3102efb2557631",
}


def labels(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """What each call that makes a stream is given beside its seed."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name in STREAMS:
            yield tuple(map(label, node.args[1:]))


def label(argument: ast.expr) -> str:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    return "*"


def digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def tiny_model(preset: str) -> Transformer:
    with torch.device("meta"):
        return Transformer(tiny_architecture(preset))


def test_every_label_of_a_random_stream_is_written_down() -> None:
    in_source: set[tuple[str, ...]] = set()
    for path, tree in source_trees().items():
        if path.name != "runtime.py":
            in_source |= set(labels(tree))
    assert in_source == set(KEYS)


@pytest.mark.parametrize("names", KEYS, ids=" ".join)
def test_the_key_of_each_label_stays(names: tuple[str, ...]) -> None:
    assert derive_seed(1, *names) == KEYS[names]


def test_a_renamed_label_shows() -> None:
    source = 'runtime.torch_generator(seed, "init", name), derive_seed(1, "split", text.k)'
    assert list(labels(ast.parse(source))) == [("init", "*"), ("split", "*")]


def test_the_kinds_of_languages_stay() -> None:
    kinds = {get_args(model.model_fields["kind"].annotation)[0] for model in subclasses(Language)}
    assert kinds == LANGUAGES


def subclasses(model: type[Language]) -> Iterator[type[Language]]:
    for inner in model.__subclasses__():
        if "kind" in inner.model_fields:
            yield inner
        yield from subclasses(inner)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_names_of_parameters_and_of_places_of_dropout_stay(preset: str) -> None:
    model = tiny_model(preset)
    assert digest(model.state_dict()) == PARAMETERS[preset]
    assert digest(model.dropout_sites) == DROPOUT[preset]
