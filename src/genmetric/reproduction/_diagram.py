"""The critical-difference diagram of average ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric.reproduction._ranks import Ranking


def critical_difference_diagram(ranking: Ranking) -> Any:
    """Draw average ranks as in Demsar (2006); bars join methods that do not differ significantly.

    Parameters
    ----------
    ranking : Ranking
        From :func:`genmetric.reproduction._ranks.rank_methods`.

    Returns
    -------
    matplotlib.figure.Figure
        The best rank on the left; a bar joins methods whose ranks are nearer than the critical
        difference, whose length is shown above the line.
    """
    order = np.argsort(ranking.ranks, kind="stable")
    k = len(order)
    half = -(-k // 2)
    height = 1.3 + 0.26 * half
    figure = import_optional("matplotlib.figure", "report").Figure(
        figsize=(7, height), layout="constrained"
    )
    ax = figure.subplots()
    ax.set(xlim=(0.2, k + 0.8), ylim=(-0.9 - 0.55 * half, 1.3))
    ax.axis("off")
    ax.plot([1, k], [0, 0], color="black", lw=1.2)
    for tick in range(1, k + 1):
        ax.plot([tick, tick], [0, 0.12], color="black", lw=1)
        ax.text(tick, 0.2, str(tick), ha="center", va="bottom", size=9)
    width = ranking.critical_difference
    ax.plot([1, 1 + width], [0.85, 0.85], color="black", lw=1.2)
    for end in (1, 1 + width):
        ax.plot([end, end], [0.77, 0.93], color="black", lw=1.2)
    ax.text(
        1 + width / 2, 0.95, f"critical difference {width:.2f}", ha="center", va="bottom", size=9
    )
    groups = ranking.groups()
    for i, (low, high) in enumerate(groups):
        y = -0.14 - 0.16 * i
        ax.plot([low - 0.03, high + 0.03], [y, y], color="#c44e52", lw=3, solid_capstyle="round")
    below = -0.14 - 0.16 * max(len(groups), 1)
    for place, i in enumerate(order):
        left = place < half
        level = below - 0.3 - 0.5 * (place if left else k - 1 - place)
        edge = 0.95 if left else k + 0.05
        rank = ranking.ranks[i]
        ax.plot([rank, rank, edge], [0, level, level], color="0.45", lw=0.9)
        ax.text(
            edge + (-0.05 if left else 0.05),
            level,
            f"{ranking.methods[i]}  {rank:.2f}",
            ha="right" if left else "left",
            va="center",
            size=9,
        )
    bottom = below - 0.3 - 0.5 * half
    ax.set_ylim(bottom, 1.3)
    # Names are placed outside the axis of ranks.
    ax.set_xlim(1 - 0.28 * k, k + 0.28 * k)
    return figure
