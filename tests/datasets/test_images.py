"""Deskewing."""

import numpy as np
import pytest

from genmetric.datasets import deskew


def naive_deskew(image):
    height, width = image.shape
    mass = image.sum()
    my = sum(y * image[y, x] for y in range(height) for x in range(width)) / mass
    mx = sum(x * image[y, x] for y in range(height) for x in range(width)) / mass
    yy = sum((y - my) ** 2 * image[y, x] for y in range(height) for x in range(width))
    xy = sum((y - my) * (x - mx) * image[y, x] for y in range(height) for x in range(width))
    out = np.zeros(image.shape)
    for y in range(height):
        for x in range(width):
            source = x + xy / yy * (y - my)
            left = int(np.floor(source))
            for k, share in ((left, 1 - (source - left)), (left + 1, source - left)):
                if 0 <= k < width:
                    out[y, x] += share * image[y, k]
    return out


def test_against_a_plain_loop(rng):
    images = rng.uniform(size=(5, 9, 7)) * (rng.uniform(size=(5, 9, 7)) > 0.5)
    expected = [naive_deskew(image) for image in images]
    np.testing.assert_allclose(deskew(images), expected, atol=1e-6)


def test_the_slant_is_gone():
    y, x = np.mgrid[:28, :28]
    upright = np.exp(-((x - 14) ** 2) / 4 - (y - 14) ** 2 / 40)
    slanted = np.exp(-((x - 14 - 0.5 * (y - 14)) ** 2) / 4 - (y - 14) ** 2 / 40)
    assert np.abs(deskew(slanted[None])[0] - upright).max() < 0.1


def test_empty_images_and_bad_shapes():
    assert not deskew(np.zeros((2, 4, 4))).any()
    assert deskew(np.ones((1, 1, 5), np.uint8)).dtype == np.float32
    with pytest.raises(ValueError, match="reshape"):
        deskew(np.zeros((2, 784)))
