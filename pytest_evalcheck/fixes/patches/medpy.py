"""Patches of MedPy."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, replace

LIBRARY = Library(
    "medpy",
    "0.5.2",
    "0.6",
    patches=(
        Patch(
            mends=("medpy-object-rates-exchange-the-result-and-the-reference",),
            says="obj_tpr() divides by the objects of the reference, and obj_fpr() by those of the result",
            edits={
                "medpy.metric.binary:obj_tpr": (
                    replace("_, _, n_obj_result, _, mapping", "_, _, _, n_obj_reference, mapping"),
                    replace(
                        "return len(mapping) / float(n_obj_result)",
                        """\
if n_obj_reference == 0:
    raise RuntimeError("The reference does not contain any binary object.")
return len(mapping) / float(n_obj_reference)""",
                    ),
                ),
                "medpy.metric.binary:obj_fpr": (
                    replace("_, _, _, n_obj_reference, mapping", "_, _, n_obj_result, _, mapping"),
                    replace(
                        "return (n_obj_reference - len(mapping)) / float(n_obj_reference)",
                        """\
if n_obj_result == 0:
    raise RuntimeError("The result does not contain any binary object.")
return (n_obj_result - len(mapping)) / float(n_obj_result)""",
                    ),
                ),
            },
            test="""
                import numpy as np
                from medpy.metric import obj_fpr, obj_tpr

                two, one = np.array([1, 0, 1, 0, 1]), np.array([1, 0, 1, 0, 0])
                assert abs(obj_tpr(one, two) - 2 / 3) < 1e-9
                assert obj_tpr(two, one) == 1
                assert obj_fpr(one, two) == 0
                assert abs(obj_fpr(two, one) - 1 / 3) < 1e-9
                assert obj_tpr(0 * one, one) == 0
                for rate, images in ((obj_tpr, (one, 0 * one)), (obj_fpr, (0 * one, one))):
                    try:
                        rate(*images)
                    except RuntimeError:
                        pass
                    else:
                        raise AssertionError("there is no rate of no objects")
            """,
        ),
        Patch(
            mends=("medpy-relative-deviation-of-empty-histograms",),
            says="the relative deviation of two empty histograms is 0",
            edits={
                "medpy.metric.histogram:relative_deviation": (
                    replace("return numerator / denominator", "return numerator / denominator if denominator else 0.0"),
                )
            },
            test="""
                import numpy as np
                from medpy.metric.histogram import relative_deviation

                assert relative_deviation(np.zeros(2), np.zeros(2)) == 0
                assert relative_deviation(np.zeros(2), np.ones(2)) == 2
            """,
        ),
    ),
)
