"""The joint test against the paper."""

import numpy as np
import pytest
from scipy import stats

from genmetric.reproduction._experiments import EXPERIMENTS
from genmetric.reproduction._joint_test import joint_test, joint_test_table
from genmetric.reproduction._paper import Figure
from genmetric.reproduction._tables import Cell, Results


def test_against_the_definition(rng):
    ours = [(a, b) for a, b in rng.uniform(1, 5, (6, 2))]
    paper = [(a, b) for a, b in rng.uniform(1, 5, (6, 2))]
    found = joint_test(ours, paper)
    z = [(a - c) / np.sqrt(b**2 + d**2) for (a, b), (c, d) in zip(ours, paper, strict=True)]
    assert found.statistic == pytest.approx(sum(v**2 for v in z))
    assert found.p_value == pytest.approx(1 - stats.chi2.cdf(found.statistic, 6))
    np.testing.assert_allclose(found.z, z)
    assert abs(z[found.largest]) == max(map(abs, z))


def test_p_values_are_uniform_if_the_means_agree(rng):
    pvalues = [
        joint_test(
            [(v, 1.0) for v in rng.normal(size=7)], [(v, 1.0) for v in rng.normal(size=7)]
        ).p_value
        for _ in range(400)
    ]
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-3


def test_table_leaves_generated_data_and_missing_errors_out():
    def cell(problem, mean, paper):
        return Cell(problem, "uni", (mean - 1, mean + 1), paper=paper)

    cells = [
        cell("3-normal", 90.0, Figure(3.4, 0.2)),
        cell("wine", 2.0, Figure(2.0, 0.5)),
        cell("iris", 5.0, Figure(3.0, 1.0)),
        cell("heart", 20.0, Figure(19.5)),
    ]
    results = Results(EXPERIMENTS["small"], {(c.problem, c.method): c for c in cells})
    table = joint_test_table(results)
    assert table.rows == [["M^UNI", "2", "2.0", "0.37", "Iris +1.4"]]
    assert "3-Normal is left out" in table.note
    only = Results(EXPERIMENTS["small"], {("wine", "uni"): cells[1]})
    assert joint_test_table(only) is None
