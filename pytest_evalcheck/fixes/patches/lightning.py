"""Patches of Lightning."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_after, replace

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
    ),
)
