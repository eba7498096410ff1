"""The group of commands: each is imported when it is used, and errors are one line."""

from __future__ import annotations

import difflib
import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

#: Where each command lives, and its line in the help, which must not import it.
COMMANDS = {
    "demo": ("genmetric.cli.demo:demo", "Compare metrics on embedded data sets; write a report."),
    "compare": ("genmetric.cli.compare:compare", "Which metric helps on a table, and how much."),
    "fit": ("genmetric.cli.fit:fit", "Learn a metric from a table and save it."),
    "transform": ("genmetric.cli.transform:transform", "Rows in the space of a saved metric."),
    "predict": ("genmetric.cli.predict:predict", "Classes of rows by a saved model."),
    "neighbors": ("genmetric.cli.neighbors:neighbors", "Nearest rows of a table, and why."),
    "inspect": ("genmetric.cli.inspect:inspect", "What is in a saved model."),
    "reproduce": ("genmetric.cli.reproduce:reproduce", "Tables of the paper, computed anew."),
    "datasets": ("genmetric.cli.datasets:datasets", "Data sets that come with the package."),
}

#: What bad input raises: one line and exit code 2. Anything else is a bug of the program.
BAD_INPUT = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order people meet them."""
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
        """Find the command of the first word, or name those that look like it."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COMMANDS)}."
            ctx.fail(f"no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"genmetric {version('genmetric')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show where an error arose.")
@click.pass_context
def cli(ctx: click.Context, /, **_: bool) -> None:
    """Learn distances from labelled rows, and see whether they help.

    DATA is a CSV file (any delimiter, .gz too) or a Parquet file, one row an example, with a
    header. Start with `genmetric compare DATA --target COLUMN`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _one_line(error: BaseException) -> str:
    """The text of an error on one line."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}."
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return f"Not enough memory. {text}".strip()
    return text or type(error).__name__


def _report(where: str, text: str) -> None:
    # Names from a file may hold what the terminal cannot show, or what moves its cursor.
    clean = "".join(c if c.isprintable() else "?" for c in text)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    sys.stderr.write(f"{where}: {clean}\n".encode(encoding, "backslashreplace").decode(encoding))


def _silence(stream: Any) -> None:
    """Send a stream whose reader has gone nowhere, so that the last flush does not complain."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning as one line, without the place in the code where it arose."""
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
    """Run a command; say in one line on stderr what went wrong.

    Parameters
    ----------
    args : sequence of str, default=None
        Words after ``genmetric``; ``None`` takes those of the process.

    Returns
    -------
    int
        0, 2 for input that cannot be used, 130 after Ctrl-C, 1 for a bug.
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
        # click leaves so when the reader of a pipe has gone: nothing is wrong with our work.
        if stop.code in (None, 1):
            _silence(sys.stdout)
            return 0
        return int(stop.code)
    except click.ClickException as error:
        _report(where, " ".join(error.format_message().split()))
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BAD_INPUT as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _silence(sys.stdout)
            return 0
        if debug:
            traceback.print_exc()
        _report(where, _one_line(error))
        return 2
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = f"{type(error).__name__}: {_one_line(error)}"
        _report(where, f"this is a bug, please report it (genmetric --debug shows where): {text}")
        return 1
