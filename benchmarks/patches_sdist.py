"""Prove the diffs for upstream: in an unpacked source distribution each applies, and its regression test turns green.

    python benchmarks/patches_sdist.py [LIBRARY ...] [--source DIR] [--only ID ...] [--smoke]

The files are those of `python -m pytest_evalcheck fixes LIBRARY --write DIR`. The source distribution of the installed
release is downloaded, or a checkout is given by --source. For each diff: `git apply --check`, the regression test on
this source (must fail), `git apply`, the test again (must pass), and the diff is taken back. For the tests that the
library has itself, see patches_upstream.py.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("KERAS_BACKEND", "torch")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.patches import chosen_libraries  # noqa: E402
from pytest_evalcheck.fixes.patches import applying  # noqa: E402
from pytest_evalcheck.fixes.patches.patch import Library  # noqa: E402


def packages_of(library: Library) -> set[str]:
    """Return the packages that patches of a library edit."""
    return {where.split(":")[0].split(".")[0] for patch in library.patches for where in patch.edits}


def unpacked(library: Library, folder: Path) -> tuple[Path, str]:
    """Download the source distribution of the installed release; return the folder that it holds, and what it is.

    Where the index has none that can be imported, the wheel stands for it: its packages are put where the repository
    has them.
    """
    wanted = f"{library.name}=={version(library.name).partition('+')[0]}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), wanted]
    source = ("--no-binary", ":all:", "--no-build-isolation")
    subprocess.run([*command, *source], check=False, capture_output=True)
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            opened.extractall(folder / "source", filter="data")
        root = next(one for one in (folder / "source").iterdir() if one.is_dir())
        if all((root / library.source / name / "__init__.py").exists() for name in packages_of(library)):
            return root, "source distribution"
    subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "wheel" / library.source)
    return folder / "wheel", "wheel: no source distribution that can be imported"


def import_requirements(source: Path, packages: set[str]) -> None:
    """Import what these packages import, and not the packages: every fork has it, and imports them from the source."""
    code = (
        f"import sys, importlib, warnings; warnings.simplefilter('ignore'); sys.path.insert(0, {str(source)!r})\n"
        f"for name in {sorted(packages)}: importlib.import_module(name)\n"
        "print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    for name in (found.stdout.splitlines() or [""])[-1].split():
        if name.partition(".")[0] not in packages and name not in sys.modules:
            with suppress(Exception):  # the tests show what cannot be imported
                importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def error_of(test: Path, source: Path, packages: set[str]) -> str:
    """Run a regression test with the packages of a source, in a fork of this process; return its error, else ''."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            sys.path.insert(0, str(source))
            importlib.invalidate_caches()
            warnings.simplefilter("ignore")
            names = runpy.run_path(str(test))
            next(value for name, value in names.items() if name.startswith("test_"))()
            loaded = [str(sys.modules[name].__file__) for name in packages if name in sys.modules]
            if not loaded or not all(one.startswith(str(source)) for one in loaded):
                os.write(writer, f"{packages} were not imported from the source".encode())
        except BaseException as error:  # what a test raises
            os.write(writer, f"{type(error).__name__}: {error}".encode()[:2000] or b"?")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as written:
        text = " ".join(written.read().split())[:300]
    os.wait()
    return text


def git(folder: Path, *words: str) -> bool:
    """Run git in a folder; return whether it succeeded."""
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False).returncode == 0


def prove(library: Library, root: Path, only: list[str]) -> tuple[int, int]:
    """Print a line for each patch; return the number of proved ones and of those that are not."""
    source = root / library.source if library.source else root
    packages = packages_of(library)
    shutil.rmtree(root / ".git", ignore_errors=True)
    git(root, "init", "-q")  # a diff is applied to a repository: files that it lacks are an error
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest_evalcheck", "fixes", library.name, "--write", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        import_requirements(source, packages)
        good = bad = 0
        for patch in (one for one in library.patches if not only or one.id in only):
            made = Path(folder) / f"{patch.id}.diff"
            test = Path(folder) / f"test_{re.sub(r'[^a-z0-9]', '_', patch.id.lower())}.py"
            found = []
            found += [] if made.exists() and git(root, "apply", "--check", str(made)) else ["it does not apply"]
            if not found:
                found += [] if (red := error_of(test, source, packages)) else ["its test passes before"]
                git(root, "apply", str(made))
                found += [f"its test fails after: {error}"] if (error := error_of(test, source, packages)) else []
                git(root, "apply", "-R", str(made))
            good, bad = good + (not found), bad + bool(found)
            says = "; ".join(found) or f"red before ({red[:60]}), green after"
            print(f"  {'proved' if not found else 'FAILED'}  {patch.id}: {says}", flush=True)
    return good, bad


def main() -> int:
    """Prove the diffs of some libraries, or of all that are installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="*")
    parser.add_argument("--source", type=Path, help="a checkout of the one library")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="patches, by their ids")
    parser.add_argument("--smoke", action="store_true", help="the first patch of MONAI")
    given = parser.parse_args()
    if given.source and len(given.library) != 1:
        parser.error("--source is a checkout of one library: name it")
    if given.smoke:
        given.library = ["monai"]
    chosen = chosen_libraries(parser, given)
    import torch  # noqa: F401  (every fork has it)

    good = bad = 0
    for library in chosen:
        if why := applying.why_not_tested(library):
            print(f"{library.name}: not run: {why}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder) / "checkout"
            if given.source:
                shutil.copytree(given.source, copied, ignore=shutil.ignore_patterns(".git"))
            root, what = (copied, "checkout") if given.source else unpacked(library, Path(folder))
            print(f"{library.name} {version(library.name)}, {what}:", flush=True)
            proved, failed = prove(library, root.resolve(), given.only)
            good, bad = good + proved, bad + failed
    print(f"{good} diffs proved, {bad} not")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
