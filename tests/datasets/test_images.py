"""Deskewing."""

import numpy as np
import pytest

from genmetric.datasets import deskew


def naive_deskew(image, recenter=False):
    """Bilinear interpolation at the sheared, and optionally shifted, position of each pixel."""
    height, width = image.shape
    mass = image.sum()
    my = sum(y * image[y, x] for y in range(height) for x in range(width)) / mass
    mx = sum(x * image[y, x] for y in range(height) for x in range(width)) / mass
    yy = sum((y - my) ** 2 * image[y, x] for y in range(height) for x in range(width))
    xy = sum((y - my) * (x - mx) * image[y, x] for y in range(height) for x in range(width))
    out = np.zeros(image.shape)
    up, left = (my - (height - 1) / 2, mx - (width - 1) / 2) if recenter else (0.0, 0.0)
    for y in range(height):
        for x in range(width):
            from_y = y + up
            from_x = x + left + xy / yy * (from_y - my)
            for v in range(height):
                for u in range(width):
                    weight = max(0, 1 - abs(v - from_y)) * max(0, 1 - abs(u - from_x))
                    out[y, x] += weight * image[v, u]
    return out


@pytest.mark.parametrize("recenter", [False, True])
def test_matches_a_plain_loop(rng, recenter):
    images = rng.uniform(size=(5, 9, 7)) * (rng.uniform(size=(5, 9, 7)) > 0.5)
    expected = [naive_deskew(image, recenter) for image in images]
    np.testing.assert_allclose(deskew(images, recenter=recenter), expected, atol=1e-6)


def test_mass_is_moved_to_the_center():
    y, x = np.mgrid[:28, :28]
    ink = np.exp(-((x - 10.3 - 0.3 * (y - 16.2)) ** 2) / 4 - (y - 16.2) ** 2 / 10)[None]
    out = deskew(ink, recenter=True)[0]
    assert (out * y).sum() / out.sum() == pytest.approx(13.5, abs=0.01)
    assert (out * x).sum() / out.sum() == pytest.approx(13.5, abs=0.01)
    assert out.sum() == pytest.approx(ink.sum(), rel=1e-3)


def test_slant_is_removed():
    y, x = np.mgrid[:28, :28]
    upright = np.exp(-((x - 14) ** 2) / 4 - (y - 14) ** 2 / 40)
    slanted = np.exp(-((x - 14 - 0.5 * (y - 14)) ** 2) / 4 - (y - 14) ** 2 / 40)
    assert np.abs(deskew(slanted[None])[0] - upright).max() < 0.1


def test_empty_images_and_invalid_shapes():
    assert not deskew(np.zeros((2, 4, 4))).any()
    assert not deskew(np.zeros((2, 4, 4)), recenter=True).any()
    assert deskew(np.ones((1, 1, 5), np.uint8)).dtype == np.float32
    with pytest.raises(ValueError, match="reshape"):
        deskew(np.zeros((2, 784)))
