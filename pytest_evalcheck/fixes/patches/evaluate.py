"""Patches of evaluate."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, put_before

_COUNT = """
                import datasets
                import evaluate


                def counting(name, feature, **options):
                    def info(self):
                        named = {k: datasets.Value(feature) for k in ("predictions", "references")}
                        texts = dict.fromkeys(("description", "citation", "inputs_description"), "")
                        return evaluate.MetricInfo(**texts, features=datasets.Features(named))

                    def compute(self, predictions, references):
                        return {name: len(predictions)}

                    return type(name, (evaluate.Metric,), {"_info": info, "_compute": compute})(**options)
"""
"""The head of a test: metrics that count their samples."""

LIBRARY = Library(
    "evaluate",
    "0.4.6",
    "0.5",
    source="src/",
    patches=(
        Patch(
            mends=("evaluate-fractions-become-integers",),
            says="fractions are refused where a feature is an integer, and not cut",
            edits={
                "evaluate.module:EvaluationModule": (
                    append(
                        """\
def _refuse_fractions(self, schema, column):
    if isinstance(schema, (list, tuple)) or hasattr(schema, "feature"):
        inner = schema[0] if isinstance(schema, (list, tuple)) else schema.feature
        for each in column:
            if each is not None:
                self._refuse_fractions(inner, each)
    elif isinstance(schema, Value) and pa.types.is_integer(schema.pa_type):
        from datasets.features.features import cast_to_python_objects

        values = np.asarray(cast_to_python_objects(column))
        if values.dtype.kind == "f" and (values != np.trunc(values)).any():
            raise TypeError("Expected integers but got fractions.")"""
                    ),
                ),
                "evaluate.module:EvaluationModule.add_batch": (
                    put_before(
                        "batch = self.selected_feature_format.encode_batch(batch)",
                        """\
for key, column in batch.items():
    self._refuse_fractions(self.selected_feature_format[key], column)""",
                    ),
                ),
                "evaluate.module:EvaluationModule.add": (
                    put_before(
                        "example = self.selected_feature_format.encode_example(example)",
                        """\
for key, value in example.items():
    self._refuse_fractions(self.selected_feature_format[key], [value])""",
                    ),
                ),
                "evaluate.module:EvaluationModule._infer_feature_from_example": (
                    put_before(
                        "features.encode_example(example)",
                        """\
for key, value in example.items():
    self._refuse_fractions(features[key], [value])""",
                    ),
                ),
            },
            test=_COUNT
            + """
                import numpy as np

                metric = counting("n", "int32", keep_in_memory=True)
                metric.add_batch(predictions=[0.0, 1.0], references=np.array([0, 1]))
                for wrong in ([0.9, 1.0], np.array([0.5, 1.5])):
                    try:
                        metric.add_batch(predictions=wrong, references=[0, 1])
                    except ValueError:
                        continue
                    raise RuntimeError("a fraction was cut")
                metric.add(prediction=1.0, reference=1)
                assert metric.compute() == {"n": 3}
            """,
        ),
        Patch(
            mends=("evaluate-combination-counts-in-a-part",),
            says="a combination tries a batch in each of its metrics before one of them counts it",
            edits={
                "evaluate.module:CombinedEvaluations.add_batch": (
                    put_before(
                        "for evaluation_module in self.evaluation_modules:",
                        """\
if len(self.evaluation_modules) > 1:
    for evaluation_module in self.evaluation_modules:
        batch = {"predictions": predictions, "references": references, **kwargs}
        evaluation_module._try_batch({name: batch[name] for name in evaluation_module._feature_names()})""",
                    ),
                ),
                "evaluate.module:EvaluationModule": (
                    append(
                        """\
def _try_batch(self, batch):
    \"\"\"Raise what `add_batch` raises, and keep nothing.\"\"\"
    trial = object.__new__(type(self))
    vars(trial).update(vars(self), filelock=None, rendez_vous_lock=None)
    if self.writer is None:
        trial.selected_feature_format = self._infer_feature_from_batch(batch)
    trial.writer = ArrowWriter(features=trial.selected_feature_format, stream=pa.BufferOutputStream())
    type(self).add_batch(trial, **batch)
    trial.writer.close()"""
                    ),
                ),
            },
            test=_COUNT
            + """
                parts = [counting(name, name, keep_in_memory=True) for name in ("string", "int32")]
                both = evaluate.combine(parts)
                both.add_batch(predictions=["1"], references=["1"])
                for wrong in (["a"], ["1", "2"]):
                    try:
                        both.add_batch(predictions=wrong, references=["b"])
                    except ValueError:
                        continue
                    raise RuntimeError("the batch was taken")
                assert both.compute() == {"string": 1, "int32": 1}
            """,
        ),
    ),
)
