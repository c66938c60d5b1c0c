"""The pytest plugin: options, and the hooks that are registered when ``--evalcheck`` asks for them.

Without ``--evalcheck`` nothing is imported but this module.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_evalcheck.devices import Ledger
    from pytest_evalcheck.guard import Guard
    from pytest_evalcheck.integration.ordinary_tests.batchings import Batchings
    from pytest_evalcheck.variants.runs import Variants

_RENAMED = {
    "--evalcheck-isolate": "--evalcheck-run=isolated",
    "--evalcheck-in-process": "--evalcheck-run=in-process",
    "--evalcheck-on": "--evalcheck-run=dask or --evalcheck-run=ray, with :ADDRESS for a cluster that runs already",
    "--evalcheck-workers": "--evalcheck-run=dask:workers=N or --evalcheck-run=ray:workers=N",
    "--evalcheck-fresh": "--evalcheck-since= without a revision",
    "--evalcheck-durations": "--evalcheck-shard=K/N:PATH",
    "--evalcheck-accept": "--evalcheck-known=accept",
    "--evalcheck-prune": "--evalcheck-known=prune",
    "--evalcheck-write-tests": "--evalcheck-scripts=FILE.py",
    "--evalcheck-learn-exclude": "--evalcheck-learn='PACKAGES,!PATTERN'",
    "--evalcheck-version": "python -m pytest_evalcheck versions",
}
"""Options that have a new form."""
_MARKERS = (
    "evalcheck(target, check, code): a check of pytest-evalcheck",
    *(f"{kind}: runs on this kind of device" for kind in ("cpu", "cuda", "mps")),
    "simulated: runs on a simulated accelerator",
    "distributed: starts real processes; runs when -m names it",
    "sweep: checks a whole library; runs when -m names it",
    "full: not part of the short run; runs when -m names it, or the command line names its file",
)
"""Registered in every run: files of targets and of tests that have them are read without ``--evalcheck``, too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the ini twins of those that last."""
    group = parser.getgroup("evalcheck", "evalcheck")
    group.addoption("--evalcheck", action="store_true", help="run the evaluation checks instead of ordinary tests")
    group.addoption(
        "--evalcheck-target",
        action="append",
        default=[],
        metavar="MODULE[:NAME]",
        help="infer targets for the metrics of a module and run them, e.g. torchmetrics.regression, pkg.mod:TopK(k=3)",
    )
    group.addoption(
        "--evalcheck-learn",
        action="append",
        default=[],
        nargs="?",
        const="",
        metavar="PACKAGES",
        help="run ordinary tests, watch their calls into these packages, those of the project where none is named, and "
        "write evalcheck-corpus/PACKAGE.json, from which targets are made; of !package.clients*, !*:login and the "
        "arguments !password nothing is stored",
    )
    group.addoption("--evalcheck-with-tests", action="store_true", help="also run ordinary tests")
    group.addoption(
        "--evalcheck-select",
        default=None,
        metavar="CHECKS",
        help="run only these checks: codes, names or prefixes, separated by commas",
    )
    group.addoption("--evalcheck-ignore", default=None, metavar="CHECKS", help="run all checks except these")
    group.addoption(
        "--evalcheck-effort",
        default=None,
        metavar="quick|normal|thorough",
        help="number of cases per check (default: normal)",
    )
    group.addoption(
        "--evalcheck-device",
        default=None,
        metavar="DEVICES",
        help="cpu, cuda, cuda:1, mps, sim:cuda, sim:mps or auto, separated by commas (default: auto)",
    )
    group.addoption(
        "--evalcheck-optional",
        default=None,
        metavar="NAMES",
        help="what may be missing: distributions, kinds of device, or skipped; anything else that is not run fails",
    )
    group.addoption("--evalcheck-timeout", metavar="SECONDS", help="time limit per check (default: 60, more if slow)")
    group.addoption(
        "--evalcheck-run",
        default=None,
        metavar="WAY",
        help="where checks run: supervised (forked processes), isolated (a new process per check), in-process, "
        "dask[:ADDRESS] or ray[:ADDRESS]; without an address, a local cluster, with N workers for dask:workers=N",
    )
    group.addoption("--evalcheck-replay", default=None, metavar="BLOB", help="try only the case of a printed failure")
    group.addoption(
        "--evalcheck-resume",
        default=None,
        metavar="PATH",
        help="continue a run from its file of --evalcheck-report=jsonl=PATH; checks in it do not run again",
    )
    group.addoption(
        "--evalcheck-shard",
        default=None,
        metavar="K/N[:PATH]",
        help="run the targets of one part of N, split by the durations in an earlier report; "
        "python -m pytest_evalcheck merge joins the reports",
    )
    group.addoption(
        "--evalcheck-since",
        default=None,
        metavar="REV",
        help="run only checks affected by changes since a git revision; an empty value runs all checks",
    )
    group.addoption(
        "--evalcheck-known",
        default=None,
        metavar="accept,prune",
        help="update the baseline, evalcheck-known.toml: accept adds failures, prune removes fixed or deleted entries",
    )
    group.addoption(
        "--evalcheck-scripts",
        action="append",
        default=[],
        metavar="DIR|FILE.py",
        help="write a script and the text of an issue for every root cause into a folder, or append a plain test for "
        "each to a file; --runxfail includes known failures",
    )
    group.addoption(
        "--evalcheck-fail-on",
        default=None,
        metavar="number|error|cost",
        help="least severity that fails the run: another number, an error, or a cost such as memory (default: cost; "
        "error for inferred targets)",
    )
    group.addoption(
        "--evalcheck-patched",
        action="store_true",
        help="apply all patches of pytest_evalcheck.fixes.patched; failures that they mend are not known any more",
    )
    group.addoption(
        "--evalcheck-strict-versions",
        action="store_true",
        help="fail where an upstream fault shows in a release of its library that it is not verified for",
    )
    group.addoption("--evalcheck-explain", default=None, metavar="CODE", help="print the page of a check, and exit")
    group.addoption(
        "--evalcheck-list",
        nargs="?",
        const="",
        default=None,
        metavar="KINDS,json",
        help="list the checks of all kinds or of the given kinds, and exit; --evalcheck-select selects checks",
    )
    group.addoption(
        "--evalcheck-report",
        action="append",
        default=[],
        metavar="FORMAT=PATH",
        help="write a report: json, html, github, comment, annotations, sarif, badge, or jsonl (as checks end)",
    )
    parser.addini("evalcheck_files", "name patterns of files of targets", type="args", default=["evalcheck_*.py"])
    parser.addini("evalcheck_select", "default of --evalcheck-select", default="")
    parser.addini("evalcheck_ignore", "default of --evalcheck-ignore", default="")
    parser.addini("evalcheck_effort", "default of --evalcheck-effort", default="normal")
    parser.addini("evalcheck_device", "default of --evalcheck-device", default="auto")
    parser.addini("evalcheck_optional", "default of --evalcheck-optional", default="")
    parser.addini(
        "evalcheck_durations", "default PATH of --evalcheck-shard, from the folder of the ini file", default=""
    )
    parser.addini("evalcheck_known", "the baseline, from the folder of the ini file", default="evalcheck-known.toml")
    parser.addini("evalcheck_since", "default of --evalcheck-since", default="")
    parser.addini(
        "evalcheck_irrelevant",
        "files that change no verdict, for --evalcheck-since: patterns from the top of the repository, as in :(glob)",
        type="args",
        default=["*.md", "*.rst", "LICENSE*", ".gitignore", "docs/**/*.md", "docs/**/*.rst"],
    )
    parser.addini(
        "evalcheck_registry",
        "further upstream faults: a folder of JSON files, from the folder of the ini file, or an importable package",
        default="",
    )
    parser.addini("evalcheck_fail_on", "default of --evalcheck-fail-on", default="")
    parser.addini("evalcheck_timeout", "default of --evalcheck-timeout", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Say which plugin has ``--simulate``, where it is not loaded."""
    given = next((argument for argument in args if argument.partition("=")[0] == "--simulate"), None)
    if given is not None and not hasattr(early_config.known_args_namespace, "simulate"):
        raise pytest.UsageError(f"{given} needs its plugin: pytest -p pytest_evalcheck.devices {given}")


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_load_initial_conftests")
def pytest_evalcheck_options(parser: pytest.Parser, args: list[str]) -> Generator[None, Any, Any]:
    """Name the nearest option where one of ours is misspelt; conftest files, which may add options, are loaded."""
    result = yield
    ours = [argument for argument in args if argument.startswith("--evalcheck")]
    if ours:
        unknown = parser.parse_known_and_unknown_args(args)[1]
        names = [name for option in parser.getgroup("evalcheck").options for name in option.names()]
        for argument in (argument for argument in ours if argument in unknown):
            from pytest_evalcheck.errors import nearest

            name = argument.partition("=")[0]
            if name in _RENAMED:
                raise pytest.UsageError(f"{name} has a new form: {_RENAMED[name]}")
            raise pytest.UsageError(f"there is no option {name}{nearest(name, names)}; pytest --help lists them")
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer ``--evalcheck-explain`` and ``--evalcheck-list`` instead of running tests."""
    if config.getoption("evalcheck") and getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "1000000"  # of xdist: each cell may cost its worker
    code, listed = config.getoption("evalcheck_explain"), config.getoption("evalcheck_list")
    if not code and listed is None:
        return None
    from pytest_evalcheck.errors import UsageError
    from pytest_evalcheck.integration.screen.listing import show
    from pytest_evalcheck.kinds.registry import explanation

    try:
        if code:
            print(explanation(code))
        else:
            show(config, listed)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    return 0


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_cmdline_main")
def pytest_evalcheck_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Infer targets, and end a run under ``--evalcheck`` so that no other plugin changes how it ends."""
    learned = (config.rootpath / "evalcheck-corpus").is_dir() and config.getoption("evalcheck")
    if config.getoption("evalcheck_target") or learned:
        from pytest_evalcheck.integration.choosing.inferring import add_learned, infer_targets

        add_learned(config)
        if config.getoption("evalcheck_target"):
            infer_targets(config)
    lists = config.getoption("evalcheck_explain") or config.getoption("evalcheck_list") is not None
    if lists or not config.getoption("evalcheck") or hasattr(config, "workerinput"):
        return (yield)
    from pytest_evalcheck.integration.process.exit_guard import conclude

    try:
        code = yield
    except BaseException as error:
        usage = isinstance(error, pytest.UsageError)
        conclude(config, pytest.ExitCode.USAGE_ERROR if usage else pytest.ExitCode.INTERNAL_ERROR)
        raise
    return conclude(config, code)


def pytest_configure(config: pytest.Config) -> None:
    """Bring in the suite when it is asked for."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    if config.getoption("evalcheck_learn"):
        if config.getoption("evalcheck"):
            raise pytest.UsageError("--evalcheck-learn watches ordinary tests: leave --evalcheck out")
        from pytest_evalcheck.integration.learning.from_tests import start

        start(config)
    if config.getoption("evalcheck"):
        from pytest_evalcheck.integration.choosing import resuming
        from pytest_evalcheck.integration.process.run_option import CLUSTERS
        from pytest_evalcheck.integration.process.supervision import Supervision
        from pytest_evalcheck.integration.screen.progress import Progress
        from pytest_evalcheck.integration.screen.short_summary import ShortSummary
        from pytest_evalcheck.integration.session import EvalcheckSession

        if config.getoption("evalcheck_patched"):
            from pytest_evalcheck.fixes.patches.applying import follow

            follow()
        session = EvalcheckSession.of(config)
        config.pluginmanager.register(Supervision(session), "pytest_evalcheck_supervision")
        if not session.works:
            config.pluginmanager.register(Progress(config, session.meanwhile), "pytest_evalcheck_progress")
        config.pluginmanager.register(ShortSummary(config, session.cells), "pytest_evalcheck_summary")
        resumed = resuming.plugins(config, session)
        if session.options.run.way in CLUSTERS and not session.works:
            from pytest_evalcheck.integration.process.clusters import Cluster

            config.pluginmanager.register(Cluster(session, resumed), "pytest_evalcheck_cluster")
        for plugin in resumed:
            config.pluginmanager.register(plugin)
        return
    given = [
        name
        for name in (
            *("select", "ignore", "replay", "report", "with_tests", "known"),
            *("run", "resume", "optional", "shard", "since", "scripts", "fail_on", "patched", "strict_versions"),
        )
        if config.getoption(f"evalcheck_{name}")
    ]
    if given:
        raise pytest.UsageError(f"--evalcheck-{given[0].replace('_', '-')} does nothing without --evalcheck")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that ask for ``evalcheck_device`` on every device of the run."""
    if "evalcheck_device" not in metafunc.fixturenames:
        return
    from pytest_evalcheck.errors import UsageError
    from pytest_evalcheck.targets import device_spec

    given = metafunc.config.getoption("evalcheck_device") or metafunc.config.getini("evalcheck_device")
    try:
        asked = device_spec.parse(str(given))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    devices = device_spec.chosen(asked, accelerators_only=False)
    if device_spec.AUTO in asked:
        devices += device_spec.chosen(asked, accelerators_only=True)
    parameters = [
        pytest.param(device, marks=[getattr(pytest.mark, mark) for mark in device_spec.marks(device)])
        for device in dict.fromkeys(devices)
    ]
    metafunc.parametrize("evalcheck_device", parameters, indirect=True)


@pytest.fixture
def evalcheck_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name a device as PyTorch does. The test runs once on each that ``--evalcheck-device`` names.

    With ``auto``, the default, these are the CPU, the simulated accelerators and those of the machine. On a simulated
    one, memory that is used while a copy of it is in flight is an error, and an index out of range is one of the next
    synchronisation.
    """
    from pytest_evalcheck.targets import device_spec

    why = device_spec.absent(request.param)
    if why:
        pytest.skip(f"not run on {request.param}: {why}")
    with device_spec.placed_on(request.param, in_flight="error", asserts="deferred"):
        yield device_spec.torch_name(request.param)


@pytest.fixture
def evalcheck_simulated() -> Iterator[Callable[..., Ledger]]:
    """Simulated accelerators until the end of the test: called with ``"mps"``, it gives their ledger.

    The arguments are those of `pytest_evalcheck.devices.simulate`; the ledger lists the transfers between devices.
    """
    from pytest_evalcheck.devices import simulate

    with ExitStack() as until_the_end:
        yield lambda *devices, **more: until_the_end.enter_context(simulate(*devices, **more))


@pytest.fixture
def evalcheck_unchanged() -> Iterator[Callable[..., Guard]]:
    """Fail a test that changes a value which must not change.

    ``with evalcheck_unchanged(batch): ...`` guards it for a block; ``evalcheck_unchanged(batch)`` alone until the end
    of the test. ``name=`` is what the message calls the value. ``fast=True`` does not read values, and ``copy_limit=``
    is how many bytes of values are copied, so that a message can name the old ones.
    """
    from pytest_evalcheck.guard import COPY_LIMIT, unchanged, verify

    guards: list[Guard] = []

    def watch(value: Any, *, fast: bool = False, name: str = "batch", copy_limit: int = COPY_LIMIT) -> Guard:
        guards.append(unchanged(value, fast=fast, name=name, copy_limit=copy_limit))
        return guards[-1]

    yield watch
    verify(*(guard for guard in guards if not guard.entered))


@pytest.fixture
def evalcheck_batchings() -> Callable[..., Batchings]:
    """Make loaders of one data set in batchings: ``evalcheck_batchings(dataset, collate_fn).agree(evaluate)``."""
    from pytest_evalcheck.integration.ordinary_tests.batchings import batchings

    return batchings


@pytest.fixture
def evalcheck_variants() -> Callable[..., Variants]:
    """Run an evaluation in configurations: ``evalcheck_variants(evaluate, samples, {...}).agree(within=1e-2)``."""
    from pytest_evalcheck.variants.runs import variants

    return variants
