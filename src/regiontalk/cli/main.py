"""The command group. A verb's module is imported when the verb is used, so `--help` stays fast."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from itertools import chain
from pathlib import Path

import click
from click.shell_completion import CompletionItem, shell_complete

from regiontalk import __version__
from regiontalk.cli import console
from regiontalk.errors import RegionTalkError
from regiontalk.io.files import DISK_FULL_ERRORS, output_error

HELP = {
    "With photos": {
        "caption": "Find the regions of photos and caption each one.",
        "describe": "Write one sentence for each photo.",
        "align": "Show which words of a sentence belong to which region of a photo.",
        "find": "Find the regions of photos that show what a phrase says.",
        "index": "Index the photos of a folder, so that search can find them.",
        "search": "Find photos in an indexed folder by their content.",
        "teach": "Teach the model new words from a few examples.",
        "serve": "Run a web page and an HTTP API that caption and search photos.",
        "live": "Show what the camera sees, with captions drawn on it as it goes.",
        "mcp": "Give assistants tools to search and look at photos.",
    },
    "For research": {
        "data": "Turn public data sets, or your own, into records; check, count, join and merge "
        "them.",
        "train": "Train a model from a recipe.",
        "export": "Turn a trained checkpoint into a model folder that runs without torch.",
        "fit": "Fit a model's settings, ranking and probabilities to dev photos.",
        "predict": "Write a model's regions and captions for the photos of a data set.",
        "evaluate": "Compute the papers' metrics, on files of predictions or on a model.",
        "baseline": "Run the papers' comparison systems on a data set.",
    },
    "This program": {
        "doctor": "Show what is installed, which device and model are used, and how to fix what is "
        "missing.",
        "completion": "Print a script that makes the Tab key complete verbs, options and paths.",
    },
}
"""The verbs as the help groups them."""
VERBS = dict(chain.from_iterable(verbs.items() for verbs in HELP.values()))

COMPLETE = "_REGIONTALK_COMPLETE"
"""The environment variable that the script of `regiontalk completion` sets to ask for
completions."""


class LazyVerbs(click.Group):
    """Lists every verb from `VERBS`; imports `regiontalk.cli.VERB` only to run it or to show its
    help."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            close = ", ".join(difflib.get_close_matches(args[0], VERBS, n=1))
            raise click.UsageError(
                f"No such verb {args[0]!r}." + (f" Did you mean {close}?" if close else ""), ctx
            )
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """click would import every verb for its help."""
        verbs = [
            CompletionItem(verb, help=text)
            for verb, text in VERBS.items()
            if verb.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(VERBS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"regiontalk.cli.{cmd_name}").command
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        for name, verbs in HELP.items():
            with formatter.section(name):
                formatter.write_dl(list(verbs.items()))


@click.group(cls=LazyVerbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="regiontalk")
def program() -> None:
    """Find and caption the regions of photos, align sentences with them, and search photos by their
    content."""


def main() -> None:
    _replace_closed_streams()
    sys.exit(run())


def _replace_closed_streams() -> None:
    """Standard streams that were closed before the start (`>&-`) lead nowhere.

    Otherwise they would be None, and the next file that is opened would take their number and what
    libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  (for as long as we run)


def run(arguments: list[str] | None = None) -> int:
    """Runs a verb and turns every failure into one line and an exit code."""
    # Not `program.main`: click's own handling would take exit codes and closed pipes out of our
    # hands.
    given = sys.argv[1:] if arguments is None else arguments
    if COMPLETE in os.environ:
        return shell_complete(program, {}, "regiontalk", COMPLETE, os.environ[COMPLETE])
    try:
        with program.make_context("regiontalk", given or ["--help"]) as context:
            program.invoke(context)
        sys.stdout.flush()
    except RegionTalkError as error:
        return _fail(error.message, error.exit_code, error.hint)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _fail("stopped", 130)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        context_of_error = getattr(error, "ctx", None)
        hint = f"{context_of_error.command_path} --help" if context_of_error else None
        return _fail(error.format_message(), 2, hint)
    except OSError as error:
        return _stdout_failed(error)
    except MemoryError:
        return _fail("there is not enough memory", 1, "close other programs, or raise ulimit -v")
    except Exception as error:
        return _unexpected(error)
    return 0


def _fail(text: str, exit_code: int, hint: str | None = None) -> int:
    console.message(f"regiontalk: {text}" + (f"  ({hint})" if hint else ""))
    return exit_code


def _stdout_failed(error: OSError) -> int:
    """A closed pipe is not an error; files that cannot be written have been reported before."""
    if not isinstance(error, BrokenPipeError) and error.errno not in DISK_FULL_ERRORS:
        return _unexpected(error)
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
    )  # or Python fails again when it ends
    if isinstance(error, BrokenPipeError):
        return 0
    full = output_error("standard output", error)
    return _fail(full.message, full.exit_code)


def _unexpected(error: Exception) -> int:
    if os.environ.get("REGIONTALK_TRACEBACK"):
        traceback.print_exc()
    return _fail(
        f"unexpected {type(error).__name__}: {error}",
        1,
        "REGIONTALK_TRACEBACK=1 shows where; please report it",
    )
