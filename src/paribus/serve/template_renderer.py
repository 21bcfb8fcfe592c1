"""Renders chat templates in jinja's sandbox: a program that `template_process` starts.

It reads a line of JSON for each template and answers with a line. It imports nothing of paribus,
so that it starts quickly and stays small.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MAX_FAULT_LETTERS = 500


def _environment() -> ImmutableSandboxedEnvironment:
    """The environment in which transformers renders such templates."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _write_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _write_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _answer(line: str, max_text: int) -> dict[str, str]:
    table = json.loads(line)
    try:
        text = _environment().from_string(table["source"]).render(table["values"])
    except Exception as fault:  # whatever a foreign program does
        return {"fault": f"{type(fault).__name__}: {fault}"[:_MAX_FAULT_LETTERS]}
    if len(text.encode("utf-8", "surrogatepass")) > max_text:
        return {"fault": f"it gives more than {max_text} bytes"}
    return {"text": text}


def _main() -> None:
    max_bytes, max_text = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    answers = sys.stdout
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(line, max_text)) + "\n")
        answers.flush()


if __name__ == "__main__":
    _main()
