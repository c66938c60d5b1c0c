"""Patches of torchmetrics: its metrics of groups, retrieval, texts, clusterings, shapes and images."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Patch, append, put_after, put_before, replace

_FUNCTIONAL = "torchmetrics.functional"

PATCHES: tuple[Patch, ...] = (
    Patch(
        mends=("torchmetrics-groups-numbered-anew",),
        says="a group that a batch lacks keeps its number, with counts of 0",
        edits={
            f"{_FUNCTIONAL}.classification.group_fairness:_binary_groups_stat_scores": (
                replace(
                    "split_sizes = _flexible_bincount(indexes).detach().cpu().tolist()",
                    """\
if (indexes < num_groups).all():
    split_sizes = torch.bincount(indexes, minlength=num_groups).detach().cpu().tolist()
else:  # other numbers than 0, 1, ..., are counted in their order
    split_sizes = _flexible_bincount(indexes).detach().cpu().tolist()""",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.classification import BinaryGroupStatRates

            metric = BinaryGroupStatRates(num_groups=2)
            metric.update(torch.tensor([0.9, 0.9]), torch.tensor([1, 1]), torch.tensor([0, 0]))
            metric.update(torch.tensor([0.1, 0.1]), torch.tensor([1, 1]), torch.tensor([1, 1]))
            found = {group: rates.tolist() for group, rates in metric.compute().items()}
            assert found == {"group_0": [1, 0, 0, 0], "group_1": [0, 0, 0, 1]}
        """,
    ),
    Patch(
        mends=("torchmetrics-fairness-target-on-the-cpu",),
        says="demographic parity makes its target on the device of the predictions",
        edits={
            f"torchmetrics.{where}": (
                replace(
                    "target = torch.zeros(preds.shape)",
                    "target = torch.zeros(preds.shape, device=preds.device)",
                ),
            )
            for where in (
                "functional.classification.group_fairness:demographic_parity",
                "functional.classification.group_fairness:binary_fairness",
                "classification.group_fairness:BinaryFairness.update",
            )
        },
        test="""
            import torch
            from torchmetrics.classification import BinaryFairness
            from torchmetrics.functional.classification import binary_fairness, demographic_parity

            preds, groups = torch.tensor([0.9, 0.1]), torch.tensor([0, 1])
            metric = BinaryFairness(2, task="demographic_parity")
            with torch.device("meta"):  # where a tensor is made that is given no device
                assert demographic_parity(preds, groups) == {"DP_1_0": 0}
                assert binary_fairness(preds, None, groups, task="demographic_parity") == {"DP_1_0": 0}
                metric.update(preds, None, groups)
            assert metric.compute() == {"DP_1_0": 0}
        """,
    ),
    Patch(
        mends=("torchmetrics-hinge-refuses-all-ignored",),
        says="a multi-class hinge loss of no sample is 0",
        edits={
            f"{_FUNCTIONAL}.classification.hinge:_multiclass_hinge_loss_update": (
                replace(
                    "torch.max(preds[~target].view(preds.shape[0], -1), dim=1)[0]",
                    'torch.max(preds.masked_fill(target, float("-inf")), dim=1)[0]',
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.classification import MulticlassHingeLoss

            metric = MulticlassHingeLoss(num_classes=3, ignore_index=-1)
            metric.update(torch.eye(3), torch.tensor([0, 1, 1]))
            metric.update(torch.eye(3), torch.tensor([-1, -1, -1]))
            assert torch.isclose(metric.compute(), torch.tensor(2 / 3))
        """,
    ),
    Patch(
        mends=("torchmetrics-retrieval-refuses-all-ignored",),
        says="a retrieval metric leaves out a batch of which everything is ignored",
        edits={
            "torchmetrics.utilities.checks:_check_retrieval_inputs": (
                put_before("if ignore_index is not None:", "is_empty = not indexes.numel() or not indexes.size()"),
                replace("if not indexes.numel() or not indexes.size():", "if is_empty:"),
            ),
            "torchmetrics.utilities.checks:_check_retrieval_target_and_prediction_types": (
                replace(
                    "if not allow_non_binary_target and (", "if not allow_non_binary_target and target.numel() and ("
                ),
            ),
        }
        | {
            f"torchmetrics.retrieval.{where}.update": (
                put_before("self.indexes.append(indexes)", "if not indexes.numel():\n    return"),
            )
            for where in ("base:RetrievalMetric", "precision_recall_curve:RetrievalPrecisionRecallCurve")
        },
        test="""
            import torch
            from torchmetrics.retrieval import RetrievalMRR, RetrievalPrecisionRecallCurve

            for cls in (RetrievalMRR, RetrievalPrecisionRecallCurve):
                metric = cls(ignore_index=-1)
                metric.update(torch.tensor([0.5]), torch.tensor([1]), torch.tensor([0]))
                before = str(metric.compute())
                metric.update(torch.tensor([0.25]), torch.tensor([-1]), torch.tensor([0]))
                assert str(metric.compute()) == before
                try:
                    metric.update(torch.tensor([]), torch.tensor([]), torch.tensor([], dtype=torch.long))
                except ValueError:
                    pass
                else:
                    raise AssertionError("an empty batch is refused")
        """,
    ),
    Patch(
        mends=("torchmetrics-all-ignored-is-an-exact-match",),
        says="a sample in which everything is ignored is no exact match",
        edits={
            f"{_FUNCTIONAL}.classification.exact_match:_multiclass_exact_match_update": (
                put_after(
                    "correct = (preds == target).sum(1) == preds.shape[1]",
                    """\
if ignore_index is not None and multidim_average == "global":
    counted = (target != ignore_index).any(1)
    return (correct & counted).sum(), counted.sum()""",
                ),
            ),
            f"{_FUNCTIONAL}.classification.exact_match:_multilabel_exact_match_update": (
                put_before(
                    "correct = ((preds == target).sum(1) == num_labels).sum(dim=-1)",
                    """\
if ignore_index is not None and multidim_average == "global":
    counted = ~torch.movedim(mask, 1, -1).reshape(-1, num_labels).all(1)
    return ((preds == target).all(1) & counted).sum(), counted.sum()""",
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics.classification import MulticlassExactMatch, MultilabelExactMatch

            metric = MulticlassExactMatch(num_classes=3, ignore_index=-1)
            metric.update(torch.tensor([[0, 0], [0, 0], [0, 2]]), torch.tensor([[1, 1], [-1, -1], [0, -1]]))
            assert metric.compute() == 0.5
            metric = MultilabelExactMatch(num_labels=2, ignore_index=-1)
            metric.update(torch.full((3, 2), 0.9), torch.tensor([[0, 0], [-1, -1], [-1, 1]]))
            assert metric.compute() == 0.5
        """,
    ),
    Patch(
        mends=(
            "torchmetrics-sentence-scores-concatenated-twice",
            "torchmetrics-eed-single-sentence",
            "torchmetrics-numbers-of-texts-on-the-cpu",
        ),
        says="scores of sentences are vectors on the device of their metric, and are concatenated once",
        edits={
            f"torchmetrics.text.{where}.compute": (
                replace(
                    f"torch.cat(self.{state})",
                    f"self.{state} if isinstance(self.{state}, Tensor) else torch.cat(self.{state})",
                ),
            )
            for where, state in (
                ("ter:TranslationEditRate", "sentence_ter"),
                ("chrf:CHRFScore", "sentence_chrf_score"),
            )
        }
        | {
            f"{_FUNCTIONAL}.text.ter:_ter_update": (
                replace("tgt_length).unsqueeze(0))", "tgt_length).unsqueeze(0).to(total_num_edits.device))"),
            ),
            f"{_FUNCTIONAL}.text.chrf:_chrf_score_update": (
                replace(
                    "sentence_level_f_score.unsqueeze(0)",
                    "sentence_level_f_score.unsqueeze(0).to(total_preds_char_n_grams[1].device)",
                ),
            ),
            "torchmetrics.text.edit:EditDistance.update": (
                replace(
                    "self.edit_scores_list.append(distance)", "self.edit_scores_list.append(distance.to(self.device))"
                ),
            ),
            "torchmetrics.text.eed:ExtendedEditDistance.update": (
                replace("self.sentence_eed = _eed_update(", "scores = _eed_update("),
                replace("self.insertion,\nself.sentence_eed,", "self.insertion,"),
                put_after(
                    "scores = _eed_update(",
                    "self.sentence_eed.extend(score.reshape(1).to(self.device) for score in scores)",
                ),
            ),
            "torchmetrics.text.eed:ExtendedEditDistance.compute": (
                replace(
                    "average = _eed_compute(self.sentence_eed)",
                    "scores = [score for entry in self.sentence_eed for score in entry.reshape(-1)]\n"
                    "average = _eed_compute(scores)",
                ),
                replace("return average, stack(self.sentence_eed)", "return average, stack(scores)"),
            ),
        },
        test="""
            import torch
            from torchmetrics.text import CHRFScore, EditDistance, ExtendedEditDistance, TranslationEditRate

            for cls in (TranslationEditRate, CHRFScore, ExtendedEditDistance):
                metric = cls(return_sentence_level_score=True)
                metric.update(["a", "c"], [["a"], ["b"]])
                mean, scores = metric.compute()
                metric.sync(dist_sync_fn=lambda state, group=None: [state, state], distributed_available=lambda: True)
                both = metric.compute.__wrapped__()
                assert torch.isclose(both[0], mean)
                assert torch.equal(both[1], scores.repeat(2))

            for metric, reference in (
                (EditDistance(reduction="none"), "a b"),
                (TranslationEditRate(return_sentence_level_score=True), ["a b"]),
                (ExtendedEditDistance(), ["a b"]),
            ):
                metric.to("meta").update(["a b"], [reference])
                states = [value for value in metric.metric_state.values() if isinstance(value, list)]
                assert [x.device.type for x in states[0]] == ["meta"]
                assert states[0][0].shape == (1,)
        """,
    ),
    Patch(
        mends=("torchmetrics-chrf-drops-references",),
        says="the n-grams of a reference count also where none of them is found",
        edits={
            f"{_FUNCTIONAL}.text.chrf:_calculate_sentence_level_chrf_score": (
                replace("if f_score > best_f_score:", "if f_score > best_f_score or not best_target_char_n_grams:"),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.text import chrf_score

            value = chrf_score(["", "a dog"], [["the cat sat"], ["a dog"]], n_word_order=0)
            assert torch.isclose(value, torch.tensor(0.18531), atol=1e-4)
        """,
    ),
    Patch(
        mends=("torchmetrics-recall-at-any-precision-of-absent-class",),
        says="an absent class has a recall of 0 at any precision, also at one of 0",
        edits={
            f"{_FUNCTIONAL}.classification.recall_fixed_precision:_recall_at_precision": (
                replace(
                    "zipped[zipped[:, 1] >= min_precision]",
                    "zipped[(zipped[:, 1] >= min_precision) & ~zipped[:, 0].isnan()]",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.classification import multiclass_recall_at_fixed_precision

            preds, target = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1]]), torch.tensor([0, 1, 0])
            recall, at = multiclass_recall_at_fixed_precision(preds, target, 3, min_precision=0.0)
            assert recall.tolist() == [1, 1, 0]
            assert at.isnan().tolist() == [False, False, True]
        """,
    ),
    Patch(
        mends=("torchmetrics-single-cluster-scores-zero",),
        says="the normalized mutual information of two clusterings into one cluster is 1",
        edits={
            f"{_FUNCTIONAL}.clustering.normalized_mutual_info_score:normalized_mutual_info_score": (
                put_before(
                    "mutual_info = mutual_info_score(preds, target)",
                    "if len(torch.unique(preds)) == len(torch.unique(target)) == 1:\n"
                    "    return torch.tensor(1.0, device=preds.device)",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.clustering import normalized_mutual_info_score

            assert normalized_mutual_info_score(torch.tensor([0, 0, 0]), torch.tensor([2, 2, 2])) == 1
            assert normalized_mutual_info_score(torch.tensor([0, 0, 0]), torch.tensor([0, 1, 1])) == 0
        """,
    ),
    Patch(
        mends=("torchmetrics-singletons-cluster-score-zero",),
        says="the adjusted mutual information of two clusterings that are equal is 1",
        edits={
            f"{_FUNCTIONAL}.clustering.adjusted_mutual_info_score:adjusted_mutual_info_score": (
                put_after(
                    "mutual_info = _mutual_info_score_compute(contingency)",
                    "if 0 < contingency.shape[0] == contingency.shape[1] == int((contingency != 0).sum()):\n"
                    "    return torch.ones_like(mutual_info)  # each cluster of one is a cluster of the other",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.clustering import adjusted_mutual_info_score

            for preds, target in (([0, 1, 2], [2, 0, 1]), ([0, 0, 0], [1, 1, 1]), ([0, 1, 1], [1, 0, 0])):
                assert adjusted_mutual_info_score(torch.tensor(preds), torch.tensor(target)) == 1
            assert adjusted_mutual_info_score(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])) < 1
        """,
    ),
    Patch(
        mends=("torchmetrics-procrustes-returns-a-tuple",),
        says="procrustes_disparity() returns one value where a decomposition fails, and hides no other error",
        edits={
            f"{_FUNCTIONAL}.shape.procrustes:procrustes_disparity": (
                replace("except Exception as ex:", "except linalg.LinAlgError as ex:"),
                replace(
                    "return torch.tensor(0.0), torch.ones(point_cloud1.shape[0]), torch.eye(point_cloud1.shape[2])",
                    """\
disparity = point_cloud1.new_zeros(point_cloud1.shape[0])
if not return_all:
    return disparity
rotation = torch.eye(point_cloud1.shape[2], dtype=point_cloud1.dtype, device=point_cloud1.device)
return disparity, torch.ones_like(disparity)[:, None], rotation.repeat(point_cloud1.shape[0], 1, 1)""",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.shape import procrustes_disparity
            from torchmetrics.shape import ProcrustesDisparity

            clouds = torch.full((2, 4, 3), float("nan")), torch.rand(2, 4, 3)
            metric = ProcrustesDisparity()
            metric.update(*clouds)
            assert metric.compute() == 0
            right = procrustes_disparity(*torch.rand(2, 2, 4, 3), return_all=True)
            assert [x.shape for x in procrustes_disparity(*clouds, return_all=True)] == [x.shape for x in right]
            try:
                metric.update(torch.rand(1, 4, 2, device="meta"), torch.rand(1, 4, 2))
            except (RuntimeError, NotImplementedError):
                pass
        """,
    ),
    Patch(
        mends=("torchmetrics-nan-in-a-bin-is-zero", "torchmetrics-calibration-of-nothing-is-perfect"),
        says="the calibration error of NaN, and of no sample, is NaN",
        edits={
            f"{_FUNCTIONAL}.classification.calibration_error:_binning_bucketize": tuple(
                replace(
                    f"torch.nan_to_num({name} / count_bin)",
                    f"torch.where(count_bin > 0, {name} / count_bin, torch.zeros_like({name}))",
                )
                for name in ("conf_bin", "acc_bin")
            ),
            f"{_FUNCTIONAL}.classification.calibration_error:_ce_compute": (
                replace(
                    "torch.sqrt(ce) if ce > 0 else torch.tensor(0)", "torch.tensor(0) if ce <= 0 else torch.sqrt(ce)"
                ),
                replace(
                    "torch.max(torch.abs(acc_bin - conf_bin))",
                    "torch.max(torch.where(prop_bin.isnan(), prop_bin, torch.abs(acc_bin - conf_bin)))",
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics.functional.classification import binary_calibration_error

            for norm in ("l1", "l2", "max"):
                value = binary_calibration_error(torch.tensor([float("nan"), 0.5]), torch.tensor([0, 1]), 3, norm)
                assert value.isnan()
                nothing = torch.tensor([0.25]), torch.tensor([-1])
                assert binary_calibration_error(*nothing, 3, norm, ignore_index=-1).isnan()
                assert binary_calibration_error(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]), 3, norm) == 0.25
        """,
    ),
    Patch(
        mends=("torchmetrics-normalization-not-validated",),
        says="binary curves refuse a normalization that does not exist",
        edits={
            "torchmetrics.classification.precision_recall_curve:BinaryPrecisionRecallCurve.__init__": (
                put_before(
                    "self.ignore_index = ignore_index",
                    """\
if normalization and normalization not in ("sigmoid", "softmax"):
    raise ValueError(
        f"Expected argument `normalization` to be 'sigmoid', 'softmax' or `None`, but got {normalization}"
    )""",
                ),
            )
        },
        test="""
            from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision

            for cls in (BinaryAUROC, BinaryAveragePrecision):
                for name in ("sigmoid", "softmax", None):
                    cls(normalization=name)
                try:
                    cls(normalization="sigmod")
                except ValueError:
                    pass
                else:
                    raise AssertionError("a normalization that does not exist was taken")
        """,
    ),
    Patch(
        mends=("torchmetrics-softmax-of-binary-scores",),
        says="a softmax of scores without an axis of classes is taken on any device where they are logits alone",
        edits={
            "torchmetrics.utilities.compute:normalize_logits_if_needed": (
                replace(
                    'if tensor.device == torch.device("cpu"):',
                    'if tensor.device == torch.device("cpu") or (normalization == "softmax" and tensor.ndim < 2):',
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.utilities.compute import normalize_logits_if_needed

            class Elsewhere(torch.Tensor):
                device = torch.device("meta")

            scores = torch.tensor([0.25, 0.75])
            assert normalize_logits_if_needed(scores.as_subclass(Elsewhere), "softmax").tolist() == [0.25, 0.75]
            several = torch.tensor([[1.0, 3.0]])
            found = normalize_logits_if_needed(several.as_subclass(Elsewhere), "softmax")
            assert torch.equal(found.as_subclass(torch.Tensor), several.softmax(1))
        """,
    ),
    Patch(
        mends=("torchmetrics-absent-classes-all-zero",),
        says="the recall of an absent class is NaN also where every label is 0",
        edits={
            f"{_FUNCTIONAL}.classification.precision_recall_curve:_multiclass_precision_recall_curve_compute": (
                put_after(
                    "res = _binary_precision_recall_curve_compute((",
                    'if not (state[1] == i).any():\n    res[1][:-1] = float("nan")',
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.classification import multiclass_average_precision

            scores = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
            for c in range(3):
                each = multiclass_average_precision(scores[[c, c]], torch.tensor([c, c]), 3, average=None)
                assert each.isnan().tolist() == [i != c for i in range(3)]
                assert multiclass_average_precision(scores[[c, c]], torch.tensor([c, c]), 3) == 1
        """,
    ),
    Patch(
        mends=("torchmetrics-one-label-for-two",),
        says="multi-class scores refuse another number of predictions than of labels",
        edits={
            f"{_FUNCTIONAL}.classification.{where}": (
                replace(
                    "if preds.shape[2:] != target.shape[1:]:",
                    "if preds.shape[0] != target.shape[0] or preds.shape[2:] != target.shape[1:]:",
                ),
            )
            for where in (
                "stat_scores:_multiclass_stat_scores_tensor_validation",
                "confusion_matrix:_multiclass_confusion_matrix_tensor_validation",
            )
        },
        test="""
            import torch
            from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

            for metric in (MulticlassAccuracy(num_classes=3), MulticlassConfusionMatrix(num_classes=3)):
                metric.update(torch.eye(3), torch.tensor([0, 1, 2]))
                try:
                    metric.update(torch.eye(3), torch.tensor([0]))
                except ValueError:
                    pass
                else:
                    raise AssertionError("one label was compared with three predictions")
        """,
    ),
    Patch(
        mends=("torchmetrics-generalized-dice-borrows-weights",),
        says="a class that an image lacks has the largest weight of the classes of this image",
        edits={
            f"{_FUNCTIONAL}.segmentation.generalized_dice:_generalized_dice_update": (
                replace(
                    "w_max = torch.max(weights, 0).values.repeat(w_shape[0], 1).T.flatten()",
                    "w_max = weights_flatten.reshape(w_shape).amax(1, keepdim=True).expand(w_shape).flatten()",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.segmentation import generalized_dice_score

            preds = torch.tensor([[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]])
            for target in (torch.tensor([[[0] * 3] * 2, [[1] * 3] * 2]), torch.zeros(2, 2, 3, dtype=torch.long)):
                both = generalized_dice_score(preds, target, 3, input_format="index")
                for i in (0, 1):
                    one = generalized_dice_score(preds[[i]], target[[i]], 3, input_format="index")
                    assert torch.isclose(one[0], both[i])
        """,
    ),
    Patch(
        mends=("torchmetrics-image-scores-gathered-by-batch",),
        says="the scores of images that are not reduced are gathered as one tensor",
        edits={
            "torchmetrics.image.vif:VisualInformationFidelity.__init__": (
                replace("default=[], dist_reduce_fx=None", 'default=[], dist_reduce_fx="cat"'),
            )
        }
        | {
            f"torchmetrics.image.ssim:{cls}.__init__": (
                replace("default=[], dist_reduce_fx=None", 'default=[], dist_reduce_fx="cat"'),
            )
            for cls in ("StructuralSimilarityIndexMeasure", "MultiScaleStructuralSimilarityIndexMeasure")
        }
        | {
            f"torchmetrics.image.ssim:{cls}.compute": (
                replace("if isinstance(self.similarity, list):", "if isinstance(self.similarity, (list, Tensor)):"),
            )
            for cls in ("StructuralSimilarityIndexMeasure", "MultiScaleStructuralSimilarityIndexMeasure")
        },
        test="""
            import torch
            from torchmetrics import image

            def two_batches_elsewhere(state, group=None):
                # a state of several tensors would be gathered one by one
                calls.append(state.shape)
                return [state, torch.cat([state, state])] if state.ndim else [state, 2 * state]

            target = torch.rand(3, 1, 48, 48, generator=torch.Generator().manual_seed(0))
            for metric in (
                image.VisualInformationFidelity(),
                image.VisualInformationFidelity(reduction="none"),
                image.StructuralSimilarityIndexMeasure(reduction="none"),
                image.MultiScaleStructuralSimilarityIndexMeasure(reduction="none", kernel_size=3, betas=(0.5, 0.5)),
            ):
                for i in range(3):
                    metric.update(target[[i]] * 0.9, target[[i]])
                own, calls = metric.compute(), []
                metric.sync(dist_sync_fn=two_batches_elsewhere, distributed_available=lambda: True)
                assert [shape for shape in calls if shape] == [(3,)]
                found = metric.compute.__wrapped__()
                assert torch.allclose(found, own.repeat(3) if own.ndim else own)
        """,
    ),
    Patch(
        mends=("torchmetrics-ssim-returned-images-not-synchronised",),
        says="StructuralSimilarityIndexMeasure returns images also where they were synchronised",
        edits={
            "torchmetrics.image.ssim:StructuralSimilarityIndexMeasure.compute": (
                replace("if isinstance(self.image_return, list):", "if isinstance(self.image_return, (list, Tensor)):"),
            )
        },
        test="""
            import torch
            from torchmetrics.image import StructuralSimilarityIndexMeasure

            first, second = torch.rand(2, 2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
            for option in ("return_contrast_sensitivity", "return_full_image"):
                metric = StructuralSimilarityIndexMeasure(data_range=1.0, **{option: True})
                metric.update(first, second)
                value, images = metric.compute()
                metric.sync(dist_sync_fn=lambda state, group=None: [state, state], distributed_available=lambda: True)
                both = metric.compute.__wrapped__()
                assert torch.isclose(both[0], value)
                assert torch.equal(both[1], torch.cat([images, images]))
        """,
    ),
    Patch(
        mends=("torchmetrics-image-tensors-not-moved",),
        says="the filter and the map of two metrics of images are moved with them",
        edits={
            "torchmetrics.image.scc:SpatialCorrelationCoefficient.__init__": (
                replace(
                    "self.hp_filter = high_pass_filter",
                    'self.register_buffer("hp_filter", high_pass_filter, persistent=False)',
                ),
            ),
            "torchmetrics.image.rmse_sw:RootMeanSquaredErrorUsingSlidingWindow": (
                append(
                    """\
def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
    if self.rmse_map is not None:
        self.rmse_map = fn(self.rmse_map)
    return super()._apply(fn, *args, **kwargs)"""
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics import image

            metric = image.RootMeanSquaredErrorUsingSlidingWindow()
            metric.update(torch.zeros(1, 1, 16, 16), torch.ones(1, 1, 16, 16))
            assert metric.to("meta").rmse_map.device.type == "meta"
            assert image.SpatialCorrelationCoefficient().to("meta").hp_filter.device.type == "meta"
            assert not image.SpatialCorrelationCoefficient().state_dict()
        """,
    ),
    Patch(
        mends=("torchmetrics-rmse-window-refuses-an-empty-rank",),
        says="RootMeanSquaredErrorUsingSlidingWindow computes on a rank without data",
        edits={
            "torchmetrics.image.rmse_sw:RootMeanSquaredErrorUsingSlidingWindow.compute": (
                replace("assert self.rmse_map is not None  # noqa: S101  # needed for mypy\n", ""),
            )
        },
        test="""
            import torch
            from torchmetrics.image import RootMeanSquaredErrorUsingSlidingWindow

            full, empty = RootMeanSquaredErrorUsingSlidingWindow(), RootMeanSquaredErrorUsingSlidingWindow()
            full.update(torch.zeros(1, 1, 16, 16), torch.ones(1, 1, 16, 16))
            empty.merge_state(full)
            assert empty.compute() == full.compute()
        """,
    ),
    Patch(
        mends=("torchmetrics-psnrb-adds-up-block-effects",),
        says="PeakSignalNoiseRatioWithBlockedEffect averages the block effects of images",
        edits={
            f"{_FUNCTIONAL}.image.psnrb:_compute_bef": (
                *(
                    replace(f"{part}).pow(2.0).sum()", f"{part}).pow(2.0).sum(dim=(1, 2, 3))")
                    for part in (
                        "x[:, :, :, h_b + 1]",
                        "x[:, :, :, h_bc + 1]",
                        "x[:, :, v_b + 1, :]",
                        "x[:, :, v_bc + 1, :]",
                    )
                ),
                replace("min(height, width)) if d_b > d_bc else 0", "min(height, width))"),
                replace("return t * (d_b - d_bc)", "return t * (d_b - d_bc).clamp(min=0)"),
            ),
            f"{_FUNCTIONAL}.image.psnrb:_psnrb_update": (
                replace(
                    "bef = _compute_bef(preds, block_size=block_size)",
                    "# the effect of an image counts as often as it has pixels\n"
                    "bef = _compute_bef(preds, block_size=block_size).sum() * math.prod(preds.shape[1:])",
                ),
            ),
            f"{_FUNCTIONAL}.image.psnrb:_psnrb_compute": (
                replace("sum_squared_error / num_obs + bef", "(sum_squared_error + bef) / num_obs"),
            ),
        },
        test="""
            import torch
            from torchmetrics.functional.image import peak_signal_noise_ratio_with_blocked_effect
            from torchmetrics.image import PeakSignalNoiseRatioWithBlockedEffect

            draw = torch.Generator().manual_seed(0)
            target = torch.rand(2, 1, 16, 16, generator=draw)
            target[:, :, :, 8:] += 1
            preds = target + 0.1 * torch.rand(target.shape, generator=draw)
            whole, batches = PeakSignalNoiseRatioWithBlockedEffect(2.0), PeakSignalNoiseRatioWithBlockedEffect(2.0)
            whole.update(preds, target)
            for i in (0, 1):
                batches.update(preds[[i]], target[[i]])
            assert torch.isclose(whole.compute(), batches.compute())
            once, twice = (preds[[0] * n] for n in (1, 2))
            assert torch.isclose(
                peak_signal_noise_ratio_with_blocked_effect(once, target[[0]], 2.0),
                peak_signal_noise_ratio_with_blocked_effect(twice, target[[0, 0]], 2.0),
            )
        """,
    ),
)
