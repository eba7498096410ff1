"""Scores of embeddings and metrics for search, recognition and verification.

Every function takes samples in a space where distances are Euclidean, such as
``metric.transform(X)``, and never holds a matrix of all pairs.
"""

from genmetric.metrics._retrieval import (
    mean_average_precision_at_r,
    r_precision,
    recall_at_k,
    retrieval_scores,
)
from genmetric.metrics._verification import equal_error_rate

__all__ = [
    "equal_error_rate",
    "mean_average_precision_at_r",
    "r_precision",
    "recall_at_k",
    "retrieval_scores",
]
