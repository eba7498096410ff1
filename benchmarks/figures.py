"""Draw the figures of the results pages from stored scores: ``python benchmarks/figures.py``."""

import csv

import matplotlib.pyplot as plt
import measure
import numpy as np

from genmetric.plot.palette import COLORS, QUIET, class_style

RESULTS = measure.REPOSITORY / "docs" / "results"
TABLES = {
    "small": "small datasets",
    "density": "density weights",
    "large": "large datasets",
    "nonlinear": "kernels",
}


def agreement(ax_means, ax_z):
    """Draw our means against the paper's, and their differences in standard errors."""
    with (RESULTS / "results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["paper_standard_error"]]
    rows = [row for row in rows if row["set"] not in ("3-normal", "2-normal")]
    seen = set()
    for i, (table, title) in enumerate(TABLES.items()):
        # The tables of small datasets and of density weights share six rows.
        own = [r for r in rows if r["table"] == table and (r["set"], r["method"]) not in seen]
        own = [r for r in own if r["standard_error"]]
        seen |= {(r["set"], r["method"]) for r in own}
        names = ("mean", "standard_error", "paper_mean", "paper_standard_error")
        ours, error, paper, paper_error = np.array([[float(r[n]) for n in names] for r in own]).T
        color, marker = class_style(i)
        ax_means.errorbar(
            *(paper, ours, error, paper_error), fmt=marker, color=color, ms=4, lw=0.8, label=title
        )
        z = (ours - paper) / np.hypot(error, paper_error)
        spread = np.linspace(-0.25, 0.25, len(z))
        ax_z.plot(np.clip(z, -8, 8), i + spread, marker, color=color, ms=5)
    ends = [1, 40]
    ax_means.plot(ends, ends, color=QUIET, lw=1)
    ax_means.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    ax_means.set(xlabel="error in the paper (%)", ylabel="error here (%)")
    ticks = [1, 2, 5, 10, 20, 40]
    for axis in (ax_means.xaxis, ax_means.yaxis):
        axis.set_ticks(ticks, map(str, ticks))
        axis.set_ticks([], minor=True)
    ax_means.legend(frameon=False)
    ax_z.axvspan(-2, 2, color=QUIET, alpha=0.15, lw=0)
    ax_z.set(yticks=range(len(TABLES)), yticklabels=TABLES.values(), xlim=(-8.4, 8.4))
    ax_z.set_xticks([-8, -4, -2, 0, 2, 4, 8], ["≤ -8", "-4", "-2", "0", "2", "4", "≥ 8"])
    ax_z.set_xlabel("difference in standard errors (+: higher error here)")
    ax_z.invert_yaxis()


def ranks(ax):
    """Draw the average rank of eight methods at three training sizes."""
    with (RESULTS / "robustness.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row[0] == "Average ranks of eight methods"]
    sizes = (20, 50, 80)
    own = ("GenerativeMetricCV", 'base="pooled"', "LMNN", "GenerativeMetric")
    place = 0.0
    for _, method, *cells in sorted(rows[1:], key=lambda row: float(row[6])):
        color = COLORS[own.index(method)] if method in own else QUIET
        values = [float(cell) for cell in cells[0:6:2]]
        ax.plot(sizes, values, "o-", color=color, lw=2.5 if method in own else 1.2)
        place = max(values[-1], place + 0.25)  # names do not overlap
        ax.text(82, place, method, va="center", color=color)
    ax.set(xticks=sizes, xlabel="samples for training (%)", ylim=(8, 1), xlim=(17, 112))
    ax.set_ylabel("average rank of eight methods, 14 datasets")


def save(fig, name):
    for ax in fig.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    plt.rcParams["svg.hashsalt"] = name
    fig.savefig(RESULTS / name, metadata={"Date": None})


if __name__ == "__main__":
    fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    agreement(*axes)
    save(fig, "paper.svg")
    fig, ax = plt.subplots(figsize=(7.2, 5), layout="constrained")
    ranks(ax)
    save(fig, "ranks.svg")
