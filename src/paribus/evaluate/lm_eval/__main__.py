"""lm-evaluation-harness's own command line with the model `paribus`.

python -m paribus.evaluate.lm_eval --model paribus --model_args run=NAME --tasks blimp
"""

from __future__ import annotations

import sys

import lm_eval.models as _builtin_models  # noqa: F401  its own models, which a first entry hides
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.registry import model_registry

from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.evaluate.lm_eval.model import ParibusLM

MODEL_NAME = "paribus"


def register_model() -> None:
    """Let lm-eval know the model by its name; doing so twice is no fault."""
    model_registry.register(MODEL_NAME)(ParibusLM)


def main() -> None:
    """lm-eval's command line, with our errors in a line."""
    register_model()
    try:
        cli_evaluate()
    except (RecordError, SpecError, UnsupportedError) as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main()
