"""What can be called from a shell? One file per verb, found by its name and imported when it is
called.

Exit status: 0 done; 1 this machine, a kernel or a file cannot do it, or a check failed; 2 a mistake
in the arguments or in a file; 3 a confound; 4 some runs of a design failed; 75 a study was
interrupted and can be resumed; 130 (Ctrl-C), 143 (SIGTERM), 138 (SIGUSR1) and 140 (SIGUSR2)
interrupted, and `train` has saved its run.
"""

import ast
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from pkgutil import iter_modules

import typer

from paribus import __version__
from paribus.cli.terminal.completion import complete, is_asked_to_complete
from paribus.cli.terminal.console import console, print_errors, replace_unencodable
from paribus.cli.terminal.torchrun_summary import write_to_summary
from paribus.errors import ConfoundError, ParibusError, SpecError
from paribus.escapes import escaped_streams
from paribus.nearest import did_you_mean


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the exit status."""
    if sys.stdout is None:  # closed by the caller, as in `paribus show >&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    replace_unencodable()
    with escaped_streams():
        if arguments is None:
            arguments = sys.argv[1:]
        return _exit_status(list(arguments))


def _exit_status(arguments: list[str]) -> int:
    """The exit status; every refusal is printed on a line."""
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
        return status
    except SpecError as fault:
        print_errors(fault.problems)
        return 2
    except ConfoundError as fault:
        print_errors(fault.problems)
        return 3
    except ParibusError as fault:
        print_errors([str(fault)])
        return 1
    except BrokenPipeError:
        # The reader has gone, as in `paribus show | head`; Python would complain once more when it
        # closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ImportError as fault:
        print_errors([_describe_missing_library(fault, arguments[0])])
        return 1
    except (MemoryError, RuntimeError) as fault:
        if not _is_out_of_memory(fault):
            write_to_summary(traceback.format_exc())
            raise
        print_errors(
            [
                f"`paribus {arguments[0]}` needs more memory than there is: {fault}; use smaller"
                " sizes"
            ]
        )
        return 1
    except OSError as fault:
        print_errors([_describe_os_error(fault)])
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception:
        write_to_summary(traceback.format_exc())
        raise


def _describe_os_error(fault: OSError) -> str:
    if fault.filename:
        return f"{fault.filename}: {fault.strerror}"
    return str(fault)


def _describe_missing_library(fault: ImportError, verb: str) -> str:
    """What a verb needs and cannot have; a library that is there and does not load says why."""
    missing = (fault.name or "a library").partition(".")[0]
    if missing == __name__.partition(".")[0]:
        raise fault
    if isinstance(fault, ModuleNotFoundError):
        return (
            f"`paribus {verb}` needs {missing}, which is not installed; run pip install {missing}"
        )
    return f"`paribus {verb}` needs {missing}, which cannot be loaded: {fault}; install it again"


class _NoTorch(MetaPathFinder):
    """Finds torch nowhere."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _hide_blocked_torch() -> None:
    """Where an import of torch is blocked by a None in its place, libraries that look there
    would trip over it.
    """
    if "torch" in sys.modules and sys.modules["torch"] is None:
        del sys.modules["torch"]
        sys.meta_path.insert(0, _NoTorch())


def _is_out_of_memory(fault: Exception) -> bool:
    """Also in torch, which is not imported here for that."""
    words = ("can't allocate memory", "out of memory")
    return isinstance(fault, MemoryError) or any(word in str(fault) for word in words)


def verbs() -> dict[str, str]:
    """Verb → the name of its module; a Python keyword such as `import` carries an underscore
    there, and a verb of two words has one for its hyphen.
    """
    modules: dict[str, str] = {}
    for module in iter_modules(__path__):
        if not module.ispkg and not module.name.startswith("_"):
            modules[module.name.rstrip("_").replace("_", "-")] = module.name
    return modules


def verb_summary(module: str) -> str:
    """What a verb does, read from its file without running it."""
    tree = ast.parse((Path(__path__[0]) / f"{module}.py").read_text("utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def _dispatch(arguments: list[str]) -> int:
    if is_asked_to_complete(arguments):
        return complete(
            arguments, {verb: verb_summary(module) for verb, module in verbs().items()}, _command
        )
    match arguments:
        case [] | ["--help" | "-h", *_]:
            _print_help()
        case ["--version", *_]:
            console().print(f"paribus {__version__}")
        case [verb, *rest]:
            return _call_verb(verb, rest)
    return 0


def _command(verb: str) -> Callable[..., None]:
    """The command of a verb, to be completed."""
    return import_module(f"{__name__}.{verbs()[verb]}").command


def _call_verb(verb: str, rest: list[str]) -> int:
    modules = verbs()
    if verb not in modules:
        advice = did_you_mean(verb, modules)
        raise SpecError(
            f"{verb!r} is not a verb of paribus; {advice}verbs are {', '.join(modules)}"
        )
    _hide_blocked_torch()
    module = import_module(f"{__name__}.{modules[verb]}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(verb, help=module.__doc__)(module.command)
    try:
        typer.main.get_command(app).main(rest, f"paribus {verb}")
    except SystemExit as done:
        if isinstance(done.code, int):
            return done.code
        return 0
    return 0


def _print_help() -> None:
    page, modules = console(), verbs()
    width = max(map(len, modules))
    page.print("Usage: paribus VERB …\n\nCompare language-model architectures, all else equal.\n")
    for verb, module in modules.items():
        page.print(f"  {verb:{width}}  {verb_summary(module)}")
    page.print("\nparibus VERB --help explains a verb; paribus --version prints the version.")
    page.print("paribus --install-completion adds completion of verbs and options to your shell.")
    page.print(
        "Exit status: 0 done, 1 not possible here or a check failed, 2 a mistake in the arguments"
        " or in a file,"
    )
    page.print(
        "3 a confound, 4 some runs failed, 75 interrupted (train: 130 or 143): run the same command"
        " again."
    )
