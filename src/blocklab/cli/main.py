"""The command line: every command, and how errors become one message and an exit code.

Exit codes: 0 done; 1 a cell failed, or this machine cannot do it; 2 the study or the call is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from blocklab import __version__
from blocklab.cli.listed import MARKUP, Entry, group
from blocklab.cli.streams import Unwritable, give_up
from blocklab.errors import BlocklabError, StudyError
from blocklab.sites import COMMANDS

# In the order of the help.
ENTRIES = {
    "setup": Entry("blocklab.cli.setup", "setup"),
    "quickstart": Entry("blocklab.cli.setup", "quickstart"),
    "run": Entry("blocklab.cli.studies", "run"),
    "resume": Entry("blocklab.cli.studies", "resume"),
    "check": Entry("blocklab.cli.studies", "check"),
    "plan": Entry("blocklab.cli.plan", "plan"),
    "predict": Entry("blocklab.cli.predict", "predict"),
    "schema": Entry("blocklab.cli.studies", "schema"),
    "report": Entry("blocklab.cli.report", "report"),
    "drill": Entry("blocklab.cli.drill", "drill"),
    "verdict": Entry("blocklab.cli.drill", "verdict"),
    "compare": Entry("blocklab.cli.compare", "compare"),
    "size": Entry("blocklab.cli.size", "size"),
    "export": Entry("blocklab.cli.export", "export"),
    "query": Entry("blocklab.cli.export", "query"),
    "studies": Entry("blocklab.cli.catalogue", "studies"),
    "new": Entry("blocklab.cli.catalogue", "new"),
    "up": Entry("blocklab.cli.lab", "up"),
    "down": Entry("blocklab.cli.lab", "down"),
    "doctor": Entry("blocklab.cli.doctor", "doctor"),
    "calibrate": Entry("blocklab.cli.calibrate", "calibrate"),
    "like": Entry("blocklab.cli.like", "like"),
    # ``import`` is no name for a function.
    "import": Entry("blocklab.cli.imports", "import_"),
    # What follows the node's name belongs to the node's command, dashes and all.
    "sh": Entry(
        "blocklab.cli.lab", "sh", settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
    ),
    "leashed": Entry("blocklab.cli.leashed", "leashed", hidden=True),
} | {name: Entry(*there) for name, there in COMMANDS.items()}

app = typer.Typer(
    cls=group(ENTRIES),
    rich_markup_mode=MARKUP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What does a block-storage layout cost a database? Measured on real kernels, on one ordinary machine.",
)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print version, commit and node image, and exit."),
    lang: str = typer.Option("", "--lang", metavar="en|ja", help="Print in this language; default: that of LANG."),
) -> None:
    # cli.start has taken --lang already: modules are imported in their language.
    if version:
        from blocklab.model.commit import commit
        from blocklab.model.echo import echo
        from blocklab.sites import image_key

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
    from blocklab.model.terminal import Console, Text

    console = Console(stderr=True)
    more = error.more if isinstance(error, StudyError) else ()
    for each in (error, *more):
        console.print(Text("error: ", "bold red") + Text(each.message), soft_wrap=True)
        if each.hint:
            console.print(Text("  hint: ", "bold") + Text(each.hint), soft_wrap=True)


if __name__ == "__main__":
    main()
