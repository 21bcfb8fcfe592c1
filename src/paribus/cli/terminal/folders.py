"""Where runs and texts are kept."""

from pathlib import Path
from typing import Annotated

import typer

Runs = Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs are kept.")]
Cache = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where tokenised text is kept; by default ~/.cache/paribus.")
]
