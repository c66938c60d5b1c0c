"""Execute the steps of the recipes in a copy of the small project: python recipes/execute.py

What a service does between the steps is done here: jobs share one folder, as if artifacts were up and down again, and
the badge is pushed to a bare repository. A virtual environment of its own sees the installed packages and has the wheel
of this repository; what a step installs goes there.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent


def main() -> None:
    """Every recipe in turn; the first step that fails ends the run."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        environment = _environment(work)
        for recipe in (github, gitlab, hook, tox, nox):
            project = _project(work / recipe.__name__, environment)
            print(f"=== {recipe.__name__}", flush=True)
            recipe(project, environment)


def github(project: Path, environment: dict[str, str]) -> None:
    """The jobs of the workflow, in their order."""
    jobs = yaml.safe_load((FOLDER / "github.yml").read_text(encoding="utf-8"))["jobs"]
    summary = project / "summary.md"
    environment = {**environment, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_SHA": "0" * 40}
    comments = project.parent / "comments"
    environment |= {"GITHUB_REPOSITORY": "owner/repository", "NUMBER": "7", "COMMENTS": str(comments)}
    for number in jobs["shard"]["strategy"]["matrix"]["shard"]:
        for step in _steps(jobs["shard"]):
            given = {name: str(value).replace("${{ matrix.shard }}", str(number)) for name, value in step[1].items()}
            _run(step[0], project, {**environment, **given})
    again = _steps(jobs["report"])[-1]  # of the next push: it replaces the comment
    for text, given in (*_steps(jobs["report"]), again, *_steps(jobs["badge"])):
        _run(text, project, {**given, **environment})
    (comment,) = comments.iterdir()
    assert comment.read_text(encoding="utf-8").startswith("<!-- pytest-evalcheck -->\n## evalcheck: nothing failed")
    _require_views(project)
    assert "## evalcheck: nothing failed" in summary.read_text(encoding="utf-8")
    _run("git fetch -q origin badges && git show FETCH_HEAD:evalcheck.json", project, environment)


def gitlab(project: Path, environment: dict[str, str]) -> None:
    """The scripts of the jobs, with GitLab's variables of parallel jobs."""
    jobs = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text(encoding="utf-8"))
    total = jobs["evalcheck"]["parallel"]
    for number in range(1, total + 1):
        variables = {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(total)}
        for text in jobs["evalcheck"]["script"]:
            _run(text, project, {**environment, **variables})
        assert (project / "reports" / f"junit-{number}.xml").exists()
    for text in jobs["evalcheck-report"]["script"]:
        _run(text, project, environment)
    _require_views(project)


def hook(project: Path, environment: dict[str, str]) -> None:
    """The hook of pre-commit: a commit that changes nothing that a target reaches runs nothing; a fault is red."""
    (made,) = yaml.safe_load((FOLDER / "pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    _run("python -m pip install -q -e .", project, environment)
    # What an installation and a run leave is no change.
    for _ in range(2):
        _run(f"{made['entry']} | tee ../hook.log | tail -n 1", project, environment)
        assert "nothing changed since HEAD" in (project.parent / "hook.log").read_text(encoding="utf-8")
    source = project / "src" / "smallmetrics" / "__init__.py"
    source.write_text(source.read_text(encoding="utf-8").replace("self.count += len(target)", "self.count += 1"))
    _run(made["entry"], project, environment, code=1)


def tox(project: Path, environment: dict[str, str]) -> None:
    """The command of the environment of tox."""
    config = configparser.ConfigParser()
    config.read(FOLDER / "tox.ini")
    _run("python -m pip install -q -e '.[test]'", project, environment)
    _run(config["testenv:evalcheck"]["commands"].replace("{posargs}", ""), project, environment)


def nox(project: Path, environment: dict[str, str]) -> None:
    """The session of nox, in the environment that is there."""
    shutil.copy(FOLDER / "noxfile.py", project)
    _run("python -m pip install -q -e '.[test]'", project, environment)
    _run("python -m nox --force-venv-backend none --no-install -s evalcheck", project, environment)


def _environment(work: Path) -> dict[str, str]:
    """Variables under which ``python`` and ``pytest`` are those of a new virtual environment with the wheel."""
    venv, wheels = work / "venv", work / "wheels"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (own,) = (venv / "lib").glob("python*/site-packages")
    # A virtual environment that is made in another one would not see its packages.
    (own / "the_developers.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "--python", str(venv), "install", "--no-deps", "--force-reinstall", str(wheel)], check=True)
    gh = venv / "bin" / "gh"
    gh.write_text(_GH, encoding="utf-8")
    gh.chmod(0o755)
    scripts = {"pytest": "pytest", "nox": "nox"}
    for name, module in scripts.items():
        path = venv / "bin" / name
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec "{venv}/bin/python" -m {module} "$@"\n', encoding="utf-8")
            path.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}


_GH = """#!/bin/sh
# GitHub's comments of one pull request, as files.
mkdir -p "$COMMENTS"
case "$*" in
    "api --paginate repos/owner/repository/issues/7/comments --jq "*) ls "$COMMENTS" ;;
    "api --silent -X PATCH repos/owner/repository/issues/comments/1 -F body=@"*) cp "${7#body=@}" "$COMMENTS/1" ;;
    "api --silent repos/owner/repository/issues/7/comments -F body=@"*)
        [ -z "$(ls "$COMMENTS")" ] && cp "${5#body=@}" "$COMMENTS/1" ;;
    *) echo "unknown: $*"; exit 1 ;;
esac
"""
"""GitHub's command line, as much as the workflow calls of it."""


def _project(folder: Path, environment: dict[str, str]) -> Path:
    """A copy of the small project as a repository with a remote."""
    shutil.copytree(FOLDER / "project", folder)
    author = "git -c user.name=a -c user.email=a@example.org"
    remote = f"{folder}.git"
    text = f"git init -q -b main . && git add . && {author} commit -q -m one && git init -q --bare {remote}"
    _run(f"{text} && git remote add origin {remote}", folder, environment)
    return folder


def _steps(job: dict) -> list[tuple[str, dict[str, str]]]:
    return [(step["run"], step.get("env", {})) for step in job["steps"] if "run" in step]


def _run(text: str, folder: Path, environment: dict[str, str], code: int = 0) -> None:
    # The wheel is there: a step that installs this package by its name must not look for a release of it.
    text = re.sub(r"pip install (?=')", "pip install --no-deps -q ", text) if "'pytest-evalcheck" in text else text
    text = text.replace("pip install -e", "pip install --no-deps -q -e")
    print(f"$ {text.strip()}", flush=True)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment, check=False)
    if done.returncode != code:
        sys.exit(f"ended in {done.returncode}, expected {code}: {text}")


def _require_views(project: Path) -> None:
    badge = json.loads((project / "views" / "evalcheck-badge.json").read_text(encoding="utf-8"))
    assert badge["color"] == "brightgreen", badge
    (run,) = json.loads((project / "views" / "evalcheck.sarif").read_text(encoding="utf-8"))["runs"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
    assert places, "no known failure is shown"
    assert set(places) == {"tests/evalcheck_metrics.py"}, places
    assert (project / "views" / "evalcheck.html").stat().st_size > 10_000


if __name__ == "__main__":
    main()
