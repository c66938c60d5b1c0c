"""Patches of MAPIE."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before

_NAN = "if np.isnan(y_scores).any():\n    return float(np.nan)  # no bin holds it\n"

LIBRARY = Library(
    "mapie",
    "1.6.0",
    "1.7",
    patches=(
        Patch(
            mends=("mapie-nan-lies-in-no-bin",),
            says="calibration errors of scores that are NaN are NaN",
            edits={
                "mapie.metrics.calibration:expected_calibration_error": (
                    put_before("_, bin_accs, bin_confs, bin_sizes = _calc_bins(", _NAN),
                ),
                "mapie.metrics.calibration:top_label_ece": (put_before("ece = float(0.0)", _NAN),),
            },
            test="""
                import math

                import numpy as np
                from mapie.metrics.calibration import expected_calibration_error, top_label_ece

                assert math.isnan(expected_calibration_error(np.array([0, 1]), np.array([np.nan, 0.25])))
                assert expected_calibration_error(np.array([1]), np.array([0.25])) == 0.75
                scores = np.array([[0.75, 0.25], [0.25, 0.75]])
                assert top_label_ece(np.array([0, 1]), scores) == 0.25
                scores[0, 1] = np.nan
                assert math.isnan(top_label_ece(np.array([0, 1]), scores))
            """,
        ),
    ),
)
