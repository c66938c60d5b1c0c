"""Patches of trl."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Edit, Library, Patch, append, put_after, replace

_TRAINERS = ("trl.trainer.sft_trainer:SFTTrainer", "trl.trainer.reward_trainer:RewardTrainer")

_TRAINER = """
                import tempfile

                import torch
                from datasets import Dataset
                from tokenizers import Tokenizer, models
                from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
                from trl import SFTConfig, SFTTrainer

                torch.manual_seed(0)
                tokens = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
                parts = {"tokenizer_object": tokens, "pad_token": "<pad>", "eos_token": "<eos>"}
                sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
                model = LlamaForCausalLM(LlamaConfig(vocab_size=40, initializer_range=0.5, **sizes))
                options = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True}
                args = SFTConfig(tempfile.mkdtemp(), per_device_eval_batch_size=1, **options)
                data = Dataset.from_list([{"input_ids": ids} for ids in ([5, 6, 7, 8, 9, 10], [3, 4], [11, 12, 13])])
                other = Dataset.from_list([{"input_ids": [20, 21, 22]}])
                tokenizer = PreTrainedTokenizerFast(**parts)
                trainer = SFTTrainer(model, args, train_dataset=data, processing_class=tokenizer)
"""
"""The head of a test: a trainer of a tiny model, and two sets."""

_NAMES_SET: Edit = replace(
    'metrics = {f"eval_{key}": val for key, val in metrics.items()}',
    """\
# Each of several sets has a prefix of its own, such as `eval_first`.
suffix = "_runtime"
prefix = next((key.removesuffix(suffix) for key in logs if key.endswith(suffix)), "eval")
metrics = {f"{prefix}_{key}": val for key, val in metrics.items()}""",
)

_BEGINS: Edit = append(
    """\
def evaluation_loop(self, *args, **kwargs):
    self._metrics["eval"].clear()  # a prediction, or an evaluation that failed, left what its batches added
    return super().evaluation_loop(*args, **kwargs)"""
)

_MEANS = "metrics = {key: sum(val) / len(val) for key, val in self._metrics[mode].items()}"


LIBRARY = Library(
    "trl",
    "1.16",
    "1.17",
    patches=(
        Patch(
            mends=("trl-several-sets-share-their-numbers",),
            says="of several evaluation sets each has its entropy, accuracy and rewards",
            edits={f"{trainer}.log": (_NAMES_SET,) for trainer in _TRAINERS},
            test=_TRAINER
            + """
                found = trainer.evaluate({"first": data, "second": other})
                assert found["eval_first_entropy"] != found["eval_second_entropy"]
                assert "eval_entropy" not in found
                assert "eval_entropy" in trainer.evaluate(data)
            """,
        ),
        Patch(
            mends=("trl-batches-of-a-failed-evaluation",),
            says="an evaluation counts its own batches, and not those of one that failed",
            edits=dict.fromkeys(_TRAINERS, (_BEGINS,)),
            test=_TRAINER
            + """
                right = trainer.evaluate(other)["eval_entropy"]
                forward = model.forward


                def fail(*args, **kwargs):
                    if kwargs["input_ids"].shape[1] == 3:
                        raise RuntimeError("out of memory")
                    return forward(*args, **kwargs)


                model.forward = fail
                try:
                    trainer.evaluate(data)
                except RuntimeError:
                    model.forward = forward
                assert trainer.evaluate(other)["eval_entropy"] == right
            """,
        ),
        Patch(
            mends=("trl-means-of-batch-means",),
            says="entropy, accuracy and rewards are means over tokens and pairs, and extremes those of the whole set",
            edits={
                f"{_TRAINERS[0]}.compute_loss": (
                    put_after(
                        'self._metrics[mode]["mean_token_accuracy"].append(',
                        'self._metrics[mode]["_counts"].append(num_valid.item())',
                    ),
                ),
                f"{_TRAINERS[0]}.log": (
                    put_after(
                        _MEANS,
                        """\
if counts := metrics.pop("_counts", 0) and self._metrics[mode]["_counts"]:
    for key in ("entropy", "mean_token_accuracy"):
        metrics[key] = sum(n * val for n, val in zip(counts, self._metrics[mode][key])) / sum(counts)""",
                    ),
                ),
                f"{_TRAINERS[1]}.compute_loss": (
                    put_after(
                        'self._metrics[mode]["max_reward"].append(',
                        'self._metrics[mode]["_counts"].append(len(all_rewards) // 2)',
                    ),
                ),
                f"{_TRAINERS[1]}.log": (
                    put_after(
                        _MEANS,
                        """\
if counts := metrics.pop("_counts", 0) and self._metrics[mode]["_counts"]:
    for key in ("mean_reward", "accuracy", "margin"):
        metrics[key] = sum(n * val for n, val in zip(counts, self._metrics[mode][key])) / sum(counts)
    if mode == "eval":
        metrics["min_reward"] = min(self._metrics[mode]["min_reward"])
        metrics["max_reward"] = max(self._metrics[mode]["max_reward"])""",
                    ),
                ),
            },
            test=_TRAINER
            + """
                found = []
                for size in (1, 2, 3):
                    trainer.args.per_device_eval_batch_size = size
                    found.append(trainer.evaluate(data))
                for key in ("eval_entropy", "eval_mean_token_accuracy"):
                    assert max(abs(one[key] - found[-1][key]) for one in found) < 1e-5
            """,
        ),
    ),
)
