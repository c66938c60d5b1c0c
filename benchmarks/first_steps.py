"""The first steps of a new user, timed: from an empty folder to the first true failure, and to a green strict run.

``python benchmarks/first_steps.py`` writes a project in ``src`` layout: six metrics (three of them wrong), the
evaluation loop of a language model (wrong), and a decoder. Its pytest has ``-n auto``, strict markers,
``filterwarnings = error``, pytest-cov, pytest-randomly, pytest-timeout and pytest-doctestplus, in an environment of its
own. Then it calls the documented commands, and prints minutes, commands and lines. It fails where a check of a wrong
target passes that must fail, another check fails, or the last run is not green. ``--smoke`` takes two metrics and a few
checks, in this environment, with those plugins that are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLUGINS = {
    "xdist": ("pytest-xdist", "-n auto"),
    "pytest_cov": ("pytest-cov", "--cov=evalkit"),
    "pytest_randomly": ("pytest-randomly", ""),
    "pytest_timeout": ("pytest-timeout", "--timeout=600"),
    "pytest_doctestplus": ("pytest-doctestplus", "--doctest-plus"),
}
"""By module: the distribution, and what a project that uses it has in ``addopts``."""
METRICS = {
    "Accuracy": '''
class Accuracy:
    """Share of right classes."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.right, self.total = 0, 0

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """
        >>> metric = Accuracy()
        >>> metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
        """
        self.right += int((preds == target).sum())
        self.total += target.numel()

    def compute(self) -> float:
        return self.right / self.total if self.total else 0.0
''',
    "MeanAbsoluteError": '''
class MeanAbsoluteError:
    """Mean distance of predictions; wrong: a mean of the means of batches, and float64, which MPS does not have."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.means: list[float] = []

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """
        >>> metric = MeanAbsoluteError()
        >>> metric.update(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 1.5]))
        """
        if len(target):
            self.means.append(float((preds.double() - target.double()).abs().mean()))

    def compute(self) -> float:
        return sum(self.means) / len(self.means) if self.means else 0.0
''',
    "Recall": '''
class Recall:
    """Share of positive samples that were found; wrong: a reset forgets one of two counters."""

    def __init__(self) -> None:
        self.found, self.positive = 0, 0

    def reset(self) -> None:
        self.found = 0

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """
        >>> metric = Recall()
        >>> metric.update(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]))
        """
        self.found += int(((preds == 1) & (target == 1)).sum())
        self.positive += int((target == 1).sum())

    def compute(self) -> float:
        return self.found / self.positive if self.positive else 0.0
''',
    "Precision": '''
class Precision:
    """Share of the samples that were called positive and are."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.right, self.called = 0, 0

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """
        >>> metric = Precision()
        >>> metric.update(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]))
        """
        self.right += int(((preds == 1) & (target == 1)).sum())
        self.called += int((preds == 1).sum())

    def compute(self) -> float:
        return self.right / self.called if self.called else 0.0
''',
    "RootMeanSquaredError": '''
class RootMeanSquaredError:
    """Root of the mean of squares; wrong: float64, which MPS does not have."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.squares, self.total = torch.zeros((), dtype=torch.float64), 0

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """
        >>> metric = RootMeanSquaredError()
        >>> metric.update(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 1.5]))
        """
        self.squares = self.squares + (preds.double() - target.double()).square().sum().cpu()
        self.total += target.numel()

    def compute(self) -> float:
        return float((self.squares / self.total).sqrt()) if self.total else 0.0
''',
    "ExactMatch": '''
class ExactMatch:
    """Share of texts that equal their reference."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.equal, self.total = 0, 0

    def update(self, predictions: list[str], references: list[str]) -> None:
        """
        >>> metric = ExactMatch()
        >>> metric.update(["Paris", "Rome"], ["Paris", "Bern"])
        """
        self.equal += sum(one == other for one, other in zip(predictions, references, strict=True))
        self.total += len(references)

    def compute(self) -> float:
        return self.equal / self.total if self.total else 0.0
''',
}
WRONG = {
    "mean_absolute_error": {"EC201", "EC604"},
    "recall": {"EC204"},
    "root_mean_squared_error": {"EC604"},
    "language_model": {"EC501"},
}
"""The checks that must fail, by target; no other may."""
FEW = ("EC201", "EC301", "EC501")
"""The checks of the smoke run."""
MODELS = '''
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Reader(nn.Module):
    """Predicts the next token from the average of all tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, ids, mask, memory=None):
        read = self.embed(ids) * mask[:, -ids.shape[1] :, None]
        if memory:
            read = torch.cat([memory["read"], read], dim=1)
        if memory is not None:
            memory["read"] = read
        seen = mask.cumsum(1)[:, :, None].clamp(min=1)
        return self.head(read.cumsum(1) / seen)[:, -ids.shape[1] :]


class LanguageModel(nn.Module):
    """Predicts the next token from this one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, input_ids):
        return self.head(self.embed(input_ids))


@torch.no_grad()
def evaluate(model, loader):
    """The loss of each token; wrong: a mean over batches."""
    losses = []
    for batch in loader:
        logits, labels = model(batch["input_ids"])[:, :-1], batch["labels"][:, 1:]
        if bool((labels != -100).any()):
            losses.append(float(cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)))
    return {"loss": sum(losses) / len(losses)}
'''
TARGETS = """
import pytest_evalcheck as ec
from evalkit.models import LanguageModel, Reader, evaluate
from pytest_evalcheck import strategies as es


@ec.loop(inputs=es.causal_lm(vocab=20))
def language_model():
    model = LanguageModel().eval()
    return ec.Loop(evaluate=lambda data, batch_size=2: evaluate(model, data.loader(batch_size)), model=model)


@ec.decoder(inputs=es.prompts(vocab=20))
def reader():
    model = Reader().double()
    return ec.Decoder(
        model, make_cache=lambda rows: {}, step=lambda ids, memory, mask, positions: model(ids, mask, memory)
    )
"""


@dataclass(frozen=True)
class Step:
    """One command of the user."""

    command: tuple[str, ...]
    seconds: float
    code: int
    first_failure: float | None
    """Seconds until the screen showed a failure of a wrong target."""


def project(folder: Path, metrics: list[str], plugins: list[str]) -> None:
    """Write what the user has before."""
    package = folder / "src" / "evalkit"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    classes = "\n".join(METRICS[name] for name in metrics)
    (package / "metrics.py").write_text(f"import torch\n\n{classes}", encoding="utf-8")
    (package / "models.py").write_text(MODELS.lstrip(), encoding="utf-8")
    (folder / "tests").mkdir()
    unit = "from evalkit.metrics import Accuracy\n\n\ndef test_nothing():\n    assert Accuracy().compute() == 0.0\n"
    (folder / "tests" / "test_metrics.py").write_text(unit, encoding="utf-8")
    options = ["--strict-markers", "--strict-config", *(PLUGINS[name][1] for name in plugins if PLUGINS[name][1])]
    ini = (
        "[tool.pytest.ini_options]\n"
        f'addopts = "{" ".join(options)}"\n'
        'pythonpath = ["src"]\ntestpaths = ["tests"]\nfilterwarnings = ["error"]\nxfail_strict = true\n'
    )
    (folder / "pyproject.toml").write_text(ini, encoding="utf-8")


def environment(folder: Path, plugins: list[str]) -> str:
    """Make an environment with the plugins and this package over the installed libraries; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (own,) = (folder / "lib").glob("python*/site-packages")
    (own / "the_installed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    wanted = [PLUGINS[name][0] for name in plugins]
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", str(folder)]
    subprocess.run([*pip, "install", *wanted], check=True)
    return str(folder / "bin" / "python")


def call(folder: Path, *command: str) -> Step:
    """Call a command in the folder, and note when its screen shows a true failure."""
    paths = os.pathsep.join([str(folder / "src"), str(ROOT)])  # as if both were installed
    given = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    print("$", " ".join(["python", *command[1:]]), flush=True)
    start, first, shown = time.perf_counter(), None, []
    with subprocess.Popen(
        command, cwd=folder, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            shown.append(line)
            if first is None and "fails for" in line and any(f"::{name} " in line for name in WRONG):
                first = time.perf_counter() - start
    step = Step(command, time.perf_counter() - start, process.returncode, first)
    print("".join(shown[-12:]), flush=True)
    with (folder / "screens.txt").open("a", encoding="utf-8") as screens:
        screens.writelines([f"$ {' '.join(command)}\n", *shown])
    return step


def failed(report: Path) -> set[tuple[str, str]]:
    """Return the failed checks: target and code."""
    cells = json.loads(report.read_text(encoding="utf-8"))["checks"]
    return {(cell["target"].rpartition("::")[2], cell["code"]) for cell in cells if cell["outcome"] == "failed"}


def main() -> int:
    """Run the steps, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two metrics and a few checks, in this environment")
    parser.add_argument("--keep", type=Path, help="a new folder for the project and its screens, which is kept")
    parser.add_argument("--python", help="the Python of an environment with these plugins, instead of a new one")
    given = parser.parse_args()
    plugins = [name for name in PLUGINS if not given.smoke or (find_spec(name) and name != "xdist")]
    metrics = ["Accuracy", "MeanAbsoluteError"] if given.smoke else list(METRICS)
    few = ["--evalcheck-effort=quick", "--evalcheck-device=cpu", f"--evalcheck-select={','.join(FEW)}"]
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name) / "project"
        python = given.python or (sys.executable if given.smoke else environment(Path(name) / "environment", plugins))
        project(folder, metrics, plugins)
        report = folder / "report.json"
        run = (python, "-m", "pytest", "--evalcheck", *(few if given.smoke else []))
        targets = folder / "tests" / "evalcheck_metrics.py"
        steps = [call(folder, python, "-m", "pytest_evalcheck", "write", "evalkit.metrics", "-o", str(targets))]
        (folder / "tests" / "evalcheck_models.py").write_text(TARGETS.lstrip(), encoding="utf-8")
        steps.append(call(folder, *run, f"--evalcheck-report=json={report}"))
        found = failed(report)
        steps.append(call(folder, *run, "--evalcheck-known=accept"))
        steps.append(call(folder, *run))
        known = (folder / "evalcheck-known.toml").read_text(encoding="utf-8").count("\n[[")
        inferred = len(targets.read_text(encoding="utf-8").splitlines())
    wrong = {(target, code) for target, codes in WRONG.items() for code in codes}
    if given.smoke:
        wrong = {(target, code) for target, code in wrong if code in FEW}
    return summary(steps, found, wrong, known, inferred)


def summary(
    steps: list[Step], found: set[tuple[str, str]], wrong: set[tuple[str, str]], known: int, inferred: int
) -> int:
    """Print the figures; return 1 where one is not as it must be."""
    first = steps[0].seconds + (steps[1].first_failure or steps[1].seconds)
    whole = sum(step.seconds for step in steps)
    lines = len(TARGETS.strip().splitlines())
    print(f"{'step':<10} {'seconds':>8} {'exit code':>10}")
    for title, step in zip(("write", "run", "accept", "strict"), steps, strict=True):
        print(f"{title:<10} {step.seconds:8.0f} {step.code:10}")
    print(f"first true failure: {first / 60:.1f} minutes, 2 commands, {lines} lines by hand")
    print(f"green strict run:   {whole / 60:.1f} minutes, {len(steps)} commands, {lines} lines by hand")
    print(f"lines that `write` wrote: {inferred}; known failures in the baseline: {known}")
    missed, alarms = wrong - found, found - wrong
    codes = [step.code for step in steps]
    for problem, what in (("wrong and passed", missed), ("right and failed", alarms)):
        if what:
            print(f"{problem}: {', '.join(f'{code} of {target}' for target, code in sorted(what))}")
    if codes != [0, 1, 0, 0]:
        print(f"exit codes {codes}; expected [0, 1, 0, 0]")
    return int(bool(missed or alarms) or codes != [0, 1, 0, 0])


if __name__ == "__main__":
    sys.exit(main())
