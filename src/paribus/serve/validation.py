"""What is wrong with a body, in the words of this house and the shape of OpenAI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paribus.serve.http_errors import RequestError

_N_SHOWN = 3


def validation_error(faults: Sequence[Mapping[str, Any]]) -> RequestError:
    """One error for all that pydantic found; the first names the parameter."""
    places = [_place(fault) for fault in faults]
    messages = []
    for place, fault in zip(places[:_N_SHOWN], faults, strict=False):
        messages.append(f"{place or 'body'}: {_words(fault)}")
    message = "; ".join(messages)
    if len(faults) > _N_SHOWN:
        message += f"; and {len(faults) - _N_SHOWN} more"
    return RequestError(400, message, _code(faults[0]), places[0] or None)


def _place(fault: Mapping[str, Any]) -> str:
    path = [str(one)[:100] for one in fault["loc"] if one != "body"]
    if fault["type"] == "json_invalid":
        return ""
    return ".".join(path)


def _code(fault: Mapping[str, Any]) -> str:
    match fault["type"]:
        case "extra_forbidden":
            return "unknown_parameter"
        case "missing":
            return "missing_required_parameter"
        case "json_invalid":
            return "invalid_json"
        case _:
            return "invalid_value"


def _words(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "extra_forbidden":
        return "there is no such parameter; leave it out"
    if fault["type"] == "missing":
        return "it is missing; give it"
    return str(fault["msg"])[:300]
