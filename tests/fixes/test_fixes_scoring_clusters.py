from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import scoring_cases as cases

from pytest_evalcheck.fixes.scoring import score_documents

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the clusters are not ours


@pytest.fixture(scope="module")
def dask_client():
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    # One try a task, so that a document that ends its worker is told of after two workers, not after eight.
    with (
        dask.config.set(
            {"distributed.scheduler.allowed-failures": 0, "distributed.logging": {"distributed": "critical"}}
        ),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def dask(dask_client):
    try:
        dask_client.wait_for_workers(2, timeout=60)  # the test before may have killed one
    except TimeoutError:  # on a busy machine a worker may be given up before it has started
        dask_client.cluster.scale(0)
        while dask_client.cluster.workers:  # they are closed later, and would be closed in the middle of the test
            time.sleep(0.1)
        dask_client.cluster.scale(2)
        dask_client.wait_for_workers(2, timeout=240)
    return dask_client


def test_a_cluster_gives_what_one_process_gives(dask):
    documents = cases.numbered(60)
    for score in (cases.mixed, cases.drawing):
        away = score_documents(score, documents, backend="dask", errors="record")
        assert repr(list(away)) == repr(list(score_documents(score, documents, backend="serial", errors="record")))
        assert (away.report.backend, away.report.n_jobs) == ("dask", 2)


def test_a_worker_that_is_killed_loses_no_document(dask, tmp_path):
    documents = cases.numbered(40)
    documents[7]["mark"] = str(tmp_path / "killed")
    assert score_documents(cases.killed_once, documents, backend="dask", chunk=4) == list(range(40))
    assert (tmp_path / "killed").exists()


def test_a_document_that_ends_its_worker_is_named(dask):
    documents = cases.numbered(20)
    documents[9]["leave"] = True
    scores = score_documents(cases.leaving, documents, backend="dask", errors="record", chunk=3)
    assert [*scores[:9], *scores[10:]] == [*range(9), *range(10, 20)]
    assert [(error.index, error.kind) for error in scores.errors] == [(9, "died")]


@pytest.mark.slow
def test_on_ray():
    """The same on Ray, by ``scoring_on_ray.py`` in a process of its own: where Ray does not come up, it ends its process."""
    pytest.importorskip("ray")
    command = [sys.executable, str(Path(__file__).with_name("scoring_on_ray.py"))]
    for _ in range(3):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
        if "Ray is up" in run.stdout:
            break
    assert run.returncode == 0, run.stdout
    assert sum(line.endswith(" holds") for line in run.stdout.splitlines()) == 3


@pytest.mark.slow
def test_what_joblib_was_told_is_used(dask):
    import joblib

    with joblib.parallel_config("dask"):
        assert score_documents(cases.doubled, cases.numbered(5)).report.backend == "dask"
        assert score_documents(cases.doubled, cases.numbered(5), backend="joblib").report.backend == "dask"


def test_a_time_limit_is_refused_on_dask(dask):
    with pytest.raises(ValueError, match="in the threads of Dask's workers"):
        score_documents(cases.doubled, cases.numbered(5), backend="dask", timeout=1)
