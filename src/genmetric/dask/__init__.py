"""Metric learning on dask collections; needs the extra ``dask``."""

from genmetric.dask._generative import DaskGenerativeMetric

__all__ = ["DaskGenerativeMetric"]
