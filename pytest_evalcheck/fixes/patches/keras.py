"""Patches of keras."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, begin, put_before, replace

LIBRARY = Library(
    "keras",
    "3.15.1",
    "3.16",
    patches=(
        Patch(
            mends=("keras-copies-lose-their-state",),
            says="a copy of a metric by deepcopy or pickle has the state of the metric",
            edits={
                "keras.src.metrics.metric:Metric": (
                    append(
                        """\
def __reduce__(self):
    made = {k: (v.shape, v.dtype, v.name) for k, v in vars(self).items() if isinstance(v, backend.Variable)}
    plain = {k: v for k, v in vars(self).items() if v is None or isinstance(v, (bool, int))}
    values = [backend.convert_to_numpy(v) for v in self.variables]
    return (*super().__reduce__(), (made, plain, values))

def __setstate__(self, state):
    made, plain, values = state
    for key, (shape, dtype, name) in made.items():
        if not hasattr(self, key):  # made by the first batch
            setattr(self, key, self.add_variable(shape, "zeros", dtype=dtype, name=name))
    vars(self).update(plain)
    for variable, value in zip(self.variables, values):
        variable.assign(value)"""
                    ),
                ),
            },
            test="""
                import copy
                import pickle

                import keras

                for metric in (keras.metrics.MeanSquaredError(), keras.metrics.R2Score()):
                    metric.update_state([[0.0], [1.0]], [[1.0], [1.5]])
                    for made in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
                        assert float(made.result()) == float(metric.result()) != 0
            """,
        ),
        Patch(
            mends=("keras-result-is-the-variable",),
            says="result() of a sum or a count is a copy of its variable",
            edits={
                "keras.src.metrics.reduction_metrics:Sum.result": (
                    replace("ops.cast(self.total, self.dtype)", "ops.copy(ops.cast(self.total, self.dtype))"),
                ),
                "keras.src.metrics.confusion_metrics:_ConfusionMatrixConditionCount.result": (
                    replace("backend.convert_to_tensor(result)", "ops.copy(backend.convert_to_tensor(result))"),
                ),
            },
            test="""
                import keras
                import torch

                for metric in (keras.metrics.Sum(), keras.metrics.TruePositives()):
                    metric.update_state(*([[1.0]] * (1 if metric.name == "sum" else 2)))
                    with torch.no_grad():
                        metric.result().mul_(100)
                    assert float(metric.result()) == 1
            """,
        ),
        Patch(
            mends=("keras-r2-keeps-half-of-a-rejected-batch",),
            says="R2Score compares labels and predictions before it adds to its sums",
            edits={
                "keras.src.metrics.regression_metrics:R2Score.update_state": (
                    replace(
                        """\
self.total_mse.assign(
    self.total_mse
    + ops.sum(
        (y_true - y_pred) ** 2 * sample_weight,
        axis=0,
    )
)
self.count.assign(""",
                        "self.count.assign(",
                    ),
                    put_before(
                        "self.sum.assign(",
                        """\
# The first of the sums, because it refuses shapes that do not match.
self.total_mse.assign(
    self.total_mse
    + ops.sum(
        (y_true - y_pred) ** 2 * sample_weight,
        axis=0,
    )
)""",
                    ),
                )
            },
            test="""
                import keras
                import numpy as np

                metric = keras.metrics.R2Score()
                metric.update_state(np.array([[1.0], [2.0], [4.0]]), np.array([[1.5], [2.0], [3.5]]))
                before = float(metric.result())
                for wrong in (np.ones((3, 1)), np.ones((2, 2))):
                    try:
                        metric.update_state(np.array([[8.0], [9.0]]), wrong)
                    except Exception:
                        pass
                    else:
                        raise RuntimeError("the batch was taken")
                    assert float(metric.result()) == before
            """,
        ),
        Patch(
            mends=("keras-r2-of-infinite-predictions",),
            says="R2Score is 0 for targets that are all equal, and not for an infinite prediction",
            edits={
                "keras.src.metrics.regression_metrics:R2Score.result": (
                    replace(
                        "raw_scores = ops.where(ops.isinf(raw_scores), 0.0, raw_scores)",
                        """\
is_constant = ops.logical_and(
    ops.isinf(raw_scores), ops.isfinite(self.total_mse)
)
raw_scores = ops.where(is_constant, 0.0, raw_scores)""",
                    ),
                )
            },
            test="""
                import keras

                metric = keras.metrics.R2Score()
                metric.update_state([[0.0], [1.0], [2.0]], [[0.0], [1.0], [float("inf")]])
                assert float(metric.result()) == float("-inf")
                metric = keras.metrics.R2Score()
                metric.update_state([[1.0], [1.0]], [[0.0], [1.0]])
                assert float(metric.result()) == 0
            """,
        ),
        Patch(
            mends=("keras-top-k-of-fewer-classes",),
            says="a label is among the k best where there are fewer than k classes",
            edits={
                "keras.src.backend.torch.math:in_top_k": (
                    replace("top_k(predictions, k).values", "top_k(predictions, min(k, predictions.shape[-1])).values"),
                )
            },
            test="""
                import keras

                metric = keras.metrics.TopKCategoricalAccuracy(k=5)
                metric.update_state([[0, 1, 0]], [[0.1, 0.2, 0.7]])
                assert float(metric.result()) == 1
            """,
        ),
        Patch(
            mends=("keras-sparse-crossentropy-takes-no-lists",),
            says="sparse_categorical_crossentropy() takes lists, as in its example",
            edits={
                "keras.src.losses.losses:sparse_categorical_crossentropy": (
                    begin("y_true = ops.convert_to_tensor(y_true)\ny_pred = ops.convert_to_tensor(y_pred)"),
                )
            },
            test="""
                import keras

                found = keras.losses.sparse_categorical_crossentropy([1, 2], [[0.05, 0.95, 0], [0.1, 0.8, 0.1]])
                assert found.shape == (2,)
            """,
        ),
    ),
)
