"""A joint test of the agreement with the paper, over all datasets of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from genmetric.reproduction._problems import PROBLEMS
from genmetric.reproduction._ranks import mean_and_error
from genmetric.reproduction._tables import Results, TextTable

#: Datasets that are not the paper's: 3-Normal is generated, and the paper does not give its
#: parameters.
OTHER_DATA = ("3-normal",)


class JointTest(NamedTuple):
    """Agreement of one method with the paper over several datasets.

    Attributes
    ----------
    statistic : float
        Sum of the squared z-scores.
    n_sets : int
        Number of datasets, the degrees of freedom.
    p_value : float
        Probability of a larger sum if both implementations have the same expected scores.
    largest : int
        Position of the dataset with the largest z-score by magnitude.
    z : tuple of float
        z-score of each dataset; positive if our mean is larger.
    """

    statistic: float
    n_sets: int
    p_value: float
    largest: int
    z: tuple[float, ...]


def joint_test(
    ours: Sequence[tuple[float, float]], paper: Sequence[tuple[float, float]]
) -> JointTest:
    r"""Test whether two sets of means agree, by the sum of squared z-scores.

    With means :math:`m_i, m'_i` and standard errors :math:`s_i, s'_i` on dataset i,

    .. math:: \chi^2 = \sum_i \frac{(m_i - m'_i)^2}{s_i^2 + s_i'^2} ,

    which has a chi-squared distribution with one degree of freedom per dataset if the expected
    scores are equal. Counting the means within two standard errors is weaker evidence: a wrong
    method passes on many datasets.

    Parameters
    ----------
    ours, paper : sequence of (mean, standard error)
        One pair per dataset.

    Returns
    -------
    JointTest
        The test.

    Examples
    --------
    >>> from genmetric.reproduction._joint_test import joint_test
    >>> found = joint_test([(10.0, 0.3), (5.0, 0.4)], [(11.0, 0.4), (5.0, 0.3)])
    >>> found.statistic, found.n_sets, round(found.p_value, 3)
    (4.0, 2, 0.135)
    """
    a, b = np.asarray(ours, float), np.asarray(paper, float)
    z = (a[:, 0] - b[:, 0]) / np.hypot(a[:, 1], b[:, 1])
    statistic = float(np.sum(z**2))
    largest = int(np.argmax(np.abs(z)))
    return JointTest(
        statistic, len(z), float(chi2.sf(statistic, len(z))), largest, tuple(map(float, z))
    )


def joint_test_table(results: Results) -> TextTable | None:
    """Make the table of joint tests of all methods that the paper has.

    Parameters
    ----------
    results : Results
        Cells of an experiment.

    Returns
    -------
    TextTable or None
        One row per method; None if no method has two datasets to compare.
    """
    rows = []
    for method in results.methods:
        cells = [
            cell
            for problem in results.problems
            if problem not in OTHER_DATA
            and (cell := results.cells.get((problem, method.name))) is not None
            and cell.paper is not None
            and len(cell.scores) > 1
        ]
        pairs = [
            (mean_and_error(c.scores), (c.paper.mean, c.paper.stderr)) for c in cells if c.paper
        ]
        known = [i for i, pair in enumerate(pairs) if all(np.isfinite(v) and v for _, v in pair)]
        if len(known) < 2:
            continue
        found = joint_test([pairs[i][0] for i in known], [pairs[i][1] for i in known])
        where = PROBLEMS[cells[known[found.largest]].problem].title
        rows.append(
            [
                method.title,
                str(found.n_sets),
                f"{found.statistic:.1f}",
                f"{found.p_value:.2g}",
                f"{where} {found.z[found.largest]:+.1f}",
            ]
        )
    if not rows:
        return None
    note = (
        "Sum over the datasets of the squared difference between our mean and the paper's in units "
        "of the combined standard error, chi-squared with one degree of freedom per dataset if both "
        "have the same expected error. A small p-value means that the method does not reproduce the "
        "paper on all datasets. 3-Normal is left out because the paper does not give its "
        "parameters. The last column is the dataset with the largest z-score; a positive sign means "
        "that our score is larger. With few splits the standard errors are themselves uncertain."
    )
    columns = ["method", "datasets", "sum of z²", "p-value", "largest z"]
    return TextTable("Joint test of the agreement with the paper", columns, rows, note)
