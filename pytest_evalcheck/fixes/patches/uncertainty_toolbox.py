"""Patches of uncertainty-toolbox."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before

_NAN = "if np.isnan({0}).any():\n    return np.nan  # it lies in no interval\n"
_CALIBRATION = "uncertainty_toolbox.metrics_calibration"

LIBRARY = Library(
    "uncertainty-toolbox",
    "0.1.1",
    "0.2",
    patches=(
        Patch(
            mends=("uncertainty-toolbox-nan-lies-in-no-interval",),
            says="the calibration of forecasts that are NaN is NaN",
            edits={
                f"{_CALIBRATION}:miscalibration_area": (put_before("if vectorized:", _NAN.format("sd_multiples")),),
                f"{_CALIBRATION}:get_proportion_in_interval": (
                    put_before("num_within_quantile = 0", _NAN.format("normalized_residuals")),
                ),
                f"{_CALIBRATION}:get_proportion_under_quantile": (
                    put_before("num_below_quantile = 0", _NAN.format("normalized_residuals")),
                ),
                f"{_CALIBRATION}:get_proportion_lists_vectorized": (
                    put_before(
                        "return exp_proportions, obs_proportions",
                        """\
if np.isnan(normalized_residuals).any():
    obs_proportions = np.full_like(obs_proportions, np.nan)
""",
                    ),
                ),
            },
            test="""
                import numpy as np
                from uncertainty_toolbox import metrics_calibration

                errors = ("mean_absolute_calibration_error", "root_mean_squared_calibration_error")
                for name in (*errors, "miscalibration_area"):
                    for vectorized in (False, True):
                        for prop_type in ("interval", "quantile"):
                            mean, deviation, target = np.linspace(-0.5, 0.5, 8), np.full(8, 4.0), np.zeros(8)
                            options = {"vectorized": vectorized, "prop_type": prop_type}
                            score = getattr(metrics_calibration, name)
                            assert score(mean, deviation, target, **options) > 0
                            mean[:3] = np.nan
                            assert np.isnan(score(mean, deviation, target, **options))
            """,
        ),
    ),
)
