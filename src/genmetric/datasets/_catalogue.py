"""Records of the datasets: shape, classes, source, credit and licence."""

from dataclasses import dataclass
from string import ascii_uppercase
from typing import Literal

from genmetric.datasets._normal import NormalClasses

#: Source of a dataset that is not in the data directory.
Home = Literal["package", "scikit-learn", "generated", "OpenML"]

CC_BY = "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/"


@dataclass(frozen=True, kw_only=True)
class DatasetRecord:
    """Description of one dataset.

    Attributes
    ----------
    name : str
        Name for :func:`genmetric.datasets.load_dataset`.
    title : str
        Full name.
    n_samples, n_features : int
        Number of samples and of features; a file of another shape is refused.
    class_names : tuple of str
        Names of the classes 0, 1, ...; empty if the target is a number.
    home : {"package", "scikit-learn", "generated", "OpenML"}
        Source if the data directory does not have it.
    credit, licence : str
        Reference to cite, and the licence.
    note : str
        Remarks on the features and classes.
    sha256 : str or None
        Checksum of the file in the package.
    openml : (str, int) or None
        Name and version at OpenML.
    feature_names : tuple of str
        Feature names, for datasets whose file or source has none.
    file_format : {"csv.gz", "npz"}
        Format of its file in a data directory.
    derived_from : str or None
        Name of the dataset that this one is computed from; it then has no file of its own.
    recipe : NormalClasses or None
        Generator of a generated dataset.
    bayes_error : float or None
        Lowest possible error of a classifier, if known.
    target : str
        Meaning and unit of a numeric target; empty if the target is a class.

    Examples
    --------
    >>> from genmetric.datasets import CATALOGUE
    >>> record = CATALOGUE["vehicle"]
    >>> record.n_samples, record.n_features, record.class_names
    (846, 18, ('bus', 'opel', 'saab', 'van'))
    """

    name: str
    title: str
    n_samples: int
    n_features: int
    class_names: tuple[str, ...]
    home: Home
    credit: str
    licence: str
    note: str = ""
    sha256: str | None = None
    openml: tuple[str, int] | None = None
    feature_names: tuple[str, ...] = ()
    file_format: Literal["csv.gz", "npz"] = "csv.gz"
    derived_from: str | None = None
    recipe: NormalClasses | None = None
    bayes_error: float | None = None
    target: str = ""

    @property
    def task(self) -> Literal["classification", "regression"]:
        """Whether the target is a class or a number."""
        return "regression" if self.target else "classification"

    @property
    def filename(self) -> str:
        """Name of the file, in the package or in a data directory."""
        return f"{self.name}.{self.file_format}"

    @property
    def description(self) -> str:
        """Text for ``DESCR``: title, shape, target, note, credit and licence."""
        shape = f"{self.n_samples} samples, {self.n_features} features"
        if self.task == "regression":
            shape += f"; target: {self.target}."
        else:
            shape += f", {len(self.class_names)} classes: {', '.join(self.class_names)}."
        return "\n".join(
            [
                self.title,
                "=" * len(self.title),
                "",
                shape,
                *([self.note] if self.note else []),
                *([] if self.bayes_error is None else [f"Bayes error {self.bayes_error:.4f}."]),
                "",
                f"Credit: {self.credit}",
                f"Licence: {self.licence}",
            ]
        )


def _with_scikit_learn(
    name: str,
    title: str,
    n_samples: int,
    n_features: int,
    class_names: tuple[str, ...],
    credit: str,
    note: str = "",
) -> DatasetRecord:
    return DatasetRecord(
        name=name,
        title=title,
        n_samples=n_samples,
        n_features=n_features,
        class_names=class_names,
        home="scikit-learn",
        credit=f"{credit} UCI Machine Learning Repository.",
        licence=CC_BY,
        note=note,
    )


def _generated(name: str, title: str, bayes_error: float, recipe: NormalClasses) -> DatasetRecord:
    return DatasetRecord(
        name=name,
        title=title,
        n_samples=recipe.n_classes * recipe.n_per_class,
        n_features=recipe.n_features,
        class_names=tuple(f"normal_{c}" for c in range(recipe.n_classes)),
        home="generated",
        credit="genmetric, after the generated set of Shi, Y., Noh, Y.-K., Sha, F. and Lee, D. D. "
        "(2011), arXiv:1109.3940, who do not give its parameters.",
        licence="BSD-3-Clause, as genmetric",
        note="Gaussian classes of unequal, anisotropic covariance.",
        feature_names=tuple(f"x{i}" for i in range(recipe.n_features)),
        recipe=recipe,
        bayes_error=bayes_error,
    )


def _number(
    name: str,
    title: str,
    shape: tuple[int, int],
    target: str,
    credit: str,
    number: str,
    sha256: str,
    note: str = "",
) -> DatasetRecord:
    """Return the record of a table from UCI with a numeric target."""
    return DatasetRecord(
        name=name,
        title=title,
        n_samples=shape[0],
        n_features=shape[1],
        class_names=(),
        home="package",
        credit=f"{credit} UCI Machine Learning Repository, data set {number}.",
        licence=CC_BY,
        note=note,
        sha256=sha256,
        target=target,
    )


_RECORDS = (
    _with_scikit_learn(
        "iris",
        "Iris",
        150,
        4,
        ("setosa", "versicolor", "virginica"),
        "Fisher, R. A. (1936). Iris.",
    ),
    _with_scikit_learn(
        "wine",
        "Wine",
        178,
        13,
        ("class_0", "class_1", "class_2"),
        "Aeberhard, S. and Forina, M. (1991). Wine.",
    ),
    _with_scikit_learn(
        "breast_cancer",
        "Breast Cancer Wisconsin (Diagnostic)",
        569,
        30,
        ("malignant", "benign"),
        "Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1995). "
        "Breast Cancer Wisconsin (Diagnostic).",
    ),
    _with_scikit_learn(
        "digits",
        "Optical Recognition of Handwritten Digits (test part)",
        1797,
        64,
        tuple("0123456789"),
        "Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits.",
        "Counts 0..16 on an 8 x 8 grid, row by row. Three of the pixels are always 0.",
    ),
    DatasetRecord(
        name="heart",
        title="Statlog (Heart)",
        n_samples=270,
        n_features=13,
        class_names=("absent", "present"),
        home="OpenML",
        credit="Statlog (Heart). UCI Machine Learning Repository. doi:10.24432/C57303",
        licence=CC_BY,
        note="Seven columns are integer codes of nominal or ordinal attributes.",
        openml=("heart-statlog", 1),
        feature_names=(
            "age",
            "sex",
            "chest_pain_type",
            "resting_bp",
            "serum_cholesterol",
            "fasting_blood_sugar_gt_120",
            "resting_ecg",
            "max_heart_rate",
            "exercise_angina",
            "oldpeak",
            "slope",
            "num_major_vessels",
            "thal",
        ),
    ),
    DatasetRecord(
        name="vehicle",
        title="Statlog (Vehicle Silhouettes)",
        n_samples=846,
        n_features=18,
        class_names=("bus", "opel", "saab", "van"),
        home="package",
        credit="Mowforth, P. and Shepherd, B. Statlog (Vehicle Silhouettes). "
        "UCI Machine Learning Repository, data set 149.",
        licence=CC_BY,
        sha256="06626dd1014cbb40a23bb7104d7b65aac2f1fbf1013a6c475f707c71ab97a0f5",
    ),
    DatasetRecord(
        name="ionosphere",
        title="Ionosphere",
        n_samples=351,
        n_features=34,
        class_names=("bad", "good"),
        home="package",
        credit="Sigillito, V., Wing, S., Hutton, L. and Baker, K. (1989). Ionosphere. "
        "UCI Machine Learning Repository. doi:10.24432/C5W01B",
        licence=CC_BY,
        note="V1 is binary and V2 is always 0.",
        sha256="bc53714fd54b11cb18a5fa242c234232fa358d764e37630c144f50dcb2737e78",
    ),
    DatasetRecord(
        name="german",
        title="Statlog (German Credit Data), numeric form",
        n_samples=1000,
        n_features=24,
        class_names=("good", "bad"),
        home="package",
        credit="Hofmann, H. (1994). Statlog (German Credit Data). "
        "UCI Machine Learning Repository. doi:10.24432/C5NC77",
        licence=CC_BY,
        note="The columns have no names at the source; many are 0/1 indicators.",
        sha256="e8970725814ee8da84e528c20518a02f9aa055abf96254b5968feed26c04b77c",
    ),
    DatasetRecord(
        name="segment",
        title="Statlog (Image Segmentation)",
        n_samples=2310,
        n_features=19,
        class_names=("brickface", "cement", "foliage", "grass", "path", "sky", "window"),
        home="package",
        credit="Vision Group, University of Massachusetts (1990). Statlog (Image Segmentation). "
        "UCI Machine Learning Repository. doi:10.24432/C5P01G",
        licence=CC_BY,
        note="region_pixel_count is always 9. 224 samples repeat an earlier one.",
        sha256="a4d38537b2a31b87e23f57e2af25e826611bb46b0376113ff6a8c7728a7cc428",
    ),
    DatasetRecord(
        name="image",
        title="Image (two classes made of Statlog (Image Segmentation))",
        n_samples=2310,
        n_features=18,
        class_names=("-1", "+1"),
        home="package",
        credit="Vision Group, University of Massachusetts (1990). Statlog (Image Segmentation). "
        "UCI Machine Learning Repository. doi:10.24432/C5P01G. The two classes are those of the "
        "benchmark collection of Raetsch, G., Onoda, T. and Mueller, K.-R. (2001). "
        "Soft margins for AdaBoost. Machine Learning 42, 287-320.",
        licence=CC_BY,
        note="Class +1 is brickface, sky, foliage and path; class -1 is cement, window and grass. "
        "The constant column is left out and the others have mean 0 and standard deviation 1 "
        "(ddof=1). 224 samples repeat an earlier one.",
        derived_from="segment",
    ),
    DatasetRecord(
        name="letter",
        title="Letter Recognition",
        n_samples=20000,
        n_features=16,
        class_names=tuple(ascii_uppercase),
        home="package",
        credit="Slate, D. (1991). Letter Recognition. "
        "UCI Machine Learning Repository. doi:10.24432/C5ZP40",
        licence=CC_BY,
        note="Integers 0..15. Usually the first 16000 samples are for training, the last 4000 for testing.",
        sha256="17e1df87340438d720bfc32e9ae7c02c30e572730c2447ed1696f51adcd30bfe",
    ),
    # The number of samples agrees with the printed errors of the paper, which are multiples of one
    # error in 30 test sets of 300. The other parameters were selected so that the errors of kNN in
    # the Euclidean and in the averaged metric are near those of the paper.
    _generated(
        "three_normal",
        "3-Normal",
        0.01598,
        NormalClasses(
            n_classes=3,
            n_per_class=500,
            n_features=10,
            n_signal=8,
            separation=1.97,
            elongation=11.4,
            variety=0.3,
            turn=0.35,
            seed=2771,
        ),
    ),
    _generated(
        "two_normal",
        "2-Normal",
        0.01675,
        NormalClasses(
            n_classes=2,
            n_per_class=600,
            n_features=9,
            n_signal=7,
            separation=2.03,
            elongation=5.2,
            variety=0.3,
            turn=0.17,
            seed=5502,
        ),
    ),
    DatasetRecord(
        name="mnist",
        title="MNIST",
        n_samples=70000,
        n_features=784,
        class_names=tuple("0123456789"),
        home="OpenML",
        credit="LeCun, Y., Cortes, C. and Burges, C. The MNIST database of handwritten digits.",
        licence="none stated by the authors",
        note="Grey levels 0..255 as float32, 28 x 28 pixels row by row. "
        "The first 60000 samples are the training set, the last 10000 the test set.",
        openml=("mnist_784", 1),
        feature_names=tuple(f"pixel_{row}_{col}" for row in range(28) for col in range(28)),
        file_format="npz",
    ),
    _number(
        "airfoil",
        "Airfoil Self-Noise",
        (1503, 5),
        "sound pressure level in decibels",
        "Brooks, T., Pope, D. and Marcolini, M. (1989). Airfoil Self-Noise.",
        "291, doi:10.24432/C5VW2C",
        "9a4104d2593ce6239a7c18142fa981119eae5ac106115933d17134b2c6014105",
    ),
    _number(
        "concrete",
        "Concrete Compressive Strength",
        (1030, 8),
        "compressive strength in megapascals",
        "Yeh, I.-C. (1998). Concrete Compressive Strength.",
        "165, doi:10.24432/C5PK67",
        "539c21dc0157ac7329496df9af01db89a7c1871b2c9717c53b98c3c902fe9021",
        "Components in kilograms per cubic metre, age in days. 25 samples repeat an earlier one.",
    ),
    _number(
        "auto_mpg",
        "Auto MPG",
        (392, 5),
        "fuel consumption in miles per gallon",
        "Quinlan, R. (1993). Auto MPG.",
        "9, doi:10.24432/C5859H",
        "3478331e04023d09896e9f4fa7b0bc3ccb601bf16dc65b0ffe3002de3564b9da",
        "The 392 samples without missing values and five of the seven attributes; cylinders and "
        "origin are left out.",
    ),
    _number(
        "real_estate",
        "Real Estate Valuation",
        (414, 6),
        "price per unit area in 10000 New Taiwan dollars per ping (3.3 square metres)",
        "Yeh, I.-C. (2018). Real Estate Valuation.",
        "477, doi:10.24432/C5J30W",
        "93489d60948a2c5c5b92781c99e48f52234ac2e88201d1a82eb61ea58addd0c6",
    ),
    _number(
        "slump",
        "Concrete Slump Test",
        (103, 7),
        "compressive strength after 28 days in megapascals",
        "Yeh, I.-C. (2007). Concrete Slump Test.",
        "182, doi:10.24432/C5FG7D",
        "e651069c0b0d9eb5aa739f91e019bc0f531401f7945e7c8c535169a1a02317a3",
        "Slump and flow, two other results of the test, are left out.",
    ),
    _number(
        "wine_quality",
        "Wine Quality (red)",
        (1599, 11),
        "median of at least three grades from 0 to 10",
        "Cortez, P., Cerdeira, A., Almeida, F., Matos, T. and Reis, J. (2009). Wine Quality.",
        "186, doi:10.24432/C56S3T",
        "3e3ab65514e8d9ae894b8a22f0882102c70eef35d86a9643e85a1c9ba4aef238",
        "The grades are the integers 3 to 8. 240 samples repeat an earlier one.",
    ),
    _number(
        "fish_toxicity",
        "QSAR Fish Toxicity",
        (908, 6),
        "LC50 of the fathead minnow, -log10 of moles per litre",
        "Ballabio, D., Cassotti, M., Consonni, V. and Todeschini, R. (2019). QSAR Fish Toxicity.",
        "504, doi:10.24432/C5JG7B",
        "27b130cfc8ddbe429272ef10a7e42c3c579ab2483bb69f42979d8be15c7450ac",
        "Features are molecular descriptors.",
    ),
    _number(
        "aquatic_toxicity",
        "QSAR Aquatic Toxicity",
        (546, 8),
        "LC50 of Daphnia magna, -log10 of moles per litre",
        "Ballabio, D., Cassotti, M., Consonni, V. and Todeschini, R. (2019). QSAR Aquatic Toxicity.",
        "505",
        "e6c887a256cd482a13711d3d6e56b4a08404e21453b4bf9e9f135914a7ff4570",
        "Features are molecular descriptors.",
    ),
)

#: Record of each dataset, by name.
CATALOGUE: dict[str, DatasetRecord] = {record.name: record for record in _RECORDS}
