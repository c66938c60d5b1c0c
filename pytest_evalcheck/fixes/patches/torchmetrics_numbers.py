"""Patches of torchmetrics: numbers that overflow, cancel, wrap around or are rounded."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Patch, begin, body, put_after, put_before, replace


def _wide(first: str, second: str) -> str:
    """Give a statement that converts two tensors: floats to float32 at least, integers to int64."""
    return f"""\
{first}, {second} = (
    x.to(torch.promote_types(x.dtype, torch.float32 if x.is_floating_point() else torch.int64))
    for x in ({first}, {second})
)"""


def _float(*names: str) -> str:
    """Give statements that convert tensors to float32 where their precision is lower."""
    return "\n".join(f"{name} = {name}.to(torch.promote_types({name}.dtype, torch.float32))" for name in names)


PATCHES: tuple[Patch, ...] = (
    Patch(
        mends=(
            "torchmetrics-float16-sums-overflow",
            "torchmetrics-squares-of-bytes-wrap",
            "torchmetrics-unsigned-integers-wrap",
        ),
        says="errors of a regression are taken and summed in float32 at least, and those of integers in int64",
        edits={
            f"torchmetrics.functional.regression.{where}": (put_before(anchor, _wide("preds", target)),)
            for where, anchor, target in (
                ("mse:_mean_squared_error_update", "if num_outputs == 1:", "target"),
                ("r2:_r2_score_update", "sum_obs = torch.sum(target, dim=0)", "target"),
                ("explained_variance:_explained_variance_update", "num_obs = preds.size(0)", "target"),
                ("minkowski:_minkowski_distance_update", "difference = torch.abs(preds - targets)", "targets"),
                ("wmape:_weighted_mean_absolute_percentage_error_update", "sum_abs_error = (", "target"),
                ("tweedie_deviance:_tweedie_deviance_score_update", "zero_tensor = torch.zeros(", "targets"),
                ("mae:_mean_absolute_error_update", "sum_abs_error = torch.sum(", "target"),
                ("mape:_mean_absolute_percentage_error_update", "abs_diff = torch.abs(", "target"),
                ("symmetric_mape:_symmetric_mean_absolute_percentage_error_update", "abs_diff = torch.abs(", "target"),
                ("nrmse:_normalized_root_mean_squared_error_update", "sum_squared_error, num_obs =", "target"),
            )
        }
        | {
            "torchmetrics.functional.regression.log_cosh:_log_cosh_error_update": (
                put_before("diff = preds - target", _float("preds", "target")),
            ),
            "torchmetrics.regression.nrmse:NormalizedRootMeanSquaredError.update": (begin(_wide("preds", "target")),),
        },
        test="""
            import torch
            from torchmetrics import regression

            preds, target = torch.tensor([0.0, 100.0, 120.0, 127.0]), torch.tensor([3.0, 99.0, 90.0, 107.0])
            for make in (
                regression.MeanSquaredError,
                regression.R2Score,
                regression.ExplainedVariance,
                regression.RelativeSquaredError,
                regression.TweedieDevianceScore,
                regression.NormalizedRootMeanSquaredError,
                regression.MeanAbsoluteError,
                regression.MeanAbsolutePercentageError,
                regression.SymmetricMeanAbsolutePercentageError,
                regression.WeightedMeanAbsolutePercentageError,
                regression.LogCoshError,
                lambda: regression.MinkowskiDistance(p=3),
            ):
                right = make()(preds, target)
                assert torch.isclose(make()(preds.to(torch.int8), target.to(torch.int8)), right)
                assert torch.isclose(make()(preds.to(torch.uint8), target.to(torch.uint8)), right)
            preds, target = torch.linspace(-500, 500, 1000).half(), torch.linspace(-600, 400, 1000).half()
            for make in (
                lambda: regression.MeanSquaredError(squared=False),
                regression.R2Score,
                regression.ExplainedVariance,
                regression.RelativeSquaredError,
                regression.WeightedMeanAbsolutePercentageError,
                lambda: regression.MinkowskiDistance(p=3),
                lambda: regression.NormalizedRootMeanSquaredError("range"),
            ):
                assert torch.isclose(make()(preds, target), make()(preds.float(), target.float()))
        """,
    ),
    Patch(
        mends=(
            "torchmetrics-half-precision-cancels",
            "torchmetrics-image-quality-in-half-precision",
            "torchmetrics-images-in-float16-overflow",
        ),
        says="deviances, divergences and the quality of images are computed in float32 at least",
        edits={
            f"torchmetrics.functional.{where}": (put_before(anchor, _float(*names)),)
            for where, anchor, names in (
                ("regression.kl_divergence:_kld_update", "total = p.shape[0]", ("p", "q")),
                ("regression.js_divergence:_jsd_update", "total = p.shape[0]", ("p", "q")),
                ("regression.log_mse:_mean_squared_log_error_update", "sum_squared_log_error =", ("preds", "target")),
                ("image.psnr:_psnr_update", "if dim is None:", ("preds", "target")),
                ("image.ssim:_ssim_update", "is_3d = preds.ndim == 5", ("preds", "target")),
                ("image.uqi:_uqi_compute", "device = preds.device", ("preds", "target")),
            )
        }
        | {
            "torchmetrics.functional.regression.tweedie_deviance:_tweedie_deviance_score_update": (
                put_after(
                    "_check_same_shape(preds, targets)",
                    "if preds.is_floating_point() and targets.is_floating_point():\n"
                    + "\n".join("    " + line for line in _float("preds", "targets").splitlines()),
                ),
            )
        },
        test="""
            import torch
            from torchmetrics import image, regression

            target = torch.linspace(998.0, 1002.0, 1000).bfloat16()
            preds = (target.float() + 8 * (torch.arange(1000) % 2)).bfloat16()
            for make in (
                regression.MeanSquaredLogError,
                lambda: regression.TweedieDevianceScore(1),
                lambda: regression.TweedieDevianceScore(1.5),
                lambda: regression.TweedieDevianceScore(3),
            ):
                assert torch.isclose(make()(preds, target), make()(preds.float(), target.float()), rtol=0.01)
            rows = preds.reshape(-1, 4), target.reshape(-1, 4)
            for make in (regression.KLDivergence, regression.JensenShannonDivergence):
                assert torch.isclose(make()(*rows), make()(*(x.float() for x in rows)), rtol=0.01)

            draw = torch.Generator().manual_seed(0)
            target = torch.randint(0, 256, (8, 1, 16, 16), generator=draw).half()
            preds = (target + torch.randint(-40, 41, target.shape, generator=draw)).clamp(0, 255)
            for make in (
                lambda: image.PeakSignalNoiseRatio(data_range=255.0),
                lambda: image.StructuralSimilarityIndexMeasure(data_range=255.0),
                image.UniversalImageQualityIndex,
            ):
                assert torch.isclose(make()(preds, target), make()(preds.float(), target.float()), rtol=0.001)
        """,
    ),
    Patch(
        mends=("torchmetrics-pearson-float16-overflows",),
        says="PearsonCorrCoef and ConcordanceCorrCoef sum the squares of half precision in float32",
        edits={
            "torchmetrics.functional.regression.pearson:_pearson_corrcoef_update": (
                put_before(
                    "num_obs = preds.shape[0]",
                    "preds, target = (\n"
                    "    x.to(torch.promote_types(x.dtype, torch.float32)) if x.is_floating_point() else x\n"
                    "    for x in (preds, target)\n"
                    ")",
                ),
            )
        }
        | {
            f"torchmetrics.functional.regression.{name}": (
                replace("dtype=preds.dtype", "dtype=torch.promote_types(preds.dtype, torch.float32)"),
            )
            for name in ("pearson:pearson_corrcoef", "concordance:concordance_corrcoef")
        },
        test="""
            import torch
            from torchmetrics import functional, regression

            target = torch.linspace(-300, 300, 1000).half()
            preds = (target.float() * 0.5 + 100 * (torch.arange(1000) % 2)).half()
            for score in (
                regression.PearsonCorrCoef(),
                regression.ConcordanceCorrCoef(),
                functional.pearson_corrcoef,
                functional.concordance_corrcoef,
            ):
                right = score(preds.float(), target.float())
                assert torch.isclose(score(preds, target), right, rtol=1e-4)
        """,
    ),
    Patch(
        mends=("torchmetrics-pearson-constant-ranks",),
        says="the scale of Pearson's variances counts how far the means of the ranks lie apart",
        edits={
            "torchmetrics.regression.pearson:_final_aggregation": (
                replace(
                    "max_abs_dev_x = torch.maximum(max1, max2)\nmax_abs_dev_y = torch.maximum(may1, may2)",
                    """\
# a rank without data has neither a mean nor a deviation
max_abs_dev_x = torch.maximum(
    torch.where(n1 < 1, max1, max1 + (mx1 - mean_x).abs()), torch.where(n2 < 1, max2, max2 + (mx2 - mean_x).abs())
)
max_abs_dev_y = torch.maximum(
    torch.where(n1 < 1, may1, may1 + (my1 - mean_y).abs()), torch.where(n2 < 1, may2, may2 + (my2 - mean_y).abs())
)""",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.regression import ConcordanceCorrCoef, PearsonCorrCoef

            def both_ranks(state, group=None):
                # the other rank holds one sample of 1 and 1, beside one of 0 and 0 here
                sample = other[len(seen)]
                seen.append(sample)
                return [state, sample]

            for cls in (PearsonCorrCoef, ConcordanceCorrCoef):
                rank = cls()
                rank.update(torch.tensor([1.0]), torch.tensor([1.0]))
                other, seen = [getattr(rank, name) for name in rank._reductions], []
                metric = cls(dist_sync_fn=both_ranks, distributed_available_fn=lambda: True)
                metric.update(torch.tensor([0.0]), torch.tensor([0.0]))
                assert torch.isclose(metric.compute(), torch.tensor(1.0))
        """,
    ),
    Patch(
        mends=("torchmetrics-concordance-of-a-constant",),
        says="ConcordanceCorrCoef divides the covariance by the sum of the variances, without Pearson's correlation",
        edits={
            "torchmetrics.functional.regression.concordance:_concordance_corrcoef_compute": (
                replace(
                    "pearson = _pearson_corrcoef_compute(max_abs_dev_x, max_abs_dev_y, var_x, var_y, corr_xy, nb)",
                    "cov_xy = corr_xy / (nb - 1)",
                ),
                replace(
                    "return 2.0 * pearson * var_x.sqrt() * var_y.sqrt() / (var_x + var_y + (mean_x - mean_y) ** 2)",
                    "return 2.0 * cov_xy / (var_x + var_y + (mean_x - mean_y) ** 2)",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional import concordance_corrcoef

            assert concordance_corrcoef(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 2.0])) == 0
            value = concordance_corrcoef(torch.tensor([2.5, 0.0, 2, 8]), torch.tensor([3.0, -0.5, 2, 7]))
            assert torch.isclose(value, torch.tensor(0.9777), atol=1e-4)
        """,
    ),
    Patch(
        mends=("torchmetrics-nrmse-cancels-in-float32",),
        says="NormalizedRootMeanSquaredError centres each batch before it sums squares",
        edits={
            "torchmetrics.regression.nrmse:NormalizedRootMeanSquaredError.update": (
                replace(
                    "new_mean = (self.total * self.mean_val + target.sum(dim=0)) / (self.total + num_obs)",
                    """\
batch_mean = target.sum(dim=0) / num_obs
share = num_obs / (self.total + num_obs)
delta = batch_mean - self.mean_val""",
                ),
                replace(
                    "self.total += num_obs\nnew_var = ((target - new_mean) * (target - self.mean_val)).sum(dim=0)",
                    "new_var = ((target - batch_mean) ** 2).sum(dim=0) + delta**2 * self.total * share\n"
                    "self.total += num_obs",
                ),
                replace("self.mean_val = new_mean", "self.mean_val = self.mean_val + delta * share"),
            )
        },
        test="""
            import torch
            from torchmetrics.regression import NormalizedRootMeanSquaredError

            target = 1e5 + torch.linspace(-1, 1, 100)
            preds = target + 1
            metric = NormalizedRootMeanSquaredError("std")
            for half in (slice(50), slice(50, 100)):
                metric.update(preds[half], target[half])
            assert torch.isclose(metric.compute(), 1 / target.double().std(correction=0).float(), rtol=0.01)
        """,
    ),
    Patch(
        mends=("torchmetrics-nrmse-aggregates-overwritten-states",),
        says="NormalizedRootMeanSquaredError aggregates the states of any number of ranks at once",
        edits={
            "torchmetrics.regression.nrmse:_final_aggregation": (
                body(
                    """\
if normalization == "range":
    return max_val.amax(0) - min_val.amin(0)
if normalization == "l2":
    return target_squared.sum(0).sqrt()
total_of_all = total.sum(0)
mean = (total * mean_val).sum(0) / total_of_all
if normalization == "mean":
    return mean
var = (var_val + total * (mean_val - mean) ** 2).sum(0)
return (var / total_of_all).sqrt()"""
                ),
            ),
            "torchmetrics.regression.nrmse:NormalizedRootMeanSquaredError.compute": (
                replace("total = self.total.squeeze().sum(dim=0)", "total = self.total.sum(dim=0)"),
            ),
        },
        test="""
            import torch
            from torchmetrics.regression import NormalizedRootMeanSquaredError

            def gather(state, group=None):
                name = names[len(seen)]
                seen.append(name)
                return [getattr(rank, name) for rank in ranks]

            for count, outputs in ((1, 1), (1, 3), (3, 1), (3, 3)):
                for kind in ("mean", "range", "std", "l2"):
                    ranks = [NormalizedRootMeanSquaredError(kind, num_outputs=outputs) for _ in range(count)]
                    whole = NormalizedRootMeanSquaredError(kind, num_outputs=outputs)
                    for rank, high in zip(ranks, (3.0, 5.0, 9.0)):
                        target = torch.tensor([[1.0] * outputs, [high] * outputs]).squeeze()
                        rank.update(torch.full_like(target, 2.0), target)
                        whole.update(torch.full_like(target, 2.0), target)
                    names, seen = list(whole._reductions), []
                    ranks[0].sync(dist_sync_fn=gather, distributed_available=lambda: True)
                    assert torch.allclose(ranks[0].compute.__wrapped__(), whole.compute())
        """,
    ),
    Patch(
        mends=("torchmetrics-r2-takes-on-the-dtype",),
        says="sums of R2Score and ExplainedVariance are not narrower than their states",
        edits={
            f"torchmetrics.regression.{where}.update": (
                put_before(
                    f"self.{first} = self.{first} +",
                    "from torch import promote_types\n\n"
                    + "".join(
                        f"{name} = {name}.to(promote_types({name}.dtype, self.{name}.dtype))\n" for name in names
                    ),
                ),
            )
            for where, first, names in (
                ("r2:R2Score", "sum_squared_error", ("sum_squared_error", "sum_error", "residual")),
                (
                    "explained_variance:ExplainedVariance",
                    "num_obs",
                    ("sum_error", "sum_squared_error", "sum_target", "sum_squared_target"),
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.regression import ExplainedVariance, R2Score

            for metric in (R2Score(multioutput="raw_values"), ExplainedVariance()):
                metric.update(torch.ones(3, 2).half(), torch.ones(3, 2).half())
                assert torch.float16 not in {getattr(metric, name).dtype for name in metric._defaults}
        """,
    ),
    Patch(
        mends=("torchmetrics-r2-small-numbers-are-constant",),
        says="R2Score takes a sum of squares for zero only where it is rounding, whatever the unit of the targets",
        edits={
            "torchmetrics.functional.regression.r2:_r2_score_compute": (
                replace(
                    "cond_rss = ~torch.isclose(rss, torch.zeros_like(rss), atol=1e-4)\n"
                    "cond_tss = ~torch.isclose(tss, torch.zeros_like(tss), atol=1e-4)",
                    """\
rounding = 8 * torch.finfo(tss.dtype).eps
cond_rss = ~((rss <= 1e-4) & (rss <= rounding**2 * sum_squared_obs))
cond_tss = ~((tss.abs() <= 1e-4) & (tss.abs() <= rounding * sum_squared_obs))""",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional import r2_score

            target = torch.tensor([1.0, 2.0, 3.0, 4.0])
            for unit in (1.0, 1e-3, 1e-4):
                assert torch.isclose(r2_score(-target * unit, target * unit), torch.tensor(-23.0))
            assert r2_score(torch.tensor([0.0, 0.2]), torch.tensor([0.1, 0.1])) == 0
        """,
    ),
    Patch(
        mends=("torchmetrics-nan-beside-constant-target",),
        says="R2Score and ExplainedVariance of a NaN prediction are NaN, also where the target is constant",
        edits={
            "torchmetrics.functional.regression.r2:_r2_score_compute": (
                put_after(
                    "raw_scores[cond_rss & ~cond_tss] = 0.0", "raw_scores = torch.where(rss.isnan(), rss, raw_scores)"
                ),
            ),
            "torchmetrics.functional.regression.explained_variance:_explained_variance_compute": (
                put_after(
                    "output_scores[nonzero_numerator & ~nonzero_denominator] = 0.0",
                    "output_scores = torch.where(numerator.isnan(), numerator, output_scores)",
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics.functional import explained_variance, r2_score

            for score in (r2_score, explained_variance):
                assert score(torch.tensor([float("nan"), 0.0]), torch.zeros(2)).isnan()
                assert score(torch.ones(2), torch.zeros(2)) in (0, 1)
        """,
    ),
)
