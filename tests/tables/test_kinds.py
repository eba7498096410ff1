"""Tables as people have them: the task and what each column is, at the first attempt."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")


def test_task_and_columns(table_kind):
    X, y, target, encoder, said = table_kind.decide()
    assert target.task == table_kind.task
    found = {column["name"]: column["kind"] for column in encoder.columns_ if column["name"]}
    assert found == table_kind.columns
    for words in table_kind.words:
        assert words in said, said
    features = encoder.transform(X)
    assert len(features) == len(y)
    assert np.isfinite(features).all()
