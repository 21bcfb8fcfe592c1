"""Keys of a config that change no logit, since no class of transformers reads them: passed
over, with a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paribus.interop.config_keys import CLASS_ENDINGS, Config

IGNORED_KEYS = frozenset(
    {
        "is_llama_config",
        "rope_interleaved",
        "transformers.js_config",
        "_num_labels",
        "replacing_rate",
    }
)
IGNORED_PREFIXES = ("student_",)  # what a model was distilled into
AUTO_MAP = "auto_map"
ALL_CLASS_ENDINGS = ("LMHeadModel", *CLASS_ENDINGS, "Config")  # of a family's classes


def ignored_keys(config: Config, classname: str) -> dict[str, Any]:
    """The keys of a config that are passed over where its class is `classname`."""
    return {name: value for name, value in config.items() if _is_ignored(name, value, classname)}


def _is_ignored(name: str, value: Any, classname: str) -> bool:
    if name == AUTO_MAP:
        return bool(value) and isinstance(value, Mapping) and _names_known_classes(value, classname)
    if name == "rope_interleaved":
        return value is False  # true would be another order of channels
    return name in IGNORED_KEYS or name.startswith(IGNORED_PREFIXES)


def _names_known_classes(auto_map: Mapping[str, Any], classname: str) -> bool:
    """Is each class that a checkpoint brings code for one that transformers has itself?"""
    stem = next(
        classname.removesuffix(ending) for ending in ALL_CLASS_ENDINGS if classname.endswith(ending)
    )
    class_names = {stem + ending for ending in ALL_CLASS_ENDINGS}
    return all(
        isinstance(code, str) and code.rpartition(".")[2] in class_names
        for code in auto_map.values()
    )


def ignored_key_notes(extra_config: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each key of `extra_config` that was passed over."""
    for name in extra_config:
        if name == AUTO_MAP:
            yield (
                f"{name} is passed over: transformers has these classes itself, and no remote code"
                " is run"
            )
        elif name in IGNORED_KEYS or name.startswith(IGNORED_PREFIXES):
            yield (
                f"{name} is passed over: transformers does not read it, and no logit depends on it"
            )
