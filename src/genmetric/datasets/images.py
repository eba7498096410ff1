"""Normalisation of images of digits: slant, and the position of the centre of mass."""

from __future__ import annotations

import numpy as np

from genmetric._parallel import row_chunks
from genmetric._typing import AnyArray


def deskew(images: AnyArray, *, recenter: bool = False) -> AnyArray:
    r"""Shear each image to remove its slant, optionally with its mass moved to the centre.

    With moments about the centre of mass, pixels weighted by their brightness, the slant is
    :math:`\alpha = \mu_{xy} / \mu_{yy}`; row y moves by :math:`\alpha (y - \bar y)`, between pixels
    by linear interpolation.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width)
        Brightness, zero for background.
    recenter : bool, default=False
        Whether to move the centre of mass :math:`(\bar x, \bar y)` to the centre of the image, with
        the fractions of a pixel that the rounded position of a digit leaves. ``False`` keeps the
        position; the tables of results use it unless they state otherwise.

    Returns
    -------
    ndarray of shape (n_images, height, width)
        Upright images, float32. Pixels moved beyond the border are lost.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.datasets import deskew
    >>> slanted = np.eye(9)[None, ::-1]  # a stroke from the lower left to the upper right
    >>> upright = deskew(slanted)[0]
    >>> bool(np.allclose(upright[:, 4], 1))
    True
    >>> corner = np.zeros((1, 9, 9))
    >>> corner[0, 1:4, 2] = 1.0
    >>> deskew(corner, recenter=True)[0, 3:6, 4]
    array([1., 1., 1.], dtype=float32)
    """
    images = np.asarray(images)
    if images.ndim != 3:
        raise ValueError(
            f"images must have shape (n_images, height, width); got {images.shape}. Rows of pixels "
            "become images by reshape(-1, height, width)."
        )
    n_images, height, width = images.shape
    out = np.zeros(images.shape, np.float32)
    for rows in row_chunks(n_images, 96 * height * width):
        out[rows] = _deskew_chunk(images[rows].astype(float), recenter)
    return out


def _deskew_chunk(images: AnyArray, recenter: bool) -> AnyArray:
    _, height, width = images.shape
    y, x = np.arange(height)[:, None], np.arange(width)
    mass = np.maximum(images.sum(axis=(1, 2)), 1e-12)
    mean_y = ((images * y).sum(axis=(1, 2)) / mass)[:, None, None]
    mean_x = ((images * x).sum(axis=(1, 2)) / mass)[:, None, None]
    dy, dx = y - mean_y, x - mean_x
    mu_yy = (images * dy**2).sum(axis=(1, 2))
    mu_xy = (images * dx * dy).sum(axis=(1, 2))
    # An image with a single row of ink has no slant.
    slant = np.divide(mu_xy, mu_yy, out=np.zeros_like(mass), where=mu_yy > 1e-9 * mass)
    if not recenter:
        return _interpolate(images, x + slant[:, None, None] * dy, axis=2)
    blank = images.sum(axis=(1, 2))[:, None, None] <= 0
    center_y, center_x = (height - 1) / 2, (width - 1) / 2
    up = np.where(blank, 0.0, mean_y - center_y)
    left = np.where(blank, 0.0, mean_x - center_x)
    # First by rows, then along them: together the bilinear interpolation at the sheared position.
    moved = _interpolate(images, np.broadcast_to(y + up, images.shape), axis=1)
    return _interpolate(moved, x + left + slant[:, None, None] * (y - center_y), axis=2)


def _interpolate(images: AnyArray, source: AnyArray, axis: int) -> AnyArray:
    """Sample images at fractional positions along one axis; zero outside of the image."""
    before = np.floor(source).astype(int)
    weight = source - before
    pad = [(0, 0), (0, 0), (0, 0)]
    pad[axis] = (1, 1)
    padded = np.pad(images, pad)
    at = [np.clip(before + k + 1, 0, images.shape[axis] + 1) for k in (0, 1)]
    low, high = (np.take_along_axis(padded, index, axis=axis) for index in at)
    return np.asarray((1 - weight) * low + weight * high)
