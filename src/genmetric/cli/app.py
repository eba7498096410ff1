"""The group of commands. Commands are imported on use, and an error is one clear line."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click

from genmetric._text import near_names
from genmetric.cli.output import remark

#: Module of each command and its line in the help, which must not import it.
COMMANDS = {
    "demo": ("compare", "Compare metrics on bundled datasets; write a report."),
    "compare": ("compare", "Compare metrics on a table and recommend one."),
    "fit": ("fit", "Learn a metric from a table and save it."),
    "transform": ("apply", "Map rows into the learned space of a model."),
    "predict": ("apply", "Predict classes or numbers of rows with a saved model."),
    "neighbors": ("apply", "Find nearest rows and the columns that explain them."),
    "inspect": ("inspect", "Show the contents of a saved model."),
    "reproduce": ("reproduce", "Recompute the tables of the paper."),
    "datasets": ("reproduce", "List the datasets of the package."),
}

#: Commands that apply a model file.
MODEL_COMMANDS = ("transform", "predict", "neighbors", "inspect")

#: Errors of invalid input: one line and exit code 2. Any other error is a bug.
BAD_INPUT = (ValueError, OSError, ImportError, MemoryError, OverflowError)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in help order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"genmetric.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word, or suggest a similar one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = near_names(args[0], COMMANDS, 1)
            all_ = f"The commands are {', '.join(COMMANDS)}."
            ctx.fail(f"no command {args[0]!r}. {f'Did you mean {near[0]}?' if near else all_}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings=SETTINGS)
@click.version_option(package_name="genmetric", message="genmetric %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of errors.")
@click.pass_context
def cli(ctx: click.Context, /, **_: bool) -> None:
    """Learn a distance metric from a labelled table, and test whether it helps.

    DATA is a table with a header and one row per sample, such as a CSV or Parquet file. Start with
    `genmetric compare DATA --target COLUMN`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: Sequence[str] | None = None) -> int:
    """Run a command; report errors in one line on stderr.

    Parameters
    ----------
    args : sequence of str, default=None
        Arguments after ``genmetric``; those of the process by default.

    Returns
    -------
    int
        Exit code.
    """
    words = list(sys.argv[1:] if args is None else args)
    first = next((word for word in words if not word.startswith("-")), "")
    where = f"genmetric {first}" if first in COMMANDS else "genmetric"
    try:
        with _plain_warnings():
            code = cli.main(words, prog_name="genmetric", standalone_mode=False, obj=words)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit as stop:
        # click exits like this if the reader of a pipe has closed it, which is not an error.
        return _closed_pipe() if stop.code in (None, 1) else int(stop.code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return _closed_pipe()
        if words[:1] == ["--debug"]:
            traceback.print_exc()
        text, code = _one_line(error), 2
        if isinstance(error, click.MissingParameter):
            text += f" {where} --help lists the arguments and options."
        elif not isinstance(error, (click.ClickException, *BAD_INPUT)):
            # A model from elsewhere can contain anything, so it is the first suspect.
            code = 2 if first in MODEL_COMMANDS else 1
            bug = "this is a bug, please report it (genmetric --debug shows the traceback)"
            model = f"the model is damaged, and if genmetric wrote it, {bug}"
            text = f"{model if code == 2 else bug}: {type(error).__name__}: {text}"
        remark(f"{where}: {text}")
        return code


def _one_line(error: Exception) -> str:
    """Return the text of an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, MemoryError):
        text = f"Not enough memory. {text}"
    return " ".join(text.split()) or type(error).__name__


def _closed_pipe() -> int:
    """Redirect a broken pipe to os.devnull, so the final flush does not raise."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning once, as one line without the location in the code."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            remark(f"genmetric: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for ignored in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", ignored)
        warnings.showwarning = show
        yield
