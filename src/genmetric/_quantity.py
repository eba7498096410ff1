"""The rule that tells numeric targets from codes of classes; it does not need scikit-learn."""

from __future__ import annotations

import numpy as np

from genmetric._typing import AnyArray

#: A target with at most this number of distinct values holds classes.
CLASSES_AT_MOST = 20


def is_quantity(values: AnyArray) -> bool:
    """Return whether numbers are a quantity rather than codes of classes.

    They are if there are more than 20 distinct ones and they hardly repeat: more than one distinct
    value per 4 rows, or per 20 rows if some are not integers.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Finite numbers.

    Returns
    -------
    bool
        Whether they are a quantity.
    """
    distinct = len(np.unique(values))
    whole = bool((values == np.floor(values)).all())
    return distinct > CLASSES_AT_MOST and distinct > len(values) / (4 if whole else 20)
