"""The values that the paper reports, from ``paper.toml``, by dataset and method."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple


class Figure(NamedTuple):
    """A published mean and its standard error; NaN if none is published."""

    mean: float
    stderr: float = float("nan")


def _read(table: Mapping[str, str]) -> dict[tuple[str, str], Figure]:
    """Read the lines of a table: "mean error" pairs with commas, in the order of the datasets."""
    names = table["datasets"].split(", ")
    return {
        (name, method): Figure(*map(float, cell.split()))
        for method, line in table.items()
        if method != "datasets"
        for name, cell in zip(names, line.split(","), strict=True)
    }


_PAPER = tomllib.loads(files("genmetric.reproduction").joinpath("paper.toml").read_text("utf-8"))

#: Error in %, Rand index or seconds.
SMALL, LARGE, NONLINEAR, CLUSTERING, SECONDS = (
    _read(_PAPER[name]) for name in ("small", "large", "nonlinear", "clustering", "seconds")
)

#: Average rank over the small datasets, of six methods and of eight.
RANKS_SIX: dict[str, float] = _PAPER["ranks_six"]
RANKS_EIGHT: dict[str, float] = _PAPER["ranks_eight"]
