"""Normalisation of images of digits: slant, and the position of the centre of mass."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import affine_transform

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
    y, x = np.indices(images.shape[1:])
    center = (np.array(images.shape[1:]) - 1) / 2
    out = np.zeros(images.shape, np.float32)
    for image, upright in zip(images, out, strict=True):
        ink = image.astype(float)
        mass = ink.sum()
        if mass <= 0:
            continue
        mean = np.array([(ink * y).sum(), (ink * x).sum()]) / mass
        mu_yy = (ink * (y - mean[0]) ** 2).sum()
        # An image with a single row of ink has no slant.
        slant = (ink * (y - mean[0]) * (x - mean[1])).sum() / mu_yy if mu_yy > 1e-9 * mass else 0.0
        target = center if recenter else mean
        shear = np.array([[1.0, 0.0], [slant, 1.0]])
        # Output pixel q shows the input at mean + shear (q - target).
        upright[:] = affine_transform(
            ink, shear, mean - shear @ target, order=1, mode="grid-constant"
        )
    return out
