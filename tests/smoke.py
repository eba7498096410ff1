"""What an installed genmetric has to do where nothing but its dependencies is installed.

``python -I tests/smoke.py``: the session `build` of noxfile.py runs it on the wheel and the sdist.
"""

import sys
import tempfile
from importlib.metadata import files, version
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Import, load, fit, predict, save, load, and fail politely."""
    import numpy as np

    import genmetric
    from genmetric.datasets import load_ionosphere, load_iris

    assert genmetric.__version__ == version("genmetric")
    installed = {str(path) for path in files("genmetric") or ()}
    assert "genmetric/py.typed" in installed
    assert not any(path.startswith(("tests", "docs")) for path in installed)
    extras = ("faiss", "dask", "skl2onnx", "skops", "click", "pyarrow", "matplotlib", "pandas")
    assert not any(find_spec(name) for name in extras), "this environment is not empty"

    X, y = load_iris(return_X_y=True)
    metric = genmetric.GenerativeMetric().fit(X, y)
    for name in ("LMNN", "LocalMetricClassifier", "EnergyClassifier", "SimpleMKLClassifier"):
        model = getattr(genmetric, name)().fit(X[::2], y[::2])
        assert not hasattr(model, "score") or model.score(X[1::2], y[1::2]) > 0.9
    assert genmetric.MetricKMeans(3, random_state=0).fit(X).labels_.max() == 2
    assert load_ionosphere(return_X_y=True)[0].shape == (351, 34)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric.npz"
        genmetric.save(metric, path)
        np.testing.assert_array_equal(genmetric.load(path).transform(X), metric.transform(X))
    said = ""
    try:
        genmetric.FaissNeighborsTransformer().fit(X)
    except ImportError as error:
        said = str(error)
    assert 'pip install "genmetric[ann]"' in said
    from genmetric.cli import main as command

    assert command(["--help"]) == 2  # click is not there either
    sys.stdout.write(f"genmetric {version('genmetric')} works\n")


if __name__ == "__main__":
    main()
