"""Parts that all estimators have in a file: parameters, fitted attributes, output container."""

from __future__ import annotations

from typing import Any

from genmetric.files._probe import Budget, check_jobs


class EstimatorForm:
    """Base class of the forms of estimators, which differ in what `fit` has learned."""

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return what `fit` has learned, by name; empty for an estimator that is not fitted."""
        return {}

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Give an estimator, which has its parameters, what `fit` had learned; raise if invalid."""

    def parts(self, value: Any) -> dict[str, Any]:
        """Return the parts of an estimator, by name."""
        parts: dict[str, Any] = {"parameters": value.get_params(deep=False)}
        fitted = self.fitted(value)
        if fitted:
            parts["fitted"] = fitted
        # scikit-learn has a public way to set the container and none to read it.
        output = (getattr(value, "_sklearn_output_config", None) or {}).get("transform")
        if output is not None:
            parts["output"] = str(output)
        return parts

    def rebuild(self, cls: type, parts: dict[str, Any], budget: Budget) -> Any:
        """Return an estimator from its parts; raise an error if they are inconsistent."""
        if not set(parts) <= {"parameters", "fitted", "output"}:
            raise ValueError(f"{cls.__name__} has the parts {sorted(parts)}")
        parameters = parts["parameters"]
        if not isinstance(parameters, dict) or not all(isinstance(n, str) for n in parameters):
            raise ValueError(f"the parameters of {cls.__name__} have no names")
        check_jobs(parameters)
        estimator = cls(**parameters)
        if "fitted" in parts:
            fitted = parts["fitted"]
            if not isinstance(fitted, dict) or not all(isinstance(name, str) for name in fitted):
                raise ValueError(f"the fitted attributes of {cls.__name__} have no names")
            self.restore(estimator, fitted, budget)
        if "output" in parts:
            if parts["output"] not in ("default", "pandas", "polars"):
                raise ValueError(f"{cls.__name__} has an invalid output container")
            estimator.set_output(transform=parts["output"])
        return estimator
