"""Language-model architectures, all else equal.

    import paribus as pb

    spec = pb.load("gpt2", n_layers=4)
    model = pb.build(spec, seed=1)

Each verb of the command line is a function of the same name here. Where that is the name of a
package too, which Python then puts in its place, the function says what the verb is done to:
`train_run`, `evaluate_run` … Importing paribus imports nothing else: a name's home is imported when
the name is first used, and only what computes needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from paribus.batch import Batch as Batch
    from paribus.cli.chat import chat as chat
    from paribus.cli.chat_demo import chat_demo as chat_demo
    from paribus.cli.corpus import build_corpus as build_corpus
    from paribus.cli.demo import demo as demo
    from paribus.cli.diff import diff as diff
    from paribus.cli.doctor import doctor as doctor
    from paribus.cli.evaluate import evaluate_run as evaluate_run
    from paribus.cli.fields import fields as fields
    from paribus.cli.fill_mask import fill_mask as fill_mask
    from paribus.cli.generate import generate_text as generate_text
    from paribus.cli.generate import generate_texts as generate_texts
    from paribus.cli.law import law as law
    from paribus.cli.pack import pack as pack
    from paribus.cli.plan import plan as plan
    from paribus.cli.price import price as price
    from paribus.cli.probe import probe_run as probe_run
    from paribus.cli.prune import prune as prune
    from paribus.cli.report import write_report as write_report
    from paribus.cli.rows import rows as rows
    from paribus.cli.rows import verdicts as verdicts
    from paribus.cli.run import run as run
    from paribus.cli.serve import serve_runs as serve_runs
    from paribus.cli.show import show as show
    from paribus.cli.studies import studies as studies
    from paribus.cli.tasks import tasks as tasks
    from paribus.cli.tasks import write_pairs as write_pairs
    from paribus.cli.terminal.task_evaluation import evaluate_tasks as evaluate_tasks
    from paribus.cli.train import train_run as train_run
    from paribus.cli.turns import turns as turns
    from paribus.cli.turns import turns_of_design as turns_of_design
    from paribus.cli.unpack import unpack as unpack
    from paribus.cli.watch import watch as watch
    from paribus.design.turn_study import TurnTiming as TurnTiming
    from paribus.generate import Sampling as Sampling
    from paribus.interop import export as export
    from paribus.interop import import_ as import_
    from paribus.model import build as build
    from paribus.model import restore as restore
    from paribus.model import save as save
    from paribus.probe.look import look as look
    from paribus.record import runs as runs
    from paribus.spec import load as load
    from paribus.spec.conversation import Conversation as Conversation
    from paribus.spec.design import Design as Design
    from paribus.workspace import Execution as Execution
    from paribus.workspace import Local as Local
    from paribus.workspace import Ray as Ray
    from paribus.workspace import Slurm as Slurm
    from paribus.workspace import Workspace as Workspace
else:
    _HOMES = {
        "Batch": "paribus.batch",
        "Conversation": "paribus.spec.conversation",
        "Design": "paribus.spec.design",
        "Execution": "paribus.workspace",
        "Local": "paribus.workspace",
        "Ray": "paribus.workspace",
        "Sampling": "paribus.generate",
        "Slurm": "paribus.workspace",
        "TurnTiming": "paribus.design.turn_study",
        "Workspace": "paribus.workspace",
        "build": "paribus.model",
        "build_corpus": "paribus.cli.corpus",
        "chat": "paribus.cli.chat",
        "chat_demo": "paribus.cli.chat_demo",
        "demo": "paribus.cli.demo",
        "diff": "paribus.cli.diff",
        "doctor": "paribus.cli.doctor",
        "evaluate_run": "paribus.cli.evaluate",
        "evaluate_tasks": "paribus.cli.terminal.task_evaluation",
        "export": "paribus.interop",
        "fields": "paribus.cli.fields",
        "fill_mask": "paribus.cli.fill_mask",
        "generate_text": "paribus.cli.generate",
        "generate_texts": "paribus.cli.generate",
        "import_": "paribus.interop",
        "law": "paribus.cli.law",
        "load": "paribus.spec",
        "look": "paribus.probe.look",
        "pack": "paribus.cli.pack",
        "plan": "paribus.cli.plan",
        "price": "paribus.cli.price",
        "probe_run": "paribus.cli.probe",
        "prune": "paribus.cli.prune",
        "restore": "paribus.model",
        "rows": "paribus.cli.rows",
        "run": "paribus.cli.run",
        "runs": "paribus.record",
        "save": "paribus.model",
        "serve_runs": "paribus.cli.serve",
        "show": "paribus.cli.show",
        "studies": "paribus.cli.studies",
        "tasks": "paribus.cli.tasks",
        "train_run": "paribus.cli.train",
        "turns": "paribus.cli.turns",
        "turns_of_design": "paribus.cli.turns",
        "unpack": "paribus.cli.unpack",
        "verdicts": "paribus.cli.rows",
        "watch": "paribus.cli.watch",
        "write_pairs": "paribus.cli.tasks",
        "write_report": "paribus.cli.report",
    }
    _PACKAGED = {  # verb → its function
        "corpus": "build_corpus",
        "evaluate": "evaluate_run",
        "generate": "generate_text",
        "probe": "probe_run",
        "report": "write_report",
        "serve": "serve_runs",
        "train": "train_run",
    }

    def __getattr__(name: str) -> Any:
        if name in _PACKAGED:
            raise AttributeError(
                f"'paribus.{name}' is a package, to be imported; the verb is {_PACKAGED[name]!r}"
            )
        if name not in _HOMES:
            raise AttributeError(
                f"module 'paribus' has no attribute {name!r}; it has {', '.join(_HOMES)}"
            )
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted([*globals(), *_HOMES])
