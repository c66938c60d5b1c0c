"""Tests of other projects that are run: the files, the device, and the number of tests of a file."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suite:
    """The device tests of one project."""

    name: str
    known_by: str
    """A file that tells a checkout of this project."""
    folder: str
    """The folder in which pytest is started."""
    files: dict[str, int]
    """Patterns of test files, and of how many tests one is run."""
    device: str = "cuda"
    limit: int = 60
    """Seconds a test may take."""
    options: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)

    def chosen(self, folder: Path, patterns: list[str] | None) -> list[tuple[str, int]]:
        """The files of a checkout that are run, with their stride."""
        wanted = self.files if patterns is None else dict.fromkeys(patterns, 1)
        found: dict[str, int] = {}
        for pattern, stride in wanted.items():
            for path in sorted(folder.glob(pattern)):
                stated = next((each for key, each in self.files.items() if fnmatch.fnmatch(pattern, key)), stride)
                found.setdefault(str(path.relative_to(folder)), stated)
        return list(found.items())


_PYTORCH = {
    "test_indexing.py": 1,
    "test_torch.py": 1,
    "test_view_ops.py": 2,
    "test_tensor_creation_ops.py": 3,
    "test_type_promotion.py": 1,
    "test_shape_ops.py": 3,
    "test_scatter_gather_ops.py": 1,
    "test_sort_and_select.py": 1,
    "test_optim.py": 4,
    "test_autograd.py": 1,
    "test_cuda.py": 1,
    "test_cuda_multigpu.py": 1,
    "test_nn.py": 2,
    "nn/test_*.py": 2,
    "test_modules.py": 6,
    "test_serialization.py": 1,
    "test_reductions.py": 20,
    "test_linalg.py": 10,
    "test_binary_ufuncs.py": 40,
    "test_foreach.py": 20,
    "test_segment_reductions.py": 2,
    "test_namedtensor.py": 1,
    "test_dataloader.py": 1,
    "test_sparse.py": 6,
    "test_spectral_ops.py": 4,
    "test_distributions.py": 1,
    "test_complex.py": 1,
    "test_multiprocessing.py": 1,
    "test_native_mha.py": 2,
    "test_maskedtensor.py": 6,
    "functorch/test_eager_transforms.py": 1,
}
_TORCHMETRICS = {
    "unittests/bases/test_metric.py": 1,
    "unittests/bases/test_collections.py": 1,
    "unittests/bases/test_aggregation.py": 1,
    "unittests/classification/test_accuracy.py": 6,
    "unittests/classification/test_stat_scores.py": 12,
    "unittests/classification/test_auroc.py": 12,
    "unittests/regression/test_mean_error.py": 4,
    "unittests/wrappers/*.py": 2,
    "unittests/utilities/*.py": 1,
}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
_MODELS = ("bert", "gpt2", "t5", "vit", "wav2vec2")

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            name="pytorch",
            known_by="test/test_torch.py",
            folder="test",
            files=_PYTORCH,
            device="cuda:1",
            limit=30,
            options=("--noconftest",),
        ),
        Suite(
            name="accelerate",
            known_by="src/accelerate/accelerator.py",
            folder=".",
            files={"tests/test_*.py": 1},
            environment=_OFFLINE,
        ),
        Suite(
            name="torchmetrics",
            known_by="src/torchmetrics/metric.py",
            folder="tests",
            files=_TORCHMETRICS,
        ),
        Suite(
            name="transformers",
            known_by="src/transformers/modeling_utils.py",
            folder=".",
            files={f"tests/models/{model}/test_modeling_{model}.py": 1 for model in _MODELS},
            environment=_OFFLINE,
        ),
        Suite(name="generated", known_by="peers_generated.py", folder=".", files={"peers_generated.py": 1}, limit=30),
    )
}


def find_suite(checkout: Path) -> Suite:
    """The suite of a checkout. Raises SystemExit for what is none."""
    for suite in SUITES.values():
        if (checkout / suite.known_by).exists():
            return suite
    expected = ", ".join(f"{suite.name} ({suite.known_by})" for suite in SUITES.values())
    raise SystemExit(f"{checkout} is no checkout of a known project: expected one of {expected}")


def plain_name(test: str) -> str:
    """The name of the same test without a device: PyTorch generates one for the CPU, others have one test for all."""
    on_cpu = re.sub(r"(CUDA|MPS)(?=::)", "CPU", test)
    return test if on_cpu == test else re.sub(r"^(.*)_(?:cuda|mps)(?=_|$)", r"\1_cpu", on_cpu)
