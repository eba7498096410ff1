"""The group of commands. Commands are imported on use, and errors start with one clear line."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from genmetric._nearest import near_names

#: Location of each command, and its line in the help, which must not import it.
COMMANDS = {
    "demo": ("genmetric.cli._demo:demo", "Compare metrics on bundled datasets; write a report."),
    "compare": ("genmetric.cli._compare:compare", "Compare metrics on a table and recommend one."),
    "fit": ("genmetric.cli._fit:fit", "Learn a metric from a table and save it."),
    "transform": ("genmetric.cli._transform:transform", "Map rows to the space of a saved metric."),
    "predict": (
        "genmetric.cli._predict:predict",
        "Predict classes or numbers of rows with a saved model.",
    ),
    "neighbors": (
        "genmetric.cli._neighbors:neighbors",
        "Find nearest rows and the features that explain them.",
    ),
    "inspect": ("genmetric.cli._inspect:inspect", "Show the contents of a saved model."),
    "reproduce": ("genmetric.cli._reproduce:reproduce", "Recompute the tables of the paper."),
    "datasets": ("genmetric.cli._datasets:datasets", "List the datasets of the package."),
}

#: Commands to show if an argument or an option is missing.
EXAMPLES = {
    "compare": "genmetric compare data.csv --target COLUMN",
    "fit": "genmetric fit data.csv --target COLUMN --output model.gm",
    "transform": "genmetric transform model.gm data.csv",
    "predict": "genmetric predict model.gm new.csv",
    "neighbors": "genmetric neighbors model.gm data.csv new.csv",
    "inspect": "genmetric inspect model.gm",
}

#: Errors of invalid input: one line and exit code 2. Any other error is a bug.
BAD_INPUT = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in help order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word, or suggest a similar one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = near_names(args[0], COMMANDS, 1)
            hint = (
                f"Did you mean {near[0]}?" if near else f"The commands are {', '.join(COMMANDS)}."
            )
            ctx.fail(f"no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="genmetric", message="genmetric %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of errors.")
@click.pass_context
def cli(ctx: click.Context, /, **_: bool) -> None:
    """Learn distances from labelled tables, and test whether they help.

    DATA is a table with a header and one row per sample, such as a CSV or Parquet file. Start with
    `genmetric compare DATA --target COLUMN`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _one_line(error: BaseException) -> str:
    """Return the text of an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}."
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return f"Not enough memory. {text}".strip()
    return text or type(error).__name__


def _report(where: str, text: str, lines: Sequence[str] = ()) -> None:
    """Write one line on stderr, and the lines of a list below it."""
    # Names from a file may contain control characters, or characters the terminal cannot show.
    clean = ["".join(c if c.isprintable() else "?" for c in line) for line in (text, *lines)]
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    shown = f"{where}: " + "\n".join(clean) + "\n"
    sys.stderr.write(shown.encode(encoding, "backslashreplace").decode(encoding))


def _silence(stream: Any) -> None:
    """Redirect a broken pipe to os.devnull, so that the final flush does not raise."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning once, as one line without the location in the code."""
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            _report("genmetric", f"warning: {text}")

    seen: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for ignored in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", ignored)
        warnings.showwarning = show
        yield


def run(args: Sequence[str] | None = None) -> int:
    """Run a command; report errors in one line on stderr.

    Parameters
    ----------
    args : sequence of str, default=None
        Arguments after ``genmetric``; those of the process by default.

    Returns
    -------
    int
        Exit code: 0, 1 for a comparison without results or a bug, 2 for invalid input, 130 after
        Ctrl-C.
    """
    words = list(sys.argv[1:] if args is None else args)
    first = next((word for word in words if not word.startswith("-")), "")
    where = f"genmetric {first}" if first in COMMANDS else "genmetric"
    debug = "--debug" in words[: words.index(first)] if first else False
    try:
        with _plain_warnings():
            code = cli.main(words, prog_name="genmetric", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit as stop:
        # click exits like this if the reader of a pipe has closed it, which is not an error.
        if stop.code in (None, 1):
            _silence(sys.stdout)
            return 0
        return int(stop.code)
    except click.ClickException as error:
        text = " ".join(error.format_message().split())
        if isinstance(error, click.MissingParameter) and first in EXAMPLES:
            text += f" Example: {EXAMPLES[first]}"
        _report(where, text)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BAD_INPUT as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _silence(sys.stdout)
            return 0
        if debug:
            traceback.print_exc()
        _report(where, _one_line(error), getattr(error, "lines", ()))
        return 2
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = f"{type(error).__name__}: {_one_line(error)}"
        _report(
            where,
            f"this is a bug, please report it (genmetric --debug shows the traceback): {text}",
        )
        return 1
