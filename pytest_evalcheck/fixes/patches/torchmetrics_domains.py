"""Patches of torchmetrics' metrics of classification, regression, texts and clustering."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Patch, put_after, put_before, replace

PATCHES: tuple[Patch, ...] = (
    Patch(
        mends=("torchmetrics-binary-auroc-never-validates",),
        says="BinaryAUROC validates its batches where validate_args is set",
        edits={
            "torchmetrics.classification.auroc:BinaryAUROC.__init__": (
                put_after("self.max_fpr = max_fpr", "self.validate_args = validate_args"),
            )
        },
        test="""
            import torch
            from torchmetrics.classification import BinaryAUROC

            try:
                BinaryAUROC().update(torch.tensor([0.1, 0.9, 0.5]), torch.tensor([0, 1]))
            except RuntimeError:
                pass
            else:
                raise AssertionError("a batch of unequal lengths was taken")
        """,
    ),
    Patch(
        mends=("torchmetrics-calibration-bin-of-one",),
        says="a score of 1 is in the last bin of a calibration error",
        edits={
            "torchmetrics.functional.classification.calibration_error:_binning_bucketize": (
                put_after(
                    "indices = torch.bucketize(confidences, bin_boundaries, right=True) - 1",
                    "indices = indices.clamp(max=len(bin_boundaries) - 2)",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.classification import binary_calibration_error

            assert binary_calibration_error(torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), n_bins=1) == 0.25
        """,
    ),
    Patch(
        mends=("torchmetrics-log-cosh-overflows",),
        says="the logarithm of cosh is computed without its exponential",
        edits={
            "torchmetrics.functional.regression.log_cosh:_log_cosh_error_update": (
                replace(
                    "sum_log_cosh_error = torch.log((torch.exp(diff) + torch.exp(-diff)) / 2).sum(0).squeeze()",
                    "# log(cosh(x)) = |x| + log(1 + exp(-2|x|)) - log(2), of which no term overflows\n"
                    "size = diff.abs() if diff.is_floating_point() else diff.abs().float()\n"
                    "log_cosh = size + torch.nn.functional.softplus(-2 * size) - 0.6931471805599453\n"
                    "sum_log_cosh_error = log_cosh.sum(0).squeeze()",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.regression import log_cosh_error

            assert torch.isclose(log_cosh_error(torch.tensor([100.0]), torch.tensor([0.0])), torch.tensor(99.3068528))
            assert torch.isclose(log_cosh_error(torch.tensor([1]), torch.tensor([0])), torch.tensor(0.4337808))
        """,
    ),
    Patch(
        mends=("torchmetrics-perplexity-underflows",),
        says="Perplexity sums logarithms of a softmax in float32 at least",
        edits={
            "torchmetrics.functional.text.perplexity:_perplexity_update": (
                replace(
                    "probs = torch.nn.functional.softmax(preds.reshape(-1, preds.shape[-1]), dim=1)",
                    "logits = preds.reshape(-1, preds.shape[-1]).to(torch.promote_types(preds.dtype, torch.float32))\n"
                    "log_probs = torch.nn.functional.log_softmax(logits, dim=1)",
                ),
                replace(
                    "probs = probs[torch.arange(target.numel()), target][mask]",
                    "log_probs = log_probs[torch.arange(target.numel()), target][mask]",
                ),
                replace("-probs.log().sum()", "-log_probs.sum()"),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.text import perplexity

            logits = torch.tensor([[[0.0, 20.0]]], dtype=torch.float16)
            assert torch.isfinite(perplexity(logits, torch.tensor([[0]])))
        """,
    ),
    Patch(
        mends=("torchmetrics-bleu-first-of-close-references",),
        says="of references whose lengths are as close, BLEU counts the shortest",
        edits={
            "torchmetrics.functional.text.bleu:_bleu_score_update": (
                replace(
                    "target_len += target_len_list[target_len_diff.index(min(target_len_diff))]",
                    "target_len += min(zip(target_len_diff, target_len_list))[1]",
                ),
            )
        },
        test="""
            from torchmetrics.functional.text import bleu_score

            assert bleu_score(["a b c"], [["a b c d", "a b"]], n_gram=1) == 1
        """,
    ),
    Patch(
        mends=("torchmetrics-bleu-smooths-no-zero",),
        says="BLEU with smooth=True smooths an order of n-grams without a match",
        edits={
            "torchmetrics.functional.text.bleu:_bleu_score_compute": (
                replace(
                    "if min(numerator) == 0.0:",
                    "if numerator[0] == 0.0 or (not smooth and min(numerator) == 0.0):",
                ),
            )
        },
        test="""
            from torchmetrics.functional.text import bleu_score

            assert bleu_score(["a b x"], [["a b c"]], n_gram=3, smooth=True) > 0
        """,
    ),
    Patch(
        mends=("torchmetrics-texts-of-unequal-lists",),
        says="error rates of texts refuse lists of unequal lengths",
        edits={
            f"torchmetrics.functional.text.{module}:{function}": (
                put_before(
                    anchor,
                    "if len(preds) != len(target):\n"
                    '    raise ValueError(f"Expected {len(preds)} references, but got {len(target)}")',
                ),
            )
            for module, function, anchor in (
                ("wer", "_wer_update", "errors = tensor(0, dtype=torch.float)"),
                ("cer", "_cer_update", "errors = tensor(0, dtype=torch.float)"),
                ("mer", "_mer_update", "errors = tensor(0, dtype=torch.float)"),
                ("wil", "_word_info_lost_update", "errors = tensor(0.0)"),
                ("wip", "_wip_update", "errors = tensor(0.0)"),
                ("bleu", "_bleu_score_update", "for pred, targets in zip(preds_, target_):"),
                ("rouge", "_rouge_score_update", "for pred_raw, target_raw in zip(preds, target):"),
            )
        },
        test="""
            from torchmetrics import text

            rates = (text.CharErrorRate, text.MatchErrorRate, text.WordErrorRate)
            for kind in (text.BLEUScore, *rates, text.WordInfoLost, text.WordInfoPreserved):
                try:
                    kind().update(["a"], [["a"], ["b"]] if kind is text.BLEUScore else ["a", "b"])
                except ValueError:
                    continue
                raise AssertionError("a reference without a prediction was left out")
        """,
    ),
    Patch(
        mends=("torchmetrics-v-measure-of-nothing-is-one",),
        says="the V-measure is 0 where homogeneity and completeness are",
        edits={
            "torchmetrics.functional.clustering.homogeneity_completeness_v_measure:v_measure_score": (
                replace("return torch.ones_like(homogeneity)", "return torch.zeros_like(homogeneity)"),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.clustering import v_measure_score

            assert v_measure_score(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])) == 0
        """,
    ),
)
