"""The families whose weights go in and out."""

from pathlib import Path
from typing import Any

from paribus.errors import RecordError, UnsupportedError
from paribus.interop.bart import BART
from paribus.interop.bert import BERT
from paribus.interop.deepseek import DEEPSEEK_V3
from paribus.interop.family import ModelFamily
from paribus.interop.gpt2 import GPT2
from paribus.interop.llama import LLAMA
from paribus.interop.mixtral import MIXTRAL
from paribus.interop.openai_gpt import OPENAI_GPT
from paribus.interop.t5 import T5
from paribus.nearest import did_you_mean

FAMILIES: dict[str, ModelFamily] = {
    family.model_type: family
    for family in (OPENAI_GPT, GPT2, LLAMA, BERT, T5, BART, MIXTRAL, DEEPSEEK_V3)
}


def find_family(config: dict[str, Any], where: Path) -> ModelFamily:
    """The family a config names."""
    name = config.get("model_type")
    if not isinstance(name, str):
        raise RecordError(f"{where} has no model_type; use one of {', '.join(FAMILIES)}")
    if name not in FAMILIES:
        advice = did_you_mean(name, FAMILIES)
        raise UnsupportedError(
            f"{where}: model_type is {name!r}; {advice}use one of {', '.join(FAMILIES)}"
        )
    return FAMILIES[name]
