"""Estimators whose design is not settled: names and results may change without deprecation.

Each docstring states which evidence would move the estimator to the stable part of the package.
"""

from genmetric.experimental._factor_model import FactorModel

__all__ = ["FactorModel"]
