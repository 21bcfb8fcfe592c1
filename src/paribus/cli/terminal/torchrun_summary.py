"""What torchrun says in the end about a process of ours that failed.

torchrun prints a traceback of its own and then a summary. It has a file for each process, from
which it takes what the summary says of it. Without one it says only where to read about tracebacks.
"""

import json
import os
import time
from pathlib import Path

from paribus.escapes import escape_unprintable

ERROR_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"  # set by torchrun
_LOCAL_RANK_VARIABLE = "LOCAL_RANK"


def write_to_summary(text: str) -> bool:
    """Let the summary of torchrun show a text; False where there is no torchrun."""
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if not path:
        return False
    message = {
        "message": escape_unprintable(text),
        "extraInfo": {"timestamp": str(int(time.time()))},
    }
    try:
        Path(path).write_text(json.dumps({"message": message}), "utf-8")
    except OSError:
        return False
    return True


def is_first_of_machine() -> bool:
    """Is this the process that speaks for all that torchrun has started on a machine?"""
    return os.environ.get(_LOCAL_RANK_VARIABLE, "0") == "0"
