"""Patches of scikit-learn."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before, replace

LIBRARY = Library(
    "scikit-learn",
    "1.9.1",
    "1.10",
    patches=(
        Patch(
            mends=("scikit-learn-hinge-loss-of-one-class",),
            says="hinge_loss of two classes encodes the labels that it is told, whichever of them occur",
            edits={
                "sklearn.metrics._classification:hinge_loss": (
                    replace("lbin = LabelBinarizer(neg_label=-1)", "encoder = LabelEncoder().fit(y_true_unique)"),
                    replace("lbin.fit_transform(y_true)[:, 0]", "2 * encoder.transform(y_true) - 1"),
                )
            },
            test="""
                from sklearn.metrics import hinge_loss

                assert hinge_loss([1], [0.75], labels=[0, 1]) == 0.25
                assert hinge_loss([1, 0, 1], [0.75, -0.5, 2], labels=[0, 1]) == 0.25
                assert hinge_loss(["b"], [0.75], labels=["a", "b"]) == 0.25
            """,
        ),
        Patch(
            mends=("scikit-learn-d2-tweedie-of-constants",),
            says="d2_tweedie_score of constant targets is 1 where they are predicted, and else 0, as r2_score",
            edits={
                "sklearn.metrics._regression:d2_tweedie_score": (
                    put_before(
                        "return 1 - numerator / denominator",
                        "if denominator == 0:\n    return 1.0 if numerator == 0 else 0.0",
                    ),
                )
            },
            test="""
                from sklearn.metrics import d2_tweedie_score

                assert d2_tweedie_score([2.0, 2.0], [1.0, 3.0]) == 0
                assert d2_tweedie_score([2.0, 2.0], [2.0, 2.0], power=1) == 1
            """,
        ),
        Patch(
            mends=("scikit-learn-likelihood-ratios-of-one-class",),
            says="class_likelihood_ratios are undefined, and no error, where one class alone occurs and is predicted",
            edits={
                "sklearn.metrics._classification:class_likelihood_ratios": (
                    put_before(
                        "tn, fp, fn, tp = cm.ravel()",
                        """\
if cm.size == 1:
    # The other class is the one that does not occur; a label of 1 is the positive one.
    label = y_true[0] if labels is None else labels[0]
    cm = np.pad(cm, (1, 0) if label == 1 else (0, 1))""",
                    ),
                )
            },
            test="""
                import warnings

                import numpy as np
                from sklearn.metrics import class_likelihood_ratios

                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for label in (0, 1, "a"):
                        assert np.isnan(class_likelihood_ratios([label, label], [label, label])).all()
                    best = {"LR+": 1.0, "LR-": 1.0}
                    assert class_likelihood_ratios([1, 1], [1, 1], replace_undefined_by=best) == (1, 1)
            """,
        ),
        Patch(
            mends=("scikit-learn-det-curve-counts-weights-of-zero",),
            says="det_curve refuses samples of which one class alone has a weight",
            edits={
                "sklearn.metrics._ranking:det_curve": (
                    replace("if xp.unique_values(y_true).shape[0] != 2:", "if tps[-1] == 0 or fps[-1] == 0:"),
                )
            },
            test="""
                from sklearn.metrics import det_curve

                for weights in ([0, 1, 1], [1, 0, 0]):
                    try:
                        det_curve([1, 0, 0], [0.9, 0.4, 0.6], sample_weight=weights)
                    except ValueError as error:
                        assert "Only one class" in str(error)
                    else:
                        raise RuntimeError("a curve of one class")
                assert len(det_curve([1, 0, 0], [0.9, 0.4, 0.6])[0]) > 0
            """,
        ),
    ),
)
