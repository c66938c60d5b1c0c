"""Scores of documents on Ray; ``test_fixes_scoring_clusters.py`` runs this file."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ray
import scoring_cases as cases

from pytest_evalcheck.fixes.scoring import score_documents


def a_cluster_gives_what_one_process_gives() -> None:
    documents = cases.numbered(60)
    away = score_documents(cases.drawing, documents, backend="ray", errors="record")
    assert repr(list(away)) == repr(list(score_documents(cases.drawing, documents, backend="serial", errors="record")))
    assert (away.report.backend, away.report.n_jobs) == ("ray", 2)


def a_worker_that_is_killed_loses_no_document() -> None:
    with tempfile.TemporaryDirectory() as folder:
        documents = cases.numbered(40)
        documents[7]["mark"] = f"{folder}/killed"
        assert score_documents(cases.killed_once, documents, backend="ray", chunk=4) == list(range(40))
        assert os.path.exists(f"{folder}/killed")


def a_time_limit_holds() -> None:
    documents = cases.numbered(10)
    documents[3]["hang"] = "sleep"
    scores = score_documents(cases.hanging, documents, backend="ray", errors="record", timeout=0.5)
    assert [(error.index, error.kind) for error in scores.errors] == [(3, "timeout")]


if __name__ == "__main__":
    path = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    # "local": otherwise it joins a cluster that somebody has started on this machine.
    ray.init(
        "local", num_cpus=2, include_dashboard=False, logging_level="CRITICAL", log_to_driver=False, runtime_env=path
    )
    print("Ray is up", flush=True)
    for promise in (
        a_cluster_gives_what_one_process_gives,
        a_worker_that_is_killed_loses_no_document,
        a_time_limit_holds,
    ):
        promise()
        print(promise.__name__, "holds", flush=True)
    ray.shutdown()
