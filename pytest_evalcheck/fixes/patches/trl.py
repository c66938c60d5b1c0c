"""Patches of trl."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, replace

_PREFIX = replace(
    'metrics = {f"eval_{key}": val for key, val in metrics.items()}',
    """\
# Of several sets, each has its name in its keys, such as `eval_first_runtime`.
times = (key for key in logs if key.endswith("_runtime"))
prefix = min(times, key=len, default="eval_runtime").removesuffix("_runtime")
metrics = {f"{prefix}_{key}": val for key, val in metrics.items()}""",
)
_CLEAR = append(
    """\
def evaluation_loop(self, *args, **kwargs):
    self._metrics["eval"].clear()  # what an evaluation that failed has left
    return super().evaluation_loop(*args, **kwargs)"""
)

LIBRARY = Library(
    "trl",
    "1.16",
    "1.17",
    patches=(
        Patch(
            mends=("trl-batches-of-a-failed-evaluation",),
            says="an evaluation counts no batches of one that failed",
            edits={
                "trl.trainer.sft_trainer:SFTTrainer": (_CLEAR,),
                "trl.trainer.reward_trainer:RewardTrainer": (_CLEAR,),
            },
            test="""
                from collections import defaultdict
                from unittest import mock

                from trl import RewardTrainer, SFTTrainer

                for of in (SFTTrainer, RewardTrainer):
                    trainer = of.__new__(of)
                    trainer._metrics = {"train": defaultdict(list), "eval": defaultdict(list, entropy=[2.0])}
                    with mock.patch("transformers.Trainer.evaluation_loop", return_value="done"):
                        assert trainer.evaluation_loop("loader", description="Evaluation") == "done"
                    assert not trainer._metrics["eval"]
            """,
        ),
        Patch(
            mends=("trl-several-sets-share-their-numbers",),
            says="the numbers of each of several evaluation sets have the name of the set",
            edits={
                "trl.trainer.sft_trainer:SFTTrainer.log": (_PREFIX,),
                "trl.trainer.reward_trainer:RewardTrainer.log": (_PREFIX,),
            },
            test="""
                from collections import defaultdict
                from unittest import mock

                import torch
                from trl import RewardTrainer, SFTTrainer

                for of in (SFTTrainer, RewardTrainer):
                    trainer = of.__new__(of)
                    trainer.model = torch.nn.Linear(1, 1).eval()
                    trainer._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
                    for prefix in ("eval", "eval_first", "eval_second"):
                        trainer._metrics["eval"]["entropy"].append(2.0)
                        logs = {f"{prefix}_loss": 1.0, f"{prefix}_runtime": 1.0}
                        with mock.patch("transformers.Trainer.log"):
                            trainer.log(logs)
                        assert logs[f"{prefix}_entropy"] == 2.0
                        assert len(logs) == 3
            """,
        ),
    ),
)
