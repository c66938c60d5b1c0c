"""`--evalcheck-scripts` on a library whose faults an environment variable mends.

A script must exit with 1 while the fault is there and with 0 once the library is mended: one that compares what the
check itself has written would exit with 1 for ever.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from mended_library import made_project, require_script, require_tests
from sampling import ALL_CASES
from target_files import BROKEN, HEADER

from pytest_evalcheck.testing import Project

LIBRARY = '''
"""A library that knows nothing of the suite. MENDED=1 takes its faults out."""
import os
from dataclasses import dataclass

import numpy
import torch

MENDED = bool(os.environ.get("MENDED"))


class Mean:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count, self.cache = torch.zeros(()), 0, None

    def update(self, values):
        self.total, self.count, self.cache = self.total + values.sum(), self.count + len(values), None

    def compute(self):
        return self.total / max(self.count, 1)


class MeanOfMeans(Mean):
    def update(self, values):
        super().update(values if MENDED else values.mean().reshape(1))


class HandsOutItsCache(Mean):
    def compute(self):
        if self.cache is None:
            self.cache = super().compute()
        return self.cache.clone() if MENDED else self.cache


class ComputesUnderInference(HandsOutItsCache):
    @torch.inference_mode()
    def compute(self):
        return super().compute()


class Counts:
    def __init__(self):
        self.table = numpy.zeros(2, dtype=numpy.int64)

    def update(self, values):
        self.table[0] += len(values)

    def compute(self):
        return self.table.copy() if MENDED else self.table


class KeepsReferences(Mean):
    def reset(self):
        super().reset()
        self.kept = []

    def update(self, values):
        self.kept.append(values.clone() if MENDED else values)

    def compute(self):
        return torch.cat(self.kept).mean() if self.kept else torch.zeros(())


class ClampsItsInputs(Mean):
    def update(self, values):
        super().update(values.clamp(min=0) if MENDED else values.clamp_(min=0))


class ResetsHalf(Mean):
    def reset(self):
        super().reset() if MENDED or not hasattr(self, "total") else setattr(self, "total", torch.zeros(()))


class DropsNan(Mean):
    def update(self, values):
        super().update(values if MENDED else values.nan_to_num(0.0, 0.0, 0.0))


@dataclass
class Summary:
    mean: torch.Tensor
    count: int


class GivesASummary(MeanOfMeans):
    def compute(self):
        return Summary(super().compute(), 1)


def require_kind(kind):
    if kind not in ("mean", "sum"):
        raise ValueError(f"kind must be 'mean' or 'sum', got {kind!r}")


class TakesAnyKind(Mean):
    def __init__(self, kind="mean"):
        if MENDED:
            require_kind(kind)
        super().__init__()
        self.kind = kind

    def compute(self):
        return self.total if self.kind == "sum" else super().compute()


class Scaled(Mean):
    def __init__(self, scale, kind):
        require_kind(kind)
        super().__init__()
        self.scale, self.kind = scale, kind

    def compute(self):
        value = self.total if self.kind == "sum" else super().compute()
        return value * self.scale if MENDED or self.kind == "sum" else value


class OneAtATime:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def reset(self):
        self.total, self.count = 0.0, 0 if MENDED else self.count

    def update(self, value):
        self.total, self.count = self.total + value, self.count + 1

    def compute(self):
        return self.total / max(self.count, 1)


class EndsWithTheShorterList:
    def __init__(self):
        self.reset()

    def reset(self):
        self.words, self.count = 0, 0

    def update(self, preds, target):
        if MENDED and len(preds) != len(target):
            raise ValueError(f"{len(preds)} predictions of {len(target)} references")
        for prediction, reference in zip(preds, target):
            self.words, self.count = self.words + len({*prediction.split()} & {*reference.split()}), self.count + 1

    def compute(self):
        return self.words / max(self.count, 1)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)

    def forward(self, features, labels):
        return {"logits": self.layer(features)}


class PopsLabels(Classifier):
    def score(self, batch):
        return {**self(**batch), "labels": batch["labels"] if MENDED else batch.pop("labels")}


class KeepsLabels(Classifier):
    def score(self, batch):
        self.labels = batch["labels"]
        return self(**batch)

    def feed(self, batch, outputs, metric):
        metric.update(outputs["logits"], batch["labels"] if MENDED else self.labels)


class HasNoLabels(KeepsLabels):
    labels = None

    def score(self, batch):
        return self(**batch)


class MeanLogit:
    def __init__(self):
        self.total = self.count = 0

    def update(self, logits, labels):
        self.total, self.count = self.total + logits.gather(1, labels.view(-1, 1)).sum(), self.count + len(labels)

    def compute(self):
        return self.total / self.count
'''
TARGETS = """
import dataclasses
import torch
import library
import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es
from hypothesis import strategies as st

def metric(name, inputs=es.values(), **options):
    def made(device):
        return ec.Metric.of(getattr(library, name)(), **options)
    made.__name__ = name
    return ec.metric(inputs=inputs)(made)

mean_of_means = metric("MeanOfMeans")
hands_out_its_cache = metric("HandsOutItsCache")
computes_under_inference = metric("ComputesUnderInference")
keeps_references = metric("KeepsReferences")
clamps_its_inputs = metric("ClampsItsInputs")
counts = metric("Counts")
resets_half = metric("ResetsHalf")
drops_nan = metric("DropsNan")
gives_a_summary = metric("GivesASummary")
one_at_a_time = metric("OneAtATime", one_sample=True)
ends_with_the_shorter_list = metric("EndsWithTheShorterList", es.text_pairs())
mean = metric("Mean")

@ec.metric(inputs=es.values())
def of_a_changed_record(device):
    return dataclasses.replace(adapters.record("metric", library.MeanOfMeans()), weights="")

@ec.metric(inputs=es.values(), options={"kind": ("mean", "sum")})
def takes_any_kind(device, kind="mean"):
    return library.TakesAnyKind(kind)

@ec.metric(inputs=es.values(), options={"scale": (1.0, 100.0), "kind": ("mean", "sum")})
def scaled(device, scale=1.0, kind="mean"):
    return library.Scaled(scale, kind)

rows = es.samples(
    st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 2)),
    collate=lambda samples: {
        "features": torch.tensor([[float(a), float(b)] for a, b, _ in samples]).reshape(-1, 2),
        "labels": torch.tensor([label for *_, label in samples], dtype=torch.long),
    },
    name="rows",
)

@ec.wrapper(inputs=rows)
def pops_labels(device):
    model = library.PopsLabels()
    return ec.Wrapper(forward=model.score, model=model)

def fed(name):
    def made(device):
        model = getattr(library, name)()
        return ec.Wrapper(forward=model.score, update=model.feed, metrics=lambda: {"logit": library.MeanLogit()}, model=model)
    made.__name__ = name
    return ec.wrapper(inputs=rows)(made)

keeps_labels = fed("KeepsLabels")
has_no_labels = fed("HasNoLabels")
"""
EVERY = {
    "ec201_mean_of_means": "close(",
    "ec201_gives_a_summary": ".mean",
    "ec201_of_a_changed_record": "close(",
    "ec204_one_at_a_time": "reset()",
    "ec227_takes_any_kind": "has_error(outcome)",
    "ec228_scaled": "Scaled(",
    "ec241_ends_with_the_shorter_list": "isinstance(outcome, Exception) or not are_same(",
    "ec219_hands_out_its_cache": "copy_(",
    "ec219_computes_under_inference": "with torch.inference_mode():\n        value.copy_(",
    "ec219_counts": "copyto(",
    "ec207_keeps_references": "copy_(",
    "ec206_clamps_its_inputs": "torch.tensor(",
    "ec204_resets_half": "reset()",
    "ec216_drops_nan": "visible(",
    "ec101_pops_labels": "list(",
    "ec103_has_no_labels": ".feed(",
    "ec104_keeps_labels": "no error",
}
"""Text in each script."""
RARE = (
    *("gives_a_summary", "scaled", "counts", "keeps_references", "resets_half", "has_no_labels"),
    *("of_a_changed_record", "computes_under_inference", "drops_nan", "keeps_labels"),
)
"""Each costs two processes more: only EVALCHECK_ALL_TESTS tries them, as `.ci/run full` does."""
LEFT_OUT = () if ALL_CASES else RARE
EXPECTED = {name: words for name, words in EVERY.items() if not name.endswith(LEFT_OUT)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run with both options."""
    codes = sorted({name.partition("_")[0].upper() for name in EXPECTED})
    kept = [f"-k={' and '.join(f'not {name}' for name in LEFT_OUT)}"] if LEFT_OUT else []
    select = f"--evalcheck-select={','.join(codes)}"
    return made_project(tmp_path_factory, "scripts", LIBRARY, TARGETS, select, *kept)


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_script_shows_the_fault_and_ends_well_without_it(made: Path, name: str) -> None:
    source, printed = require_script(made, name, EXPECTED[name])
    assert "expected" in printed
    issue = (made / "scripts" / f"{name}.md").read_text(encoding="utf-8")
    assert source.strip() in issue
    assert printed.strip() in issue


def test_the_tests_fail_until_the_library_is_mended(made: Path) -> None:
    require_tests(made, len(EXPECTED))


def test_the_screen_counts_them(made: Path) -> None:
    screen = (made / "screen.txt").read_text(encoding="utf-8")
    assert f"scripts: {len(EXPECTED)} of {len(EXPECTED)} root causes in scripts" in screen
    assert f"tests: {len(EXPECTED)} of {len(EXPECTED)} root causes appended to test_regressions.py" in screen


def test_a_test_says_what_it_is_about_and_a_script_has_no_word_of_the_suite(made: Path) -> None:
    tests = (made / "test_regressions.py").read_text(encoding="utf-8")
    assert re.search(r"EC201 of \S+::mean_of_means$", tests, re.M)
    assert "Exit code" not in tests
    source, issue = ((made / "scripts" / f"ec201_mean_of_means.{end}").read_text("utf-8") for end in ("py", "md"))
    for text in (source, issue):
        assert not re.search(r"EC\d|evalcheck", text)
        assert "\n\n\n\n" not in text
    assert issue.startswith("# MeanOfMeans: the value of the stream in these batches: ")


@pytest.mark.parametrize("name", ["ec201_mean_of_means.py", "ec201_mean_of_means.md"])
@pytest.mark.slow(every=2)
def test_a_file_of_others_stays_and_is_not_counted(project: Project, name: str) -> None:
    project.write(HEADER, BROKEN, header="")
    (project.path / "scripts").mkdir()
    (project.path / "scripts" / name).write_text("mine", encoding="utf-8")
    options = ("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-scripts=scripts")
    project.run(*options, code=1).shows(f"{name} is there, and no script of this suite", "scripts: 0 of 1 root cause")
    assert [path.name for path in (project.path / "scripts").iterdir()] == [name]
    assert (project.path / "scripts" / name).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.slow(every=2)
def test_a_file_that_an_editor_of_windows_wrote_is_appended_to(project: Project, mark: bytes) -> None:
    project.write(HEADER, BROKEN, header="")
    path = project.path / "test_it.py"
    before = mark + b"def test_one():\r\n    pass\r\n"
    path.write_bytes(before)
    options = ("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-scripts=test_it.py")
    project.run(*options, code=1).shows("tests: 1 of 1 root cause appended to test_it.py")
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\r\n") == after.count(b"\n") > 10
    compile(after, "test_it.py", "exec")


def test_tests_of_two_targets_of_one_name_are_both_written(project: Project) -> None:
    for folder in ("one", "two"):
        (project.path / folder).mkdir()
        project.write(HEADER, BROKEN, name=f"{folder}/evalcheck_{folder}.py", header="")
    options = ("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-scripts=test_it.py")
    project.run(*options, "one", code=1).shows("tests: 1 of 1 root cause appended to test_it.py")
    project.run(*options, "two", code=1).shows("tests: 1 of 1 root cause appended to test_it.py")
    text = (project.path / "test_it.py").read_text(encoding="utf-8")
    assert re.findall(r"^def (\w+)", text, re.M) == ["test_ec201_mean_of_means", "test_ec201_mean_of_means_2"]
    project.run(*options, "two", code=1).shows("tests: 0 of 1 root cause appended to test_it.py; 1 were there")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--evalcheck-scripts=evalcheck_example.py/scripts"], "cannot hold scripts: Not a directory"),
        (["--evalcheck-scripts=tests.txt"], "expected a Python file, such as test_evalcheck.py"),
        (["--evalcheck-scripts=broken.py"], "it is not Python source"),
        (["--evalcheck-scripts=nowhere/test_it.py"], "there is no folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_runs(project: Project, options: list[str], words: str) -> None:
    project.write("")
    (project.path / "broken.py").write_text("def (", encoding="utf-8")
    project.run(*options, code=4).shows(words)


def test_without_evalcheck_the_options_are_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--evalcheck-scripts=scripts"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "--evalcheck-scripts does nothing without --evalcheck" in ended.stderr + ended.stdout
