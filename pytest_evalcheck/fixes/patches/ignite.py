"""Patches of ignite."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, begin, body, put_after, put_before, replace

_WIDE = """\
# halves are subtracted and summed in float32, integers in int64
dtype = torch.promote_types(y_pred.dtype, y.dtype)
dtype = torch.promote_types(dtype, torch.float32 if dtype.is_floating_point else torch.int64)
y_pred, y = y_pred.to(dtype), y.to(dtype)"""
_FLOAT32 = """\
dtype = torch.promote_types(torch.promote_types(y_pred.dtype, y.dtype), torch.float32)
y_pred, y = y_pred.to(dtype), y.to(dtype)"""
_DOUBLE = """\
# the difference of two sums of squares is lost in float32
dtype = torch.float32 if "mps" in (y.device.type, self._device.type) else torch.float64
dtype = torch.promote_types(torch.promote_types(y_pred.dtype, y.dtype), dtype)
y_pred, y = y_pred.to(dtype), y.to(dtype)"""
_LENGTHS = """\
if len(y_pred) != len(y):
    raise ValueError(f"nb of candidates should be equal to nb of reference lists ({len(y_pred)} != {len(y)})")"""

LIBRARY = Library(
    "pytorch-ignite",
    "0.5.5",
    "0.6",
    patches=(
        Patch(
            mends=("pytorch-ignite-run-after-an-error-does-nothing",),
            says="a run after one that ended in an error begins anew",
            edits={
                "ignite.engine.engine:Engine._internal_run": (
                    replace(
                        """\
except StopIteration as out:
self._internal_run_generator = None
return out.value""",
                        """\
except StopIteration as out:
    self._internal_run_generator = None
    return out.value
except BaseException:
    self._internal_run_generator = None
    raise""",
                    ),
                )
            },
            test="""
                import logging

                from ignite.engine import Engine
                from ignite.metrics import Average

                def broken():
                    yield 0.0
                    raise OSError("cannot be read")

                logging.disable(logging.CRITICAL)
                evaluator = Engine(lambda engine, batch: float(batch))
                Average().attach(evaluator, "mean")
                try:
                    evaluator.run(broken(), epoch_length=2)
                except OSError:
                    pass
                logging.disable(logging.NOTSET)
                assert evaluator.run([7.0, 9.0], epoch_length=2).metrics["mean"] == 8
            """,
        ),
        Patch(
            mends=("pytorch-ignite-stream-of-another-length",),
            says="a stream has the length that is counted in it, not that of the data of the run before",
            edits={
                "ignite.engine.engine:Engine.run": (
                    replace(
                        """\
if epoch_length is None:
# Try to get from data first, then fall back to existing state
if data is not None:
epoch_length = self._get_data_length(data)
if epoch_length is None:
epoch_length = self.state.epoch_length""",
                        """\
length_of_other_data = getattr(self, "_length_of_data", None)
self._length_of_data = None
if epoch_length is None:
    # Try to get from data first, then fall back to one that was set
    if data is not None:
        epoch_length = self._length_of_data = self._get_data_length(data)
    if epoch_length is None and (data is None or self.state.epoch_length != length_of_other_data):
        epoch_length = self.state.epoch_length""",
                    ),
                ),
                **{
                    f"ignite.engine.engine:Engine.{name}": (
                        put_after("self.state.epoch_length = iter_counter", "self._length_of_data = iter_counter"),
                    )
                    for name in ("_run_once_on_dataset_as_gen", "_run_once_on_dataset_legacy")
                },
            },
            test="""
                from ignite.engine import Engine
                from ignite.metrics import Average

                evaluator = Engine(lambda engine, batch: float(batch))
                Average().attach(evaluator, "mean")
                for values in ([1.0, 2.0], [1.0, 2.0, 30.0], [1.0, 3.0]):
                    assert evaluator.run(iter(values)).metrics["mean"] == sum(values) / len(values)
                evaluator.run([1.0])
                assert evaluator.run(iter([1.0, 3.0])).metrics["mean"] == 2
                evaluator.run(iter([1.0, 3.0]), epoch_length=1)
                assert evaluator.run(iter([1.0, 3.0])).metrics["mean"] == 1  # a length that was set is kept
            """,
        ),
        Patch(
            mends=("pytorch-ignite-epoch-metric-state-not-loaded", "pytorch-ignite-state-not-saved"),
            says="state dicts hold the whole state, lists of batches can be loaded, and a loaded state is a copy",
            edits={
                "ignite.metrics.metric:Metric._load_state_dict_per_rank": (
                    replace("x.load_value(y)", "x.load_value(y.clone() if isinstance(y, torch.Tensor) else y)"),
                    put_after(
                        "attr = getattr(self, attr_name)",
                        """\
batches = state_dict[attr_name]
if isinstance(attr, list) and isinstance(batches, Sequence):
    if all(isinstance(batch, torch.Tensor) for batch in [*attr, *batches]):
        setattr(self, attr_name, [batch.clone() for batch in batches])
        continue""",
                    ),
                    put_before("for attr_name in", 'if "_result" in self.__dict__:\n    self._result = None'),
                ),
                "ignite.metrics.cohen_kappa:CohenKappa": (append('_state_dict_all_req_keys = ("_impl",)'),),
                "ignite.metrics.nlp.character_error_rate:CharacterErrorRate": (
                    append('_state_dict_all_req_keys = ("_num_errors", "_num_refs", "_num_examples")'),
                ),
                "ignite.metrics.mutual_information:MutualInformation.reset": (
                    begin(
                        """\
self._state_dict_all_req_keys = (*Entropy._state_dict_all_req_keys, "_sum_of_probabilities")"""
                    ),
                ),
                "ignite.metrics.mean_average_precision:MeanAveragePrecision": (
                    append(
                        """\
_state_dict_all_req_keys = ("_y_pred", "_y_true", "_num_classes")

def _load_state_dict_per_rank(self, state_dict):
    super()._load_state_dict_per_rank(state_dict)
    self._type = None  # a text, which a state dict does not hold
    if self._y_true:
        others = "multilabel" if self._is_multilabel else "binary"
        self._type = "multiclass" if self._y_true[0].ndim == 1 else others"""
                    ),
                ),
            },
            test="""
                import torch
                from ignite.metrics import (
                    ROC_AUC,
                    CharacterErrorRate,
                    CohenKappa,
                    MeanAveragePrecision,
                    MutualInformation,
                )

                scores, labels = torch.tensor([0.25, 0.75, 0.5]), torch.tensor([0, 1, 1])
                logits, hits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 1.5]]), torch.eye(2)[[1, 0, 1]]
                for make, one, two in (
                    (ROC_AUC, (scores, labels), (1 - scores, labels)),
                    (CharacterErrorRate, (["a"], ["b"]), (["a"], ["a"])),
                    (CohenKappa, (labels, labels), (1 - labels, labels)),
                    (lambda: CohenKappa(num_classes=2), (labels, labels), (1 - labels, labels)),
                    (MutualInformation, (logits, labels), (logits.flip(1), labels)),
                    (MeanAveragePrecision, (logits, labels), (logits.flip(1), labels)),
                    (MeanAveragePrecision, (scores, labels), (1 - scores, labels)),
                    (lambda: MeanAveragePrecision(is_multilabel=True), (logits, hits), (logits.flip(1), hits)),
                ):
                    metric, again = make(), make()
                    metric.update(one)
                    again.load_state_dict(metric.state_dict())
                    assert again.compute() == metric.compute()
                    for each in (metric, again):
                        each.update(two)
                    assert again.compute() == metric.compute()
            """,
        ),
        Patch(
            mends=("pytorch-ignite-computes-in-the-dtype-of-inputs", "pytorch-ignite-r2-cancels-in-float32"),
            says="errors are computed at least in float32, and differences of sums of squares in float64",
            edits={
                "ignite.metrics.mean_absolute_error:MeanAbsoluteError.update": (
                    put_before("absolute_errors = torch.abs(", _WIDE),
                ),
                "ignite.metrics.mean_squared_error:MeanSquaredError.update": (
                    put_before("squared_errors = torch.pow(", _WIDE),
                ),
                "ignite.metrics.mean_pairwise_distance:MeanPairwiseDistance.update": (
                    put_before("distances = pairwise_distance(", _FLOAT32),
                ),
                "ignite.metrics.js_divergence:JSDivergence._update": (begin(_FLOAT32),),
                "ignite.metrics.maximum_mean_discrepancy:MaximumMeanDiscrepancy.update": (
                    put_before("xx, yy, zz = ", _DOUBLE.replace("y_pred", "x").replace("sums", "products")),
                ),
                "ignite.metrics.regression.fractional_bias:FractionalBias._update": (
                    put_before("errors = 2 * ", _FLOAT32),
                ),
                "ignite.metrics.regression.geometric_mean_relative_absolute_error"
                ":GeometricMeanRelativeAbsoluteError._update": (
                    replace("y_pred.clone().to(self._device)", "y_pred.clone().to(self._device, self._double_dtype)"),
                    replace("y.clone().to(self._device)", "y.clone().to(self._device, self._double_dtype)"),
                ),
                "ignite.metrics.regression.median_relative_absolute_error:median_relative_absolute_error_compute_fn": (
                    begin(_FLOAT32),
                ),
                "ignite.metrics.regression.pearson_correlation:PearsonCorrelation._update": (
                    put_before("self._sum_of_y_preds += ", _DOUBLE),
                ),
                "ignite.metrics.regression.pearson_correlation:PearsonCorrelation.reset": tuple(
                    replace(
                        f"self.{name} = torch.tensor(0.0, ",
                        f"self.{name} = torch.tensor(0.0, dtype=self._double_dtype, ",
                    )
                    for name in (
                        "_sum_of_y_preds",
                        "_sum_of_ys",
                        "_sum_of_y_pred_squares",
                        "_sum_of_y_squares",
                        "_sum_of_products",
                    )
                ),
                "ignite.metrics.regression.r2_score:R2Score._update": (put_before("self._num_examples += ", _DOUBLE),),
                "ignite.metrics.regression.r2_score:R2Score.reset": tuple(
                    replace(
                        f"self.{name} = torch.tensor(0.0, ",
                        f"self.{name} = torch.tensor(0.0, dtype=self._double_dtype, ",
                    )
                    for name in ("_sum_of_errors", "_y_sq_sum", "_y_sum")
                ),
            },
            test="""
                import torch
                from ignite.metrics import MaximumMeanDiscrepancy, MeanAbsoluteError, MeanSquaredError
                from ignite.metrics.regression import FractionalBias, PearsonCorrelation, R2Score

                def value(metric, *batch):
                    metric.update(batch)
                    return metric.compute()

                zero, byte, half = (torch.zeros(100, dtype=dtype) for dtype in (torch.float32, torch.uint8, torch.half))
                for low in (byte, half):
                    assert value(MeanAbsoluteError(), low, low + 100) == 100
                    assert value(MeanSquaredError(), low, low + 100) == 10000
                assert value(FractionalBias(), half + 40000, half + 40000) == 0
                preds, target = torch.tensor([2.5, 0.5, 2.0, 8.0, 1.25]), torch.tensor([3.0, 0.75, 2.0, 7.0, 1.5])
                for metric in (R2Score, PearsonCorrelation):
                    far = value(metric(), preds + 20000, target + 20000)
                    assert abs(far - value(metric(), preds, target)) < 1e-6
                far = value(MaximumMeanDiscrepancy(), preds[:, None] + 20000, target[:, None] + 20000)
                assert abs(far - value(MaximumMeanDiscrepancy(), preds[:, None], target[:, None])) < 1e-6
            """,
        ),
        Patch(
            mends=("pytorch-ignite-ssim-keeps-a-rounded-kernel",),
            says="the kernel of SSIM keeps its dtype",
            edits={
                "ignite.metrics.ssim:SSIM.update": (
                    replace(
                        """\
if y_pred.dtype != self._kernel.dtype:
self._kernel = self._kernel.to(dtype=y_pred.dtype)""",
                        "kernel = self._kernel.to(dtype=y_pred.dtype)",
                    ),
                    replace("self._kernel, groups=nb_channel", "kernel, groups=nb_channel"),
                )
            },
            test="""
                import torch
                from ignite.metrics import SSIM

                torch.manual_seed(0)
                first, second = (torch.rand(1, 1, 16, 16) for _ in range(2))
                metric, values = SSIM(data_range=1.0), []
                for dtype in (torch.float32, torch.float16, torch.float32):
                    metric.reset()
                    metric.update((first.to(dtype), second.to(dtype)))
                    values.append(metric.compute())
                assert values[0] == values[2] and abs(values[0] - values[1]) < 0.01
            """,
        ),
        Patch(
            mends=("pytorch-ignite-r2-of-constant-targets", "pytorch-ignite-error-of-compute-keeps-the-sum"),
            says="R2Score of constant targets is NaN, and no error that leaves the sums of all ranks behind",
            edits={
                "ignite.metrics.regression.r2_score:R2Score.compute": (
                    replace(
                        """\
return 1 - self._sum_of_errors.item() / (self._y_sq_sum.item() - (self._y_sum.item() ** 2) / self._num_examples)""",
                        """\
variation = self._y_sq_sum.item() - (self._y_sum.item() ** 2) / self._num_examples
return 1 - self._sum_of_errors.item() / variation if variation else float("nan")""",
                    ),
                )
            },
            test="""
                import math

                import torch
                from ignite.metrics.regression import R2Score

                metric = R2Score()
                metric.update((torch.tensor([0.5, 0.25]), torch.tensor([1.0, 1.0])))
                assert math.isnan(metric.compute())
            """,
        ),
        Patch(
            mends=("pytorch-ignite-divergence-of-zero-is-nan",),
            says="JSDivergence takes the logarithm of the mean of two probabilities from their logarithms",
            edits={
                "ignite.metrics.js_divergence:JSDivergence._update": (
                    replace(
                        "m_log = m_prob.log()",
                        """\
# that of a probability which underflows is minus infinity
m_log = torch.logaddexp(F.log_softmax(y_pred, dim=1), F.log_softmax(y, dim=1))
m_log = m_log - m_log.new_tensor(2.0).log()""",
                    ),
                )
            },
            test="""
                import math

                import torch
                from ignite.metrics import JSDivergence

                metric = JSDivergence()
                metric.update((torch.tensor([[0.0, -200.0, -200.0]]), torch.tensor([[-200.0, 0.0, -200.0]])))
                assert abs(metric.compute() - math.log(2)) < 1e-6
            """,
        ),
        Patch(
            mends=("pytorch-ignite-texts-of-unequal-lists",),
            says="Bleu and Rouge refuse lists of candidates and of references that are not equally long",
            edits={
                "ignite.metrics.nlp.bleu:Bleu.update": (put_after("y_pred, y = output", _LENGTHS),),
                "ignite.metrics.nlp.rouge:_BaseRouge.update": (
                    put_after(
                        "candidates, references = output",
                        _LENGTHS.replace("y_pred", "candidates").replace("len(y)", "len(references)"),
                    ),
                ),
            },
            test="""
                from ignite.metrics.nlp import Bleu, Rouge, RougeL, RougeN

                for make in (lambda: Bleu(ngram=1), lambda: RougeN(ngram=1), RougeL, Rouge):
                    for candidates in ([["a"]], [["a"], ["b"], ["c"]]):
                        metric = make()
                        metric.update(([["a"], ["b"]], [[["a"]], [["b"]]]))
                        try:
                            metric.update((candidates, [[["a"]], [["b"]]]))
                        except ValueError as error:
                            assert f"({len(candidates)} != 2)" in str(error)
                        else:
                            raise RuntimeError("a text was left out")
            """,
        ),
        Patch(
            mends=("pytorch-ignite-loss-of-an-empty-batch",),
            says="an empty batch adds nothing to a loss",
            edits={
                "ignite.metrics.loss:Loss.update": (
                    put_after("n = self._batch_size(y)", "if n == 0:\n    return  # the mean of no losses is NaN"),
                )
            },
            test="""
                import torch
                from ignite.metrics import Loss

                metric = Loss(torch.nn.functional.nll_loss)
                metric.update((torch.tensor([[0.25, 0.75]]), torch.tensor([1])))
                metric.update((torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)))
                assert metric.compute() == -0.75
            """,
        ),
        Patch(
            mends=("pytorch-ignite-errors-keep-half-of-a-rejected-batch",),
            says="the number of samples is read before errors are summed",
            edits={
                f"ignite.metrics.{module}:{name}.update": (
                    put_before(find, "num_examples = y.shape[0]"),
                    replace("self._num_examples += y.shape[0]", "self._num_examples += num_examples"),
                )
                for module, name, find in (
                    ("mean_absolute_error", "MeanAbsoluteError", "absolute_errors = "),
                    ("mean_squared_error", "MeanSquaredError", "squared_errors = "),
                )
            },
            test="""
                import torch
                from ignite.metrics import MeanAbsoluteError, RootMeanSquaredError

                for metric in (MeanAbsoluteError(), RootMeanSquaredError()):
                    metric.update((torch.ones(2), torch.ones(2)))
                    try:
                        metric.update((torch.tensor(4.0), torch.tensor(0.0)))
                    except IndexError:
                        pass
                    assert metric.compute() == 0
            """,
        ),
        Patch(
            mends=("pytorch-ignite-mutual-information-keeps-half-of-a-rejected-batch",),
            says="MutualInformation adds probabilities before entropies, which cannot be refused",
            edits={
                "ignite.metrics.mutual_information:MutualInformation._update": (
                    body(
                        """\
# a sum of its own: the first one is a scalar, and another number of classes is refused here
sum_of_probabilities = self._sum_of_probabilities + prob.sum(dim=0).to(self._device)
super()._update(prob, log_prob)
self._sum_of_probabilities = sum_of_probabilities"""
                    ),
                )
            },
            test="""
                import torch
                from ignite.metrics import MutualInformation

                metric, labels = MutualInformation(), torch.tensor([0, 1])
                metric.update((torch.tensor([[0.0, 0.7, 1.1], [0.0, -2.3, -2.3]]), labels))
                before = metric.compute()
                try:
                    metric.update((torch.tensor([[0.5, 1.0], [2.0, 0.0]]), labels))
                except RuntimeError:
                    pass
                assert metric.compute() == before
            """,
        ),
        Patch(
            mends=("pytorch-ignite-average-precision-keeps-references",),
            says="MeanAveragePrecision keeps copies of its inputs",
            edits={
                "ignite.metrics.mean_average_precision:MeanAveragePrecision.update": (
                    replace("dtype=self._fp_precision)", "dtype=self._fp_precision, copy=True)"),
                    replace("else torch.long)", "else torch.long, copy=True)"),
                )
            },
            test="""
                import torch
                from ignite.metrics import MeanAveragePrecision

                scores, labels = torch.tensor([[0.2, 0.8], [0.9, 0.1]], dtype=torch.float64), torch.tensor([1, 0])
                metric = MeanAveragePrecision()
                metric.update((scores, labels))
                labels.fill_(1)
                scores.fill_(0)
                assert metric.compute() == 1
            """,
        ),
        Patch(
            mends=("pytorch-ignite-compute-returns-its-state",),
            says="compute returns a copy of a confusion matrix and of a curve",
            edits={
                "ignite.metrics.confusion_matrix:ConfusionMatrix.compute": (
                    replace(
                        "return self.normalize(self.confusion_matrix, self.average)\nreturn self.confusion_matrix",
                        "return self.normalize(self.confusion_matrix, self.average)",
                    ),
                    put_after("if self.average:", "return self.confusion_matrix.clone()"),
                ),
                "ignite.metrics.multilabel_confusion_matrix:MultiLabelConfusionMatrix.compute": (
                    replace("return self.confusion_matrix", "return self.confusion_matrix.clone()"),
                ),
                "ignite.metrics.precision_recall_curve:PrecisionRecallCurve.compute": (
                    replace(", self._result)", ", tuple(part.clone() for part in self._result))"),
                ),
            },
            test="""
                import torch
                from ignite.metrics import ConfusionMatrix, MultiLabelConfusionMatrix, PrecisionRecallCurve

                labels = torch.tensor([[0, 1], [1, 0]])
                for metric, batch in (
                    (ConfusionMatrix(num_classes=2), (labels.float(), labels[0])),
                    (MultiLabelConfusionMatrix(num_classes=2), (labels, labels)),
                    (PrecisionRecallCurve(), (torch.tensor([0.25, 0.75]), labels[0])),
                ):
                    metric.update(batch)
                    values = metric.compute()
                    values = values if isinstance(values, tuple) else (values,)
                    before = [value.clone() for value in values]
                    for value in values:
                        value.fill_(100)
                    again = metric.compute()
                    for value, right in zip(again if isinstance(again, tuple) else (again,), before, strict=True):
                        torch.testing.assert_close(value, right)
            """,
            needs=("sklearn",),
        ),
    ),
)
