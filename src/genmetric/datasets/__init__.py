"""Data sets of the paper and a few more, in the form of scikit-learn's loaders."""

from genmetric.datasets.catalogue import CATALOGUE, DatasetRecord
from genmetric.datasets.images import deskew
from genmetric.datasets.loaders import (
    find_dataset,
    list_datasets,
    load_breast_cancer,
    load_dataset,
    load_digits,
    load_german,
    load_heart,
    load_image,
    load_ionosphere,
    load_iris,
    load_letter,
    load_mnist,
    load_segment,
    load_three_normal,
    load_two_normal,
    load_vehicle,
    load_wine,
)
from genmetric.datasets.normal import NormalClasses

__all__ = [
    "CATALOGUE",
    "DatasetRecord",
    "NormalClasses",
    "deskew",
    "find_dataset",
    "list_datasets",
    "load_breast_cancer",
    "load_dataset",
    "load_digits",
    "load_german",
    "load_heart",
    "load_image",
    "load_ionosphere",
    "load_iris",
    "load_letter",
    "load_mnist",
    "load_segment",
    "load_three_normal",
    "load_two_normal",
    "load_vehicle",
    "load_wine",
]
