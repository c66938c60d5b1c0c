"""Patches of torcheval."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Edit, Library, Patch, begin, put_after, put_before, replace

_WIDE = """\
# halves are squared and summed in float32, integers in int64
dtype = torch.promote_types(input.dtype, target.dtype)
dtype = torch.promote_types(dtype, torch.float32 if dtype.is_floating_point else torch.int64)
input, target = input.to(dtype), target.to(dtype)"""
_HALF_IN_FLOAT32 = """\
if input.is_floating_point():
    input = input.to(torch.promote_types(input.dtype, torch.float32))"""
_TASKS = "# each class is a task: its scores, and whether it is the label\n"

_CLASSIFICATION = "torcheval.metrics.classification"
_LISTS = (
    "auprc:BinaryAUPRC",
    "auprc:MulticlassAUPRC",
    "auprc:MultilabelAUPRC",
    "auroc:BinaryAUROC",
    "auroc:MulticlassAUROC",
    "binned_auroc:BinaryBinnedAUROC",
    "binned_auroc:MulticlassBinnedAUROC",
    "precision_recall_curve:BinaryPrecisionRecallCurve",
    "precision_recall_curve:MulticlassPrecisionRecallCurve",
    "precision_recall_curve:MultilabelPrecisionRecallCurve",
    "recall_at_fixed_precision:BinaryRecallAtFixedPrecision",
    "recall_at_fixed_precision:MultilabelRecallAtFixedPrecision",
)
_WINDOWS = (
    "auroc:WindowedBinaryAUROC",
    "click_through_rate:WindowedClickThroughRate",
    "mean_squared_error:WindowedMeanSquaredError",
    "normalized_entropy:WindowedBinaryNormalizedEntropy",
    "weighted_calibration:WindowedWeightedCalibration",
)


def _appends_copies(*names: str) -> tuple[Edit, ...]:
    return tuple(replace(f".append({name})", f".append({name}.clone())") for name in names)


LIBRARY = Library(
    "torcheval",
    "0.0.7",
    "0.0.8",
    patches=(
        Patch(
            mends=(
                "torcheval-squares-of-bytes-wrap",
                "torcheval-float16-sums-overflow",
                "torcheval-r2-overflows-in-float16",
                "torcheval-state-takes-on-the-dtype",
            ),
            says="errors of integers and of half precision are squared and summed in wider dtypes, and kept in float32",
            edits={
                "torcheval.metrics.functional.regression.mean_squared_error:_mean_squared_error_update": (
                    replace(
                        "return _update(input, target, sample_weight)",
                        f"""\
{_WIDE}
if sample_weight is not None and sample_weight.is_floating_point():
    sample_weight = sample_weight.to(torch.promote_types(sample_weight.dtype, torch.float32))
squares, weights = _update(input, target, sample_weight)
return squares.to(torch.promote_types(squares.dtype, torch.float32)), weights""",
                    ),
                ),
                "torcheval.metrics.functional.regression.r2_score:_r2_score_update": (
                    put_before("return _update(input, target)", _WIDE),
                ),
                "torcheval.metrics.regression.r2_score:R2Score.update": tuple(
                    replace(f"self.{name} = {name}", f"self.{name} = self.{name} + {name}")
                    for name in ("sum_squared_obs", "sum_obs", "sum_squared_residual")
                ),
                "torcheval.metrics.functional.image.psnr:_psnr_update": (
                    put_before("sum_squared_error = torch.sum(", _WIDE),
                ),
                "torcheval.metrics.functional.image.psnr:peak_signal_noise_ratio": (
                    replace(
                        "data_range_tensor = torch.max(target) - torch.min(target)",
                        """\
dtype = torch.promote_types(target.dtype, torch.float32)
data_range_tensor = torch.max(target).to(dtype) - torch.min(target).to(dtype)""",
                    ),
                ),
                "torcheval.metrics.functional.aggregation.mean:_mean_update": (
                    begin(_HALF_IN_FLOAT32),
                    put_before("return torch.sum(weight * input)", _HALF_IN_FLOAT32.replace("input", "weight")),
                ),
                "torcheval.metrics.functional.aggregation.sum:_sum_update": (begin(_HALF_IN_FLOAT32),),
                "torcheval.metrics.functional.ranking.click_through_rate:_click_through_rate_update": (
                    put_before("if isinstance(weights, torch.Tensor):", _HALF_IN_FLOAT32),
                ),
            },
            test="""
                import torch
                from torcheval.metrics import Mean, MeanSquaredError, PeakSignalNoiseRatio, R2Score, Sum

                zero, byte, half = (torch.zeros(100, dtype=dtype) for dtype in (torch.float32, torch.uint8, torch.half))
                for low in (byte, half):
                    assert MeanSquaredError().update(low + 100, low).compute() == 10000
                    high = PeakSignalNoiseRatio(data_range=1.0).update(low + 100, low).compute()
                    assert high == PeakSignalNoiseRatio(data_range=1.0).update(zero + 100, zero).compute()
                    target = torch.arange(64.0)
                    r2 = R2Score().update((target + 1).to(low.dtype), target.to(low.dtype)).compute()
                    assert r2 == R2Score().update(target + 1, target).compute()
                assert Sum().update(half + 1000).compute() == 100000 and Mean().update(half + 1000).compute() == 1000
                full = R2Score().update(torch.tensor([[2, 5], [0, 2]]), torch.tensor([[2, 4], [1, 2]]))
                assert full.merge_state([R2Score()]).compute() == -0.25
            """,
        ),
        Patch(
            mends=("torcheval-recall-of-absent-classes",),
            says="a macro or weighted recall leaves absent classes out of its denominators, too",
            edits={
                "torcheval.metrics.functional.classification.recall:_recall_compute": (
                    replace("num_tp = num_tp[mask]", "num_tp, num_labels = num_tp[mask], num_labels[mask]"),
                    put_after(
                        "nan_classes = isnan_class.nonzero(",
                        """\
if average in ("macro", "weighted"):
    nan_classes = mask.nonzero(as_tuple=True)[0][nan_classes]""",
                    ),
                    replace("weights = num_labels[mask] / num_labels.sum()", "weights = num_labels / num_labels.sum()"),
                )
            },
            test="""
                import torch
                from torcheval.metrics import MulticlassRecall

                for labels in ([2], [0, 1, 0]):
                    for average in ("macro", "weighted"):
                        metric = MulticlassRecall(num_classes=3, average=average)
                        assert metric.update(torch.tensor(labels), torch.tensor(labels)).compute() == 1
            """,
        ),
        Patch(
            mends=("torcheval-bleu-shortest-reference",),
            says="the brevity penalty of BLEU takes the reference whose length is closest",
            edits={
                "torcheval.metrics.functional.text.bleu:_bleu_score_update": (
                    replace(
                        "min([len(ref) for ref in references_tokenized])",
                        """\
min(
    (len(ref) for ref in references_tokenized),
    key=lambda length: (abs(length - len_candidate), length),
)""",
                    ),
                )
            },
            test="""
                import math

                from torcheval.metrics import BLEUScore

                metric = BLEUScore(n_gram=1).update(["a b c d e"], [["a b", "a b c d e f"]])
                assert abs(metric.compute() - math.exp(1 - 6 / 5)) < 1e-6
                metric = BLEUScore(n_gram=1).update(["a b c"], [["a b c d", "a b"]])  # of two, the shorter
                assert abs(metric.compute() - 1) < 1e-6
            """,
        ),
        Patch(
            mends=("torcheval-perplexity-underflows",),
            says="perplexity takes logarithms of probabilities at once, at least in float32",
            edits={
                "torcheval.metrics.functional.text.perplexity:_perplexity_update": (
                    replace(
                        "probs = F.softmax(probs, dim=1)",
                        """\
# their logarithms: a small probability itself is 0
probs = F.log_softmax(probs, dim=1, dtype=torch.promote_types(probs.dtype, torch.float32))""",
                    ),
                    replace("-probs.log().sum()", "-probs.sum()"),
                )
            },
            test="""
                import torch
                from torcheval.metrics import Perplexity

                logits, label = torch.tensor([[[0.0, 20.0]]]), torch.tensor([[0]])
                usual, low = (Perplexity().update(each, label).compute() for each in (logits, logits.half()))
                assert abs(low / usual - 1) < 1e-3
                assert Perplexity().update(4 * logits, label).compute().isfinite()
            """,
        ),
        Patch(
            mends=("torcheval-perplexity-refuses-ignored-batch",),
            says="perplexity takes a batch in which every token is ignored",
            edits={
                "torcheval.metrics.functional.text.perplexity:_perplexity_input_check": (
                    replace("if ignore_index:", "if ignore_index is not None:"),
                    replace(
                        "if input.size(2) <= torch.max(_target):",
                        "if _target.numel() and input.size(2) <= torch.max(_target):",
                    ),
                )
            },
            test="""
                import torch
                from torcheval.metrics import Perplexity

                for ignored in (1, 0):
                    metric = Perplexity(ignore_index=ignored)
                    metric.update(torch.zeros(1, 1, 3), torch.tensor([[ignored]]))
                    metric.update(torch.zeros(1, 1, 3), torch.tensor([[2]]))
                    assert abs(metric.compute() - 3) < 1e-6
            """,
        ),
        Patch(
            mends=("torcheval-multiclass-binned-auroc-of-samples",),
            says="MulticlassBinnedAUROC has an area for each class",
            edits={
                "torcheval.metrics.functional.classification.binned_auroc:multiclass_binned_auroc": (
                    replace(
                        """\
return _multiclass_binned_auroc_compute(
input, target, num_classes, threshold, average
)""",
                        f"""\
{_TASKS}auroc, threshold = _binary_binned_auroc_compute(
    input.T, F.one_hot(target, num_classes).T, threshold
)
auroc = auroc.float()
return (auroc.mean() if average == "macro" else auroc), threshold""",
                    ),
                ),
                f"{_CLASSIFICATION}.binned_auroc:MulticlassBinnedAUROC.compute": (
                    replace(
                        """\
return _multiclass_binned_auroc_compute(
torch.cat(self.inputs),
torch.cat(self.targets),
self.num_classes,
self.threshold,
self.average,
)""",
                        f"""\
{_TASKS}auroc, threshold = _binary_binned_auroc_compute(
    torch.cat(self.inputs).T,
    torch.nn.functional.one_hot(torch.cat(self.targets), self.num_classes).T,
    self.threshold,
)
auroc = auroc.float()
return (auroc.mean() if self.average == "macro" else auroc), threshold""",
                    ),
                ),
            },
            test="""
                import torch
                from torcheval.metrics import MulticlassBinnedAUROC
                from torcheval.metrics.functional import multiclass_auroc, multiclass_binned_auroc

                scores = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.2, 0.6, 0.2]])
                labels = torch.tensor([0, 1, 1, 0])
                for average in (None, "macro"):
                    exact = multiclass_auroc(scores, labels, num_classes=3, average=average)
                    options = {"num_classes": 3, "threshold": 101, "average": average}
                    torch.testing.assert_close(multiclass_binned_auroc(scores, labels, **options)[0], exact)
                    area = MulticlassBinnedAUROC(**options).update(scores, labels).compute()[0]
                    torch.testing.assert_close(area, exact)
            """,
        ),
        Patch(
            mends=("torcheval-keeps-references",),
            says="metrics that keep their inputs keep copies of them",
            edits={
                **{
                    f"{_CLASSIFICATION}.{name}.update": _appends_copies(
                        "input", "target", *["weight"] * (name == "auroc:BinaryAUROC")
                    )
                    for name in _LISTS
                },
                "torcheval.metrics.aggregation.auc:AUC.update": _appends_copies("x", "y"),
                "torcheval.metrics.aggregation.cat:Cat.update": _appends_copies("input"),
            },
            test="""
                import torch
                from torcheval.metrics import AUC, BinaryAUROC, BinaryPrecisionRecallCurve, Cat, MulticlassAUPRC

                for metric, places in (
                    (BinaryAUROC(), (0, 1, 0)),
                    (BinaryPrecisionRecallCurve(), (0, 1)),
                    (MulticlassAUPRC(num_classes=2, average=None), (2, 1)),
                    (AUC(), (0, 1)),
                    (Cat(), (0,)),
                ):
                    made = torch.tensor([0.25, 0.75]), torch.tensor([0, 1]), torch.eye(2)
                    batch = [made[place].clone() for place in places]
                    before = metric.update(*batch).compute()
                    for each in batch:
                        each.fill_(0)
                    torch.testing.assert_close(metric.compute(), before)
            """,
        ),
        Patch(
            mends=("torcheval-compute-returns-its-state",),
            says="compute returns copies of states and of thresholds",
            edits={
                "torcheval.metrics.aggregation.max:Max.compute": (replace("self.max", "self.max.clone()"),),
                "torcheval.metrics.aggregation.min:Min.compute": (replace("self.min", "self.min.clone()"),),
                "torcheval.metrics.aggregation.sum:Sum.compute": (
                    replace("return self.weighted_sum", "return self.weighted_sum.clone()"),
                ),
                "torcheval.metrics.functional.classification.confusion_matrix:_confusion_matrix_compute": (
                    replace("else:\nreturn confusion_matrix", "else:\n    return confusion_matrix.clone()"),
                ),
                **{
                    f"{_CLASSIFICATION}.{name}.compute": (replace("self.threshold", "self.threshold.clone()"),)
                    for name in (
                        "binned_auroc:BinaryBinnedAUROC",
                        "binned_auroc:MulticlassBinnedAUROC",
                        "binned_precision_recall_curve:BinaryBinnedPrecisionRecallCurve",
                        "binned_precision_recall_curve:MulticlassBinnedPrecisionRecallCurve",
                        "binned_precision_recall_curve:MultilabelBinnedPrecisionRecallCurve",
                    )
                },
            },
            test="""
                import torch
                from torcheval import metrics

                scores, labels = torch.tensor([0.2, 0.9]), torch.tensor([0, 1])
                for metric, batch in (
                    (metrics.Max(), (scores,)),
                    (metrics.Min(), (scores,)),
                    (metrics.Sum(), (scores,)),
                    (metrics.BinaryConfusionMatrix(), (scores, labels)),
                    (metrics.MulticlassConfusionMatrix(2), (labels, labels)),
                    (metrics.BinaryBinnedAUROC(threshold=3), (scores, labels)),
                    (metrics.MulticlassBinnedAUROC(num_classes=2, threshold=3), (torch.eye(2), labels)),
                    (metrics.BinaryBinnedPrecisionRecallCurve(threshold=3), (scores, labels)),
                ):
                    value = metric.update(*batch).compute()
                    value = value[-1] if isinstance(value, tuple) else value
                    with torch.inference_mode():
                        value.add_(100)
                    again = metric.compute()
                    assert (again[-1] if isinstance(again, tuple) else again).max() < 100
            """,
        ),
        Patch(
            mends=("torcheval-window-loses-its-place",),
            says="the place in the window is a state, which is saved and reset",
            edits={
                f"torcheval.metrics.window.{name}.__init__": (
                    replace("self.next_inserted = 0", 'self._add_state("next_inserted", 0)'),
                )
                for name in _WINDOWS
            },
            test="""
                import torch
                from torcheval import metrics

                sizes = {"max_num_updates": 3, "enable_lifetime": False}
                for make in (
                    lambda: metrics.WindowedMeanSquaredError(**sizes),
                    lambda: metrics.WindowedBinaryNormalizedEntropy(**sizes),
                    lambda: metrics.WindowedWeightedCalibration(**sizes),
                    lambda: metrics.WindowedBinaryAUROC(max_num_samples=4),
                ):
                    scores, labels = torch.tensor([0.25, 0.75]), torch.tensor([0.0, 1.0])
                    metric, again, used = make().update(scores, labels), make(), make().update(labels, scores)
                    again.load_state_dict(metric.state_dict())
                    used.reset().update(scores, labels)
                    values = [each.update(1 - scores, labels).compute() for each in (metric, again, used)]
                    assert values[0] == values[1] == values[2], values
            """,
        ),
        Patch(
            mends=("torcheval-window-of-one-sample",),
            says="a window of one sample keeps its dimension",
            edits={
                "torcheval.metrics.window.auroc:WindowedBinaryAUROC.compute": tuple(
                    replace(f"self.{name}{part}.squeeze()", f"self.{name}{part}.squeeze(0)")
                    for name in ("inputs", "targets", "weights")
                    for part in ("", "[:, : self.next_inserted]")
                )
            },
            test="""
                import torch
                from torcheval.metrics import WindowedBinaryAUROC

                for size in (1, 10):
                    metric = WindowedBinaryAUROC(max_num_samples=size).update(torch.tensor([0.5]), torch.tensor([1]))
                    assert metric.compute() == 0.5 and metric.compute().shape == ()
            """,
        ),
        Patch(
            mends=("torcheval-thresholds-not-moved",),
            says="to() moves tensors that are no states, such as thresholds",
            edits={
                "torcheval.metrics.metric:Metric.to": (
                    put_before(
                        "self._device = device",
                        """\
for name, value in vars(self).items():
    if isinstance(value, torch.Tensor) and name not in self._state_name_to_default:
        setattr(self, name, value.to(device))""",
                    ),
                )
            },
            test="""
                from torcheval.metrics import BinaryBinnedAUROC

                metric = BinaryBinnedAUROC(threshold=3).to("meta")
                assert metric.threshold.device == metric.device
            """,
        ),
        Patch(
            mends=("torcheval-retrieval-options-not-validated",),
            says="RetrievalPrecision refuses an action and an average that it does not have",
            edits={
                "torcheval.metrics.ranking.retrieval_precision:RetrievalPrecision.__init__": (
                    put_before(
                        "super().__init__(device=device)",
                        """\
if empty_target_action not in ("neg", "pos", "skip", "err"):
    raise ValueError(
        f'`empty_target_action` must be one of "neg", "pos", "skip", "err", got {empty_target_action!r}.'
    )
if avg not in ("macro", "none", None):
    raise ValueError(f'`avg` must be one of "macro", "none", None, got {avg!r}.')""",
                    ),
                )
            },
            test="""
                from torcheval.metrics import RetrievalPrecision

                for options in ({"empty_target_action": "positive"}, {"avg": "marco"}):
                    try:
                        RetrievalPrecision(k=2, **options)
                    except ValueError as error:
                        assert str(options).split("'")[1] in str(error)
                    else:
                        raise RuntimeError(f"{options} were taken")
            """,
        ),
        Patch(
            mends=("torcheval-retrieval-precision-on-the-cpu",),
            says="the states of RetrievalPrecision are made on its device",
            edits={
                "torcheval.metrics.ranking.retrieval_precision:RetrievalPrecision.__init__": (
                    replace(
                        'self._add_state("topk", [torch.empty(0) for _',
                        'self._add_state("topk", [torch.empty(0, device=self.device) for _',
                    ),
                    replace(
                        'self._add_state("target", [torch.empty(0) for _',
                        'self._add_state("target", [torch.empty(0, device=self.device) for _',
                    ),
                ),
                "torcheval.metrics.ranking.retrieval_precision:RetrievalPrecision.compute": (
                    replace("torch.cat(rp).to(self.device)", "torch.cat([each.to(self.device) for each in rp])"),
                ),
                "torcheval.metrics.ranking.retrieval_precision:RetrievalPrecision.merge_state": (
                    replace("m.topk[i] for m in metrics", "m.topk[i].to(self.device) for m in metrics"),
                    replace("m.target[i] for m in metrics", "m.target[i].to(self.device) for m in metrics"),
                ),
            },
            test="""
                import torch
                from torcheval.metrics import RetrievalPrecision

                metric = RetrievalPrecision(k=1, device=torch.device("meta"))
                metric.update(torch.ones(2, device="meta"), torch.ones(2, device="meta"))
                assert {each.device.type for each in metric.topk + metric.target} == {"meta"}
            """,
        ),
        Patch(
            mends=("torcheval-retrieval-precision-forgets-relevant-items",),
            says="RetrievalPrecision keeps a relevant item of each query that has one",
            edits={
                "torcheval.metrics.ranking.retrieval_precision:RetrievalPrecision.update_single_query": (
                    replace(
                        """\
self.topk[i] = preds_topk[0]
self.target[i] = batch_targets.gather(dim=-1, index=preds_topk[1])""",
                        """\
kept = preds_topk[1]
relevant = (batch_targets == 1).nonzero().flatten()
if len(relevant) and 1 not in batch_targets[kept]:
    # compute() sees that there is one, and counts the best k alone
    best = batch_preds[relevant].argmax().reshape(1)
    kept = torch.cat([kept, relevant[best]])
self.topk[i] = batch_preds[kept]
self.target[i] = batch_targets[kept]""",
                    ),
                )
            },
            test="""
                import torch
                from torcheval.metrics import RetrievalPrecision

                scores, labels = torch.tensor([0.9, 0.8, 0.1, 0.05]), torch.tensor([0, 0, 1, 1])
                for action in ("neg", "pos", "skip", "err"):
                    metric = RetrievalPrecision(k=2, empty_target_action=action).update(scores, labels)
                    assert metric.compute() == 0
                    assert metric.update(torch.tensor([0.85]), torch.tensor([0])).compute() == 0
                    assert metric.update(torch.tensor([0.95]), torch.tensor([1])).compute() == 0.5
            """,
        ),
    ),
)
