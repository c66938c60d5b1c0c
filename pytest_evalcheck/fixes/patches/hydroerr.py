"""Patches of HydroErr."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_after, replace

_NO_ROW = put_after(
    "remove_zero=remove_zero,",
    """\
if simulated_array.size == 0:
    return np.mean(simulated_array)  # NaN and a warning, as most functions give""",
)
_REFUSED = (
    *("nrmse_range", "nrmse_iqr", "mape", "smape1", "smape2"),
    *("h7_mhe", "h7_mahe", "h7_rmshe", "h8_mhe", "h8_mahe", "h8_rmshe"),
)

LIBRARY = Library(
    "hydroerr",
    "2.0.0",
    "2.1",
    patches=(
        Patch(
            mends=("hydroerr-error-of-no-row",),
            says="every function is NaN where no row is left",
            edits={f"HydroErr.HydroErr:{name}": (_NO_ROW,) for name in _REFUSED},
            test="""
                import warnings

                import HydroErr
                import numpy as np

                names = "nrmse_range nrmse_iqr mape smape1 smape2 h7_mhe h7_mahe h7_rmshe h8_mhe h8_mahe h8_rmshe"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for name in names.split():
                        one, other = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
                        assert np.isnan(getattr(HydroErr, name)(one, other, remove_neg=True))
            """,
        ),
        Patch(
            mends=("hydroerr-distance-of-no-row",),
            says="distances and the anomaly correlation of no row are NaN, and not 0",
            edits={f"HydroErr.HydroErr:{name}": (_NO_ROW,) for name in ("ed", "ned", "sid", "acc")},
            test="""
                import warnings

                import HydroErr
                import numpy as np

                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for name in ("ed", "ned", "sid", "acc"):
                        one, other = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
                        assert np.isnan(getattr(HydroErr, name)(one, other, remove_neg=True))
            """,
        ),
        Patch(
            mends=("hydroerr-replace-inf-asks-for-replace-nan",),
            says="infinities are replaced where replace_inf is given",
            edits={
                "HydroErr.util:treat_values": (
                    replace(
                        "if replace_nan is not None:\n# Finding the NaNs\nsim_inf",
                        "if replace_inf is not None:\n    # Finding the infinities\n    sim_inf",
                    ),
                )
            },
            test="""
                import warnings

                import HydroErr
                import numpy as np

                one, other = np.array([1.0, np.inf, 3.0]), np.array([1.0, 2.0, 3.0])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert abs(HydroErr.rmse(one, other, replace_inf=5.0) - 3**0.5) < 1e-9
                    assert HydroErr.rmse(one, other, replace_nan=0.0) == 0
            """,
        ),
    ),
)
