"""Metrics of rows on a cluster; needs ``pip install "genmetric[dask]"``."""

from genmetric.dask.generative import DaskGenerativeMetric

__all__ = ["DaskGenerativeMetric"]
