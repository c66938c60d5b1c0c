"""Which code is an installed library, and which version of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import locale
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

_OURS = __name__.partition(".")[0]
_EXTENSIONS = (".so", ".pyd", ".dll", ".dylib")


def library(module: str, file: str = "") -> str | None:
    """Return the name and version of the library that a module belongs to; None for a module of the user's project.

    A library is what Python ships, and what a distribution has installed into site-packages. Everything else is a
    project: scripts, notebooks, packages that are installed as editable, and files that were put into site-packages by
    hand. ``file`` is where a module is found that is not imported yet.
    """
    if module == "__main__":
        return None
    top = module.partition(".")[0]
    return _library(top, file or file_of(module) or file_of(top) or "")


def file_of(module: str) -> str | None:
    """Return the file of a module that is imported; None where it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file if isinstance(file, str) else None


def extension(module: str) -> str:
    """Return a digest of the file of a module that is compiled; empty for Python code."""
    file = file_of(module) or ""
    if not file.endswith(_EXTENSIONS):
        return ""
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=20).hexdigest()


@lru_cache(maxsize=4096)
def _library(name: str, file: str) -> str | None:
    if name == _OURS:
        return f"{_OURS} {_version(_OURS.replace('_', '-'))}"
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    if name in sys.stdlib_module_names or name == "builtins":
        # A file of the project may have the name of a module that Python ships.
        return "python" if not file or (not installed and _within(file, "stdlib", "platstdlib")) else None
    if file and not installed:
        return None
    found = distributions().get(name, ())
    return " ".join(f"{each} {_version(each)}" for each in sorted(set(found))) or None


def _within(file: str, *folders: str) -> bool:
    place = Path(file).resolve()
    return any(place.is_relative_to(Path(sysconfig.get_path(each)).resolve()) for each in folders)


@lru_cache(maxsize=1)
def distributions() -> Mapping[str, Sequence[str]]:
    """Return the distributions that have installed a package or module, by its name."""
    if sys.version_info >= (3, 11):
        return importlib.metadata.packages_distributions()
    return _by_their_files()


def _by_their_files() -> Mapping[str, Sequence[str]]:
    """The same on Python 3.10, which knows those alone that declare their packages; NumPy and scikit-learn do not."""
    found: dict[str, list[str]] = {}
    for each in importlib.metadata.distributions():
        declared = (each.read_text("top_level.txt") or "").split()
        files = [path for path in each.files or () if path.suffix == ".py"]
        for name in declared or {path.parts[0] if len(path.parts) > 1 else path.stem for path in files}:
            found.setdefault(name, []).append(each.metadata["Name"])
    return found


@lru_cache(maxsize=256)
def _version(distribution: str) -> str:
    """The version, and for one that was installed from a repository its commit."""
    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
    return f"{found.version}{found.read_text('direct_url.json') or ''}"


def settings() -> Iterator[str]:
    """Yield what of the process every score may depend on: Python, the locale, and what differs from the usual.

    Numbers of threads are left out: a sum of floats may depend on them in its last bits.
    """
    yield f"{sys.implementation.name} {'.'.join(map(str, sys.version_info))} {sys.flags.optimize}"
    yield f"locale {locale.setlocale(locale.LC_ALL)}"
    # A library that is not imported has its usual settings, so only others count.
    decimal: Any = sys.modules.get("decimal")
    if decimal is not None and (context := _settings_of(decimal.getcontext())) != _settings_of(decimal.DefaultContext):
        yield f"decimal {context}"
    numpy: Any = sys.modules.get("numpy")
    if hasattr(numpy, "geterr") and set(numpy.geterr().items()) != set(_USUAL_ERRORS.items()):
        yield f"numpy {sorted(numpy.geterr().items())}"
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_default_dtype"):
        chosen = (
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
        )
        if (found := " ".join(map(str, chosen))) != "torch.float32 cpu highest False":
            yield f"torch {found}"


def _settings_of(context: Any) -> str:
    """A context of the module decimal without its flags, which say what was computed with it."""
    context = context.copy()
    context.clear_flags()
    return repr(context)


_USUAL_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
