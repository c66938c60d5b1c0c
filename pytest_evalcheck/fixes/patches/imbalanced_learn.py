"""Patches of imbalanced-learn."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_after, replace

LIBRARY = Library(
    "imbalanced-learn",
    "0.14.2",
    "0.15",
    patches=(
        Patch(
            mends=("imbalanced-learn-true-negatives-without-weights",),
            says="true negatives are counted with their weights",
            edits={
                "imblearn.metrics._classification:sensitivity_specificity_support": (
                    put_after(
                        "y_type, _, y_true, y_pred, sample_weight = _check_targets(",
                        """\
if sample_weight is not None and np.any(sample_weight):
    # a sample of weight 0 is left out, and so is a label that no other one has
    sample_weight = np.asarray(sample_weight)
    kept = sample_weight != 0
    y_true, y_pred, sample_weight = y_true[kept], y_pred[kept], sample_weight[kept]
""",
                    ),
                    replace(
                        "tn_sum = y_true.size - (pred_sum + true_sum - tp_sum)",
                        """\
total = y_true.size if sample_weight is None else sum(sample_weight)
# in this order the difference is exactly 0 where all samples have one label
tn_sum = (total - true_sum) - (pred_sum - tp_sum)""",
                    ),
                )
            },
            test="""
                from imblearn.metrics import specificity_score

                true, predicted = [0, 0, 1, 1], [0, 1, 1, 1]
                for weight in (2, 0.5):
                    assert specificity_score(true, predicted, sample_weight=[weight] * 4) == 0.5
                found = specificity_score(true, predicted, sample_weight=[3, 1, 2, 5], average=None)
                assert found.tolist() == [1.0, 0.75]
                found = specificity_score([0, 1, 2], [0, 1, 0], sample_weight=[1, 1, 0], average=None)
                assert found.tolist() == [1.0, 1.0]
            """,
        ),
    ),
)
