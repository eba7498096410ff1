"""Images of digits made alike: deskewed as the paper's MNIST is."""

from __future__ import annotations

import numpy as np

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray


def deskew(images: AnyArray) -> AnyArray:
    r"""Shear each image so that its slant disappears.

    With moments about the centre of mass, pixels weighted by their brightness, the slant is
    :math:`\alpha = \mu_{xy} / \mu_{yy}`; row y moves by :math:`\alpha (y - \bar y)`, between pixels
    by linear interpolation.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width)
        Brightness, zero for background.

    Returns
    -------
    ndarray of shape (n_images, height, width)
        Upright images, float32.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.datasets import deskew
    >>> slanted = np.eye(9)[None, ::-1]  # a stroke from the lower left to the upper right
    >>> upright = deskew(slanted)[0]
    >>> bool(np.allclose(upright[:, 4], 1))
    True
    """
    images = np.asarray(images)
    if images.ndim != 3:
        raise ValueError(
            f"images must have shape (n_images, height, width); got {images.shape}. Rows of pixels "
            "become images by reshape(-1, height, width)."
        )
    n_images, height, width = images.shape
    out = np.zeros(images.shape, np.float32)
    for rows in row_chunks(n_images, 64 * height * width):
        out[rows] = _deskew_chunk(images[rows].astype(float))
    return out


def _deskew_chunk(images: AnyArray) -> AnyArray:
    _, height, width = images.shape
    y, x = np.arange(height)[:, None], np.arange(width)
    mass = np.maximum(images.sum(axis=(1, 2)), 1e-12)
    mean_y = (images * y).sum(axis=(1, 2)) / mass
    mean_x = (images * x).sum(axis=(1, 2)) / mass
    dy = y - mean_y[:, None, None]
    dx = x - mean_x[:, None, None]
    mu_yy = (images * dy**2).sum(axis=(1, 2))
    mu_xy = (images * dx * dy).sum(axis=(1, 2))
    # A single row of ink has no slant.
    slant = np.divide(mu_xy, mu_yy, out=np.zeros_like(mass), where=mu_yy > 1e-9 * mass)
    source = x + slant[:, None, None] * dy
    left = np.floor(source).astype(int)
    share = source - left
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1)))
    at = [np.clip(left + k + 1, 0, width + 1) for k in (0, 1)]
    values = [np.take_along_axis(padded, index, axis=2) for index in at]
    return np.asarray((1 - share) * values[0] + share * values[1])
