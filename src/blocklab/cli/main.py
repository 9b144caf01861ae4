"""The command line: every command, and how errors become one message and an exit code.

Exit codes: 0 done; 1 a cell failed, or this machine cannot do it; 2 the study or the call is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from blocklab import __version__
from blocklab.cli import catalogue, imports, lab, studies
from blocklab.cli.calibrate import calibrate
from blocklab.cli.compare import compare
from blocklab.cli.doctor import doctor
from blocklab.cli.drill import drill, verdict
from blocklab.cli.export import export, query
from blocklab.cli.like import like
from blocklab.cli.plan import plan
from blocklab.cli.predict import predict
from blocklab.cli.report import report
from blocklab.cli.setup import quickstart, setup
from blocklab.cli.size import size
from blocklab.cli.streams import Unwritable, give_up
from blocklab.errors import BlocklabError, StudyError
from blocklab.model.commit import commit
from blocklab.model.terminal import Console, Text, echo
from blocklab.sites import COMMANDS, image_key
from blocklab.sites import command as site_command
from blocklab.sites.leashed import main as held

app = typer.Typer(
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What does a block-storage layout cost a database? Measured on real kernels, on one ordinary machine.",
)


def leashed() -> None:
    """Of `--dask hosts.yaml`, on a host: a program that ends with the connection."""
    sys.exit(held())


_COMMANDS: tuple[Callable[..., None], ...] = (
    setup, quickstart, studies.run, studies.resume, studies.check, plan, predict, studies.schema, report,
    drill, verdict, compare, size, export, query, catalogue.studies, catalogue.new, lab.up, lab.down, doctor,
    calibrate, like,
)  # fmt: skip
for command in _COMMANDS:
    app.command()(command)
# ``import`` is no name for a function.
app.command("import")(imports.import_)
# What follows the node's name belongs to the node's command, dashes and all.
app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(lab.sh)
app.command(hidden=True)(leashed)
for name in COMMANDS:
    app.add_typer(site_command(name), name=name)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print version, commit and node image, and exit."),
    lang: str = typer.Option("", "--lang", metavar="en|ja", help="Print in this language; default: that of LANG."),
) -> None:
    # cli.start has taken --lang already: modules are imported in their language.
    if version:
        echo(f"blocklab {__version__}\ncommit {commit() or 'unknown'}\nimage {image_key()}")
        raise typer.Exit


def main() -> None:
    """Entry point."""
    sys.argv[1:] = predicting(sys.argv[1:])
    try:
        app()
    except BlocklabError as error:
        _show(error)
        sys.exit(2 if isinstance(error, StudyError) else 1)
    except Unwritable as error:
        _show(BlocklabError(give_up(error)))
        sys.exit(1)


def predicting(options: Sequence[str]) -> list[str]:
    """``--predict`` without a number becomes one with 0: typer knows no value that may be left out."""
    found = []
    for at, option in enumerate(options):
        bare = option == "--predict" and not "".join(options[at + 1 : at + 2]).isdigit()
        found += ["--predict", "0"] if bare else [option]
    return found


def _show(error: BlocklabError) -> None:
    console = Console(stderr=True)
    more = error.more if isinstance(error, StudyError) else ()
    for each in (error, *more):
        console.print(Text("error: ", "bold red") + Text(each.message), soft_wrap=True)
        if each.hint:
            console.print(Text("  hint: ", "bold") + Text(each.hint), soft_wrap=True)


if __name__ == "__main__":
    main()
