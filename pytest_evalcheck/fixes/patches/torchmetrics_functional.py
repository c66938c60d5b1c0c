"""Patches of torchmetrics' functions of retrieval, texts, clustering and classification."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Patch, put_after, replace

PATCHES: tuple[Patch, ...] = (
    Patch(
        mends=("torchmetrics-ter-swaps-its-arguments",),
        says="the translation edit rate edits the prediction into the reference, not the reverse",
        edits={
            "torchmetrics.functional.text.ter:_compute_sentence_statistics": (
                replace(
                    "_translation_edit_rate(tgt_words, pred_words)",
                    "_translation_edit_rate(pred_words, tgt_words)",
                ),
            ),
            "torchmetrics.functional.text.ter:_translation_edit_rate": (
                replace("return tensor(0.0)", "return tensor(float(len(pred_words)))"),
            ),
        },
        test="""
            from torchmetrics.functional.text import translation_edit_rate

            assert translation_edit_rate([""], [["the cat sat"]]) == 1
        """,
    ),
    Patch(
        mends=("torchmetrics-classwise-wrapper-keeps-its-cache",),
        says="ClasswiseWrapper computes anew where its own cached value was dropped",
        edits={
            "torchmetrics.wrappers.classwise:ClasswiseWrapper.compute": (
                replace(
                    "return self._convert_output(self.metric.compute())",
                    "self.metric._computed = None  # a collection drops the cached value of the wrapper alone\n"
                    "return self._convert_output(self.metric.compute())",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics import MetricCollection
            from torchmetrics.classification import MulticlassPrecision, MulticlassRecall
            from torchmetrics.wrappers import ClasswiseWrapper

            kinds = {"precision": MulticlassPrecision, "recall": MulticlassRecall}
            metrics = MetricCollection(
                {name: ClasswiseWrapper(kind(3, average=None), prefix=f"{name}_") for name, kind in kinds.items()}
            )
            for label in (0, 2):
                metrics.update(torch.tensor([label]), torch.tensor([label]))
                found = metrics.compute()
            assert found["precision_2"] == found["recall_2"] == 1
        """,
    ),
    Patch(
        mends=("torchmetrics-dunn-index-of-one-cluster",),
        says="DunnIndex says that it needs two clusters",
        edits={
            "torchmetrics.functional.clustering.dunn_index:_dunn_index_update": (
                put_after(
                    "unique_labels, inverse_indices = labels.unique(return_inverse=True)",
                    "if len(unique_labels) < 2:\n"
                    '    raise ValueError(f"Expected at least two clusters, but got {len(unique_labels)}")',
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.clustering import dunn_index

            try:
                dunn_index(torch.ones(2, 2), torch.tensor([0, 0]))
            except ValueError:
                pass
            else:
                raise RuntimeError("one cluster has a Dunn index")
        """,
    ),
    Patch(
        mends=("torchmetrics-matthews-of-hits-is-whole",),
        says="a Matthews correlation of 1 or -1 is a float, as every other one",
        edits={
            "torchmetrics.functional.classification.matthews_corrcoef:_matthews_corrcoef_reduce": (
                replace(
                    "return torch.tensor(1.0, dtype=confmat.dtype, device=confmat.device)",
                    "return torch.tensor(1.0, dtype=torch.float32, device=confmat.device)",
                ),
                replace(
                    "return torch.tensor(-1.0, dtype=confmat.dtype, device=confmat.device)",
                    "return torch.tensor(-1.0, dtype=torch.float32, device=confmat.device)",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.functional.classification import binary_matthews_corrcoef

            labels = torch.tensor([0, 1])
            for preds, value in ((labels, 1), (1 - labels, -1)):
                found = binary_matthews_corrcoef(preds, labels)
                assert found == value and found.is_floating_point()
        """,
    ),
    Patch(
        mends=("torchmetrics-ranking-batch-without-pair",),
        says="a batch without a pair to rank counts with its number of samples",
        edits={
            "torchmetrics.functional.classification.ranking:_multilabel_ranking_loss_update": (
                replace(
                    "return torch.tensor(0.0, device=preds.device), 1",
                    "return torch.tensor(0.0, device=preds.device), num_preds",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.classification import MultilabelRankingLoss

            scores, none, some = torch.tensor([[0.9, 0.1]]), torch.tensor([[1, 1]]), torch.tensor([[0, 1]])
            apart, together = MultilabelRankingLoss(2), MultilabelRankingLoss(2)
            apart.update(scores.repeat(3, 1), none.repeat(3, 1))
            apart.update(scores, some)
            together.update(scores.repeat(4, 1), torch.cat([none, none, none, some]))
            assert apart.compute() == together.compute()
        """,
    ),
)
