"""The first loop of a user: a model that answers nothing rightly, and data that is read in another way than it is."""

from __future__ import annotations

import pytest

from pytest_evalcheck.testing import Project

CPU = "--evalcheck-device=cpu"
HEADER = """
import pytest_evalcheck as ec
import torch
from hypothesis import strategies as st
from pytest_evalcheck import strategies as es
"""
EXACT_MATCH = """
DOCUMENTS = [{{"prompt": prompt, "answer": answer}} for prompt, answer in {documents}]

class Model(torch.nn.Module):
    def forward(self, prompts):
        return [prompt[::-1] for prompt in prompts]

def collate(rows):
    return {{name: [row[name] for row in rows] for name in ("prompt", "answer")}}

@ec.loop(inputs=es.samples(st.sampled_from(DOCUMENTS), collate=collate, name="questions"))
def exact_match():
    model = Model()

    def run(data, batch_size=2):
        right = 0
        for batch in data.loader(batch_size):
            right += sum(a == b for a, b in zip(model(batch["prompt"]), batch["answer"], strict=True))
        return {{"exact_match": right / max(len(data), 1)}}

    return ec.Loop(evaluate=run, model=model)
"""
UNKNOWN = [("ab", "Paris"), ("cd", "Rome"), ("ef", "Oslo")]
KNOWN = [*UNKNOWN, ("gh", "hg"), ("ij", "ji")]


def test_a_loop_of_which_no_answer_is_right_says_once_and_first_that_nothing_was_tested(project: Project) -> None:
    project.write(HEADER, EXACT_MATCH.format(documents=UNKNOWN))
    run = project.run(CPU, code=1)
    (failed,) = [cell for cell in run.report.cells if cell.outcome == "failed"]
    assert failed.code == "EC512"
    assert failed.reason == "nothing was tested: other samples got the same numbers"
    assert failed.failure is not None
    assert "no answer can be right" in failed.failure.usual_cause
    assert "expect its own answers" in failed.failure.fix
    run.lacks("which tests nothing")  # the last line says the same of a target whose control was not tried
    assert run.text.splitlines()[-1] == "evalcheck: not ok: 1 failed"


def test_with_some_answers_that_the_model_gives_the_same_loop_passes(project: Project) -> None:
    """This is what the fix says."""
    project.write(HEADER, EXACT_MATCH.format(documents=KNOWN))
    project.run(CPU, code=0)


READS_MAPPINGS = """
@ec.loop(inputs=es.samples(st.tuples(st.integers(0, 9)), collate=lambda rows: {{"x": torch.tensor(rows)}}, name="rows"))
def reads_mappings():
    def run(data, batch_size=2):
        rows = {read}
        return {{"mean": sum(row["x"] for row in rows) / max(len(rows), 1)}}

    return ec.Loop(evaluate=run)
"""


@pytest.mark.parametrize(
    ("read", "error"),
    [
        ("[dict(row) for row in data]", "TypeError"),
        ("[row['x'] and row for row in data]", "TypeError"),
        ("[row.copy() for row in data.loader(batch_size) if row.x]", "AttributeError"),
        ("list(__import__('packaging.utils').utils.parse_wheel_filename(data[0]))", "AttributeError"),
    ],
)
def test_what_data_yields_is_said_where_reading_it_fails(project: Project, read: str, error: str) -> None:
    project.write(HEADER, READS_MAPPINGS.format(read=read))
    run = project.run(CPU, code=1)
    run.shows(
        error,
        "`for sample in data` gives the samples that the inputs draw, here tuple such as (",
        "`data.loader(2)` gives batches of the collate: {x: int64[2, 1]}",
    )
    number = (project.path / "evalcheck_example.py").read_text().splitlines().index(f"        rows = {read}") + 1
    run.shows(f"evalcheck_example.py:{number}")


def test_a_correct_loop_says_nothing_of_its_data(project: Project) -> None:
    project.write(HEADER, READS_MAPPINGS.format(read="[{'x': row[0]} for row in data]"))
    project.run(CPU, code=0).lacks("for sample in data")
