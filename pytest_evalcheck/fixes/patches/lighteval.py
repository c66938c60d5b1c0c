"""Patches of lighteval."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, replace

_SUMS = """
                from lighteval.metrics.metrics import Metrics
                from lighteval.tasks.lighteval_task import LightevalTask, LightevalTaskConfig
                from lighteval.tasks.requests import Doc


                def prompt(row, task_name=None):
                    return Doc(query=row["question"], choices=[row["answer"]], gold_index=0, task_name=task_name)


                def task(**options):
                    splits = {"hf_avail_splits": ["test"], "evaluation_splits": ["test"]}
                    plain = {"name": "sums", "prompt_function": prompt, "hf_repo": "", "hf_subset": "", **splits}
                    made = LightevalTask(LightevalTaskConfig(**plain, metrics=[Metrics.exact_match], **options))
                    rows = [{"question": f"{n} + 1 =", "answer": f"{n + 1}"} for n in range(6)]
                    made.dataset = {"test": rows}
                    return made
"""
"""The head of a test: a task of sums."""

LIBRARY = Library(
    "lighteval",
    "0.13.0",
    "0.14",
    source="src/",
    patches=(
        Patch(
            mends=("lighteval-document-among-its-examples",),
            says="the evaluated document is left out of its examples, by its place in the split",
            edits={
                "lighteval.tasks.prompt_manager:FewShotSampler.sample_fewshot_examples": (
                    replace(
                        "[x for x in samples if x != formatted_doc]",
                        "[x for x in samples if formatted_doc is None or not shared or x.id != formatted_doc.id]",
                    ),
                    replace(
                        "samples = self._sample_from_pool(",
                        "shared = self.task.fewshot_split in (None, *self.task.evaluation_split)\n"
                        "samples = self._sample_from_pool(",
                    ),
                ),
                "lighteval.tasks.prompt_manager:FewShotSampler._sample_from_pool": (
                    replace(
                        "if self.few_shots_select.value.fewshotpool_unique:",
                        "shared = self.task.fewshot_split in (None, *self.task.evaluation_split)\n"
                        "if self.few_shots_select.value.fewshotpool_unique and not shared:",
                    ),
                ),
            },
            test=_SUMS
            + """
                for select in ("sequential", "random", "balanced", "random_sampling", "random_sampling_from_train"):
                    for document in task(few_shots_split="test", few_shots_select=select, num_fewshots=4).get_docs():
                        shown = [shot.query for shot in document.fewshot_samples]
                        assert len(shown) == 4
                        assert document.query not in shown
            """,
        ),
        Patch(
            mends=("lighteval-documents-asked-again",),
            says="a second run asks the same documents once",
            edits={
                "lighteval.tasks.lighteval_task:LightevalTask.get_docs": (
                    replace("eval_docs = self.eval_docs()", "eval_docs = list(self.eval_docs())"),
                    replace(
                        "doc.sampling_methods.extend(self.sampling_methods)",
                        "doc.sampling_methods = list(self.sampling_methods)",
                    ),
                )
            },
            test=_SUMS
            + """
                made = task()
                first, second = ([(one.query, list(one.sampling_methods)) for one in made.get_docs(2)] for _ in "ab")
                assert first == second
            """,
        ),
        Patch(
            mends=("lighteval-answer-outside-of-a-box",),
            says="the right answer of aimo_progress_prize_1 stands in a box, as its normalisation expects",
            edits={
                "lighteval.tasks.tasks.aimo:aimo_prompt": (
                    replace('[str(line["answer"])]', '["\\\\boxed{" + str(line["answer"]) + "}"]'),
                )
            },
            test=r"""
                from lighteval.metrics import apply_metric
                from lighteval.models.model_output import ModelResponse
                from lighteval.tasks.tasks.aimo import TASKS_TABLE

                (config,) = TASKS_TABLE
                document = config.prompt_function({"problem": "What is 50 + 2?", "answer": 52}, config.name)
                for text, mark in ((r"It is \boxed{52}.", 1), (r"It is \boxed{51}.", 0), ("I do not know.", 0)):
                    (found,) = apply_metric([ModelResponse(text=[text])], [document], config.metrics)
                    assert list(found.values()) == [mark]
            """,
        ),
    ),
)
