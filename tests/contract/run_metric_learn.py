"""Run metric-learn's own test-suite on the metrics of genmetric, from outside.

``nox -s contract`` sets up an environment and calls this script; the tests come with
metric-learn's source distribution, which pip downloads, and nothing of them is kept here. The
suite runs most of its tests over lists of learners, and these lists are replaced by ours.

metric-learn 0.7.0 imports private names that scikit-learn 1.8 dropped, and its tests a form of
``pytest.warns`` that pytest 8 dropped: hence an environment of its own. Arguments go to pytest.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import genmetric

RELEASE = "metric-learn==0.7.0"

TEXTS = "the error is the same, its text is that of scikit-learn"

#: Tests over all learners that cannot hold for a learner outside metric-learn.
NOT_OURS = {
    "test_score_pairs_warning": "score_pairs, which metric-learn deprecates for pair_distance",
    "test_error_message_t_pair_distance_or_score": "calls a private method before fit; the error "
    "it is after is checked on a fitted metric in tests/learners/test_mahalanobis.py",
    "test_embed_dim": TEXTS,
    "test_pair_distance_dim": TEXTS,
    "test_preprocess_points_invalid_message": TEXTS,
    "test_n_components": TEXTS,
    "test_init_transformation": "each algorithm has its own choices of `init`",
    "test_auto_init_transformation": "each algorithm has its own choices of `init`",
    "test_init_mahalanobis": "each algorithm has its own choices of `init`",
}

PRIVATE = "about a private method or attribute of metric-learn"
#: The same for learners from pairs. Tests that need no metric-learn are in
#: tests/learners/test_pairs.py.
NOT_OUR_PAIRS = {
    "test_pair_distance_pair_score_equivalent": "pair_score is the log-likelihood ratio, which "
    "also depends on the lengths of the vectors, and not minus the distance",
    "test_same_with_or_without_preprocessor": "all vectors of a preprocessor count in the total "
    "covariance, also those in no pair",
    "test_components_is_2D": "one rounded feature joins all its pairs to a single entity, which is "
    "an error",
    "test_pipeline_consistency": "passes pairs to transform, which takes vectors",
    "test_various_scoring_on_tuples_learners": "asks learners with predict_proba for a scorer that "
    "scikit-learn has renamed",
    "test_raise_not_fitted_error_if_not_fitted": "score_pairs, which metric-learn deprecates for "
    "pair_distance",
    "test_check_input_pairs_learners_invalid_y": "the error is the same, its text is ours",
    "test_error_message_tuple_size": PRIVATE,
    "test_validate_calibration_params_invalid_parameters_right_error": PRIVATE,
    "test_validate_calibration_params_valid_parameters": PRIVATE,
    "test_validate_calibration_params_invalid_parameters_error_before__fit": PRIVATE,
}
FIXED = "about metric-learn's own functions and classes by name, not over a list of learners"
NO_LEARNER = "over learners from triplets or quadruplets, or of a given name: we have none"


class OurLearners:
    """pytest plugin that replaces the learners of metric-learn by ours and selects their tests."""

    def __init__(self) -> None:
        self.from_labels = [genmetric.GenerativeMetric(), genmetric.LMNN()]
        # With normalize=True the map is not linear.
        self.from_pairs = [genmetric.PairClassifier(normalize=False)]
        self.learners = self.from_labels + self.from_pairs
        self.deselected: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def pytest_configure(self, config: pytest.Config) -> None:
        """Register the marks of the suite."""
        for mark in ("unit", "integration"):
            config.addinivalue_line("markers", mark)

    def pytest_sessionstart(self) -> None:
        """Fill the lists of learners in place, since decorators hold them already."""
        from test import test_utils as suite

        supervised = [(learner, suite.build_classification) for learner in self.from_labels]
        pairs = [(learner, suite.build_pairs) for learner in self.from_pairs]
        lists = {
            "triplets_learners": [],
            "quadruplets_learners": [],
            "regressors": [],
            "pairs_learners": pairs,
            "tuples_learners": pairs,
            "classifiers": supervised,
            "supervised_learners": supervised,
            "metric_learners": pairs + supervised,
            "metric_learners_pipeline": pairs + supervised,
        }
        for name, learners in lists.items():
            getattr(suite, name)[:] = learners
            getattr(suite, f"ids_{name}")[:] = [type(learner).__name__ for learner, _ in learners]

    def reason_to_leave(self, item: pytest.Item) -> str | None:
        """Return the reason to deselect a test, or None."""
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        name, estimator = getattr(item, "originalname", ""), parameters.get("estimator")
        if any(estimator is learner for learner in self.from_pairs) and name in NOT_OUR_PAIRS:
            return NOT_OUR_PAIRS[name]
        if any(estimator is learner for learner in self.learners):
            return NOT_OURS.get(name)
        return NO_LEARNER if any(item.iter_markers("skip")) else FIXED

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[Any]) -> None:
        """Keep the tests of our learners, and count the rest by reason."""
        reasons = [self.reason_to_leave(item) for item in items]
        self.deselected.update(reason for reason in reasons if reason)
        pairs = list(zip(items, reasons, strict=True))
        config.hook.pytest_deselected(items=[item for item, reason in pairs if reason])
        items[:] = [item for item, reason in pairs if not reason]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count outcomes; a failure of set-up counts, a success of it does not."""
        if report.when == "call" or not report.passed:
            self.outcomes[report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print what was deselected and why."""
        terminalreporter.section(f"{RELEASE} on {[type(x).__name__ for x in self.learners]}")
        for outcome, count in self.outcomes.items():
            terminalreporter.line(f"{count:5d} {outcome}")
        for reason, count in self.deselected.most_common():
            terminalreporter.line(f"{count:5d} left out: {reason}")


def download_suite(directory: Path) -> Path:
    """Download and unpack metric-learn's source with its tests; return its root."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--no-binary", "metric-learn", "--dest", str(directory), RELEASE], check=True
    )
    (archive,) = directory.glob("metric[-_]learn-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def main(arguments: list[str]) -> int:
    """Run the suite; 0 where all of it that applies to us passes."""
    with tempfile.TemporaryDirectory() as directory:
        root = download_suite(Path(directory))
        # Its tests import each other as `test.test_utils`; without this, Python's own package of
        # that name comes first.
        (root / "test" / "__init__.py").touch()
        sys.path.insert(0, str(root))
        plugin = OurLearners()
        options = ["-q", "-ra", "--disable-warnings", "-p", "no:cacheprovider"]
        code = pytest.main(
            [*options, f"--rootdir={root}", str(root / "test"), *arguments], [plugin]
        )
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
