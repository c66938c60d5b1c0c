"""Patches of kornia."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_after, put_before, replace

LIBRARY = Library(
    "kornia",
    "0.9.0",
    "0.10",
    patches=(
        Patch(
            mends=("kornia-nan-is-the-highest-score",),
            says="accuracy() is NaN where a score is NaN",
            edits={
                "kornia.metrics.accuracy:accuracy": (
                    put_before("_, pred = pred.topk(", "is_nan = pred.isnan().any()"),
                    put_after("return [", 'return [share.masked_fill(is_nan, float("nan")) for share in shares]'),
                    replace("return [correct[", "shares = [correct["),
                )
            },
            test="""
                import torch
                from kornia.metrics import accuracy

                scores, labels = torch.tensor([[0.9, 0.3, 0.5], [0.2, 0.3, 0.5]]), torch.tensor([0, 2])
                assert accuracy(scores, labels) == [100]
                scores[0, 0] = float("nan")
                assert all(share.isnan() for share in accuracy(scores, labels, (1, 3)))
            """,
        ),
    ),
)
