"""Language-model architectures, all else equal.

    import paribus as pb

    spec = pb.load("gpt2", n_layers=4)
    model = pb.build(spec, seed=1)

Each verb of the command line is a function of the same name here. Where that is the name of a package too, which
Python then puts in its place, the function says what the verb is done to: `train_run`, `generate_text`, `build_corpus`.
Importing paribus imports nothing else: a name's home is imported when the name is first used, and only what computes
needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from paribus.batch import Batch as Batch
    from paribus.cli.corpus import build_corpus as build_corpus
    from paribus.cli.diff import diff as diff
    from paribus.cli.doctor import doctor as doctor
    from paribus.cli.generate import generate_text as generate_text
    from paribus.cli.price import price as price
    from paribus.cli.show import show as show
    from paribus.cli.train import train_run as train_run
    from paribus.interop import export as export
    from paribus.interop import import_ as import_
    from paribus.model import build as build
    from paribus.model import restore as restore
    from paribus.model import save as save
    from paribus.record import runs as runs
    from paribus.spec import load as load
else:
    _HOMES = {
        "Batch": "paribus.batch",
        "build": "paribus.model",
        "build_corpus": "paribus.cli.corpus",
        "diff": "paribus.cli.diff",
        "doctor": "paribus.cli.doctor",
        "export": "paribus.interop",
        "generate_text": "paribus.cli.generate",
        "import_": "paribus.interop",
        "load": "paribus.spec",
        "price": "paribus.cli.price",
        "restore": "paribus.model",
        "runs": "paribus.record",
        "save": "paribus.model",
        "show": "paribus.cli.show",
        "train_run": "paribus.cli.train",
    }
    _PACKAGED = {"corpus": "build_corpus", "generate": "generate_text", "train": "train_run"}  # verb → its function

    def __getattr__(name: str) -> Any:
        if name in _PACKAGED:
            raise AttributeError(f"'paribus.{name}' is a package, to be imported; the verb is {_PACKAGED[name]!r}")
        if name not in _HOMES:
            raise AttributeError(f"module 'paribus' has no attribute {name!r}; it has {', '.join(_HOMES)}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted([*globals(), *_HOMES])
