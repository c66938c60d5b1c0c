"""Patches of Lightning."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_after, put_before, replace

_MODULE = """
                import lightning
                import torch
                from torch.utils.data import DataLoader
                from torchmetrics import MeanMetric


                class Module(lightning.LightningModule):
                    def __init__(self):
                        super().__init__()
                        self.mean = MeanMetric()

                    def validation_step(self, batch, batch_idx, dataloader_idx=0):
                        if batch.isnan().any():
                            raise ValueError("a batch cannot be used")
                        self.mean(batch)
                        self.log("mean", self.mean, on_step=False, on_epoch=True)


                names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
                options = dict.fromkeys(names, False)
                module = Module()


                def validate(*loaders):
                    loaders = [DataLoader(torch.tensor(values)) for values in loaders]
                    found = lightning.Trainer(accelerator="cpu", **options).validate(module, loaders, verbose=False)
                    return [value for one in found for value in one.values()]
"""
"""The head of a test: a module that logs a metric."""

LIBRARY = Library(
    "lightning",
    "2.6.6",
    "2.7",
    source="src/",
    patches=(
        Patch(
            mends=("lightning-stop-iteration-ends-validation",),
            says="a StopIteration that a step raises is an error of the evaluation, and not its end",
            edits={
                "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop.run": (
                    replace("while True:\ntry:", "while True:\n    is_fetched = False\n    try:"),
                    put_after("batch, batch_idx, dataloader_idx = next(data_fetcher)", "is_fetched = True"),
                    replace(
                        "(not just `next`) for `dataloader_iter` support\nbreak",
                        "(not just `next`) for `dataloader_iter` support\nif is_fetched:\n    raise\nbreak",
                    ),
                )
            },
            test="""
                import lightning
                import torch
                from torch.utils.data import DataLoader


                class Module(lightning.LightningModule):
                    def validation_step(self, batch, batch_idx):
                        if batch_idx == 1:
                            raise StopIteration


                names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
                trainer = lightning.Trainer(accelerator="cpu", **dict.fromkeys(names, False))
                module = Module().train()
                try:
                    trainer.validate(module, DataLoader(torch.ones(2, 1)), verbose=False)
                except StopIteration:
                    pass
                else:
                    raise RuntimeError("the other batches were left out")
            """,
        ),
        Patch(
            mends=("lightning-truncated-number-of-rows",),
            says="a mean over ranks is divided by the whole number of rows",
            edits={
                "lightning.pytorch.trainer.connectors.logger_connector.result:_ResultMetric.compute": (
                    replace("sync(self.cumulated_batch_size)", "sync(self.cumulated_batch_size.to(value))"),
                )
            },
            test="""
                import lightning
                import torch
                from lightning.pytorch.strategies import DDPStrategy
                from torch.utils.data import DataLoader


                class Module(lightning.LightningModule):
                    def __init__(self):
                        super().__init__()
                        self.weight = torch.nn.Parameter(torch.zeros(()))

                    def validation_step(self, batch, batch_idx):
                        self.log("mean", batch.mean(), sync_dist=True)

                    def val_dataloader(self):
                        return DataLoader(torch.ones(2 if self.global_rank == 0 else 1))


                names = ("logger", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
                strategy = DDPStrategy(process_group_backend="gloo", start_method="fork")
                trainer = lightning.Trainer(
                    accelerator="cpu", devices=3, strategy=strategy, **dict.fromkeys(names, False)
                )
                assert trainer.validate(Module(), verbose=False) == [{"mean": 1}]
            """,
        ),
        Patch(
            mends=("lightning-metric-counts-on",),
            says="a metric that is logged begins anew with the next loader",
            edits={
                "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop.run": (
                    replace(
                        "# the dataloader has changed, notify the logger connector\nself._store_dataloader_outputs()",
                        """\
# the dataloader has changed, notify the logger connector
self._store_dataloader_outputs()
for item in self._results.values():
    if not item.is_tensor and item.meta.dataloader_idx == previous_dataloader_idx:
        item.value.reset()  # the result keeps what was computed""",
                    ),
                )
            },
            test=_MODULE
            + """
                assert validate([0.0, 0.0, 0.0], [1.0, 1.0]) == [0, 1]
                assert validate([1.0, 1.0]) == [1]
            """,
            needs=("torchmetrics",),
        ),
        Patch(
            mends=("lightning-metric-of-a-failed-run",),
            says="a metric that is logged forgets what it counted in a run that ended in an error",
            edits={
                "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop.teardown": (
                    put_before(
                        "self._results.cpu()",
                        """\
for item in self._results.values():
    if not item.has_reset:
        item.reset()""",
                    ),
                )
            },
            test=_MODULE
            + """
                try:
                    validate([8.0, float("nan")])
                except ValueError:
                    pass
                assert validate([1.0, 1.0]) == [1]
            """,
            needs=("torchmetrics",),
        ),
        Patch(
            mends=("lightning-error-leaves-eval",),
            says="a module has its modes again after an evaluation that ended in an error",
            edits={
                "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop._on_evaluation_model_train": (
                    put_after("if is_overridden(hook_name, trainer", "self._module_mode.mode.clear()"),
                ),
                "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop.run": (
                    replace(
                        "finally:\nself.on_iteration_done()",
                        """\
except BaseException:
    self._on_evaluation_model_train()
    raise
finally:
    self.on_iteration_done()""",
                    ),
                ),
                "lightning.pytorch.loops.evaluation_loop:_EvaluationLoop.teardown": (
                    put_before(
                        "self._results.cpu()",
                        """\
if self._module_mode.mode:
    self._on_evaluation_model_train()""",
                    ),
                ),
            },
            test=_MODULE
            + """
                module.train()
                module.mean.eval()
                try:
                    validate([float("nan")])
                except ValueError:
                    pass
                assert module.training and not module.mean.training
            """,
            needs=("torchmetrics",),
        ),
    ),
)
