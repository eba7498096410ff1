"""Choices among methods and scorings, and commands written out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from genmetric._method_texts import METHOD_TEXTS, SCORE_ADVICE
from genmetric._nearest import near_names

#: Keys of the scorings: a copy, because importing the registry loads scikit-learn, which takes a
#: second.
SCORING_KEYS = ("error", "balanced_error", "f1_macro", "log_loss", "roc_auc", "r2", "mae")
METHOD_KEYS = tuple(METHOD_TEXTS)
DISTANCE_KEYS = tuple(key for key, text in METHOD_TEXTS.items() if text.distance)

#: Why methods of `compare` that are not distances cannot be fitted.
REFERENCE_ADVICE = {
    key: f"{key} is not a distance: `genmetric compare` shows it for reference only."
    for key in METHOD_KEYS
    if key not in DISTANCE_KEYS
}

#: What to use instead of scores with other names.
SCORING_ADVICE = SCORE_ADVICE["classification"] | SCORE_ADVICE["regression"]


class KeyChoice(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """One key, or several separated by commas.

    Parameters
    ----------
    what : str
        What the keys name, for error messages: "method".
    keys : sequence of str
        The valid keys.
    several : bool, default=False
        Whether a comma-separated list is accepted.
    advice : mapping of str to str, default=None
        Sentences about usual words that are not keys.
    """

    name = "key"

    def __init__(
        self,
        what: str,
        keys: Sequence[str],
        *,
        several: bool = False,
        advice: Mapping[str, str] | None = None,
    ) -> None:
        self._what, self.keys, self._several = what, keys, several
        self._advice = advice or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the keys; a list becomes a tuple without repetitions."""
        if not isinstance(value, str):
            return value
        given = [word.strip() for word in value.split(",")] if self._several else [value]
        for key in given:
            if key not in self.keys:
                hint = self._advice.get(key.lower(), "")
                near = near_names(key, self.keys, 1)
                if near and not hint:
                    hint = f"Did you mean {near[0]}?"
                text = (
                    f"unknown {self._what} {key!r}; expected one of {', '.join(self.keys)}. {hint}"
                )
                self.fail(text.rstrip(), param, ctx)
        return tuple(dict.fromkeys(given)) if self._several else value


class MethodsHelp(click.Command):
    """A command whose help ends with a list of the methods."""

    #: Whether methods that are not distances are listed too.
    references = True

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of methods."""
        texts = {k: m for k, m in METHOD_TEXTS.items() if m.distance or self.references}
        with formatter.section("Methods"):
            formatter.write_dl([(k, f"{m.label}. {m.description}") for k, m in texts.items()])


class DistancesHelp(MethodsHelp):
    """The same list without the methods that are not distances."""

    references = False


def command_words(ctx: click.Context, only: Collection[str] | None = None) -> list[str]:
    """Return the arguments and options that a command was given, as words of a shell.

    Parameters
    ----------
    ctx : click.Context
        Context of the running command.
    only : collection of str, default=None
        Names of the parameters to write; all that were given by default.

    Returns
    -------
    list of str
        Arguments first, then options with their long names.
    """
    arguments, options = [], []
    for param in ctx.command.params:
        name = param.name or ""
        value = ctx.params.get(name)
        source = ctx.get_parameter_source(name)
        given = source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT", "PROMPT")
        if value is None or not given or (only is not None and name not in only):
            continue
        if isinstance(param, click.Argument):
            arguments += [str(v) for v in (value if isinstance(value, tuple) else (value,))]
            continue
        flag = max(param.opts, key=len)
        if isinstance(param, click.Option) and param.is_flag:
            secondary = param.secondary_opts[0] if param.secondary_opts else None
            options += [flag] if value else [secondary] if secondary else []
        elif param.multiple:
            options += [word for v in value for word in (flag, str(v))]
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            options += [flag, text]
    return [*arguments, *options]


def command_line(command: str, words: Sequence[str]) -> str:
    """Write a command so that it can be pasted into a shell."""
    return shlex.join(["genmetric", command, *words])
