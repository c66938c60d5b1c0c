"""Patches of sktime."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before

LIBRARY = Library(
    "sktime",
    "1.2.0",
    "1.3",
    patches=(
        Patch(
            mends=("sktime-nan-is-left-out",),
            says="a metric warns of forecasts that are NaN, which means leave out",
            edits={
                "sktime.performance_metrics.forecasting._base:BaseForecastingErrorMetric._check_consistent_input": (
                    put_before(
                        "allowed_multioutput_str = ",
                        """\
if (y_pred.isna().to_numpy() & y_true.notna().to_numpy()).any():
    warn(
        "y_pred has NaN values, which are left out of averages. "
        "The metric is that of the other forecasts alone.",
        obj=self,
    )
""",
                    ),
                )
            },
            test="""
                import warnings

                import numpy as np
                from sktime.performance_metrics.forecasting import MeanAbsoluteError

                true, predicted = np.array([0.0, 1.0]), np.array([1.0, 2.0])
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    MeanAbsoluteError()(true, predicted)
                assert not any("NaN" in str(each.message) for each in seen)
                predicted[0] = np.nan
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    MeanAbsoluteError()(true, predicted)
                assert any("NaN" in str(each.message) for each in seen)
            """,
        ),
    ),
)
