"""Files that differ between a revision of git and the working tree."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_evalcheck.errors import UsageError, nearest

_LEFT_BY_RUNS = ("**/__pycache__/**", "**/*.pyc", "**/.pytest_cache/**", "**/.hypothesis/**", "**/.coverage*")
_SETTINGS = ("*.yaml", "*.yml", "*.toml", "*.json", "*.ini", "*.cfg", "setup.py")
"""Files that may name modules for others to import."""
_OF_INSTALLATIONS = ("setup.py", "sitecustomize.py", "usercustomize.py")
"""Python files that act on all others without being imported by them."""


@dataclass(frozen=True)
class ChangedFiles:
    """Differences between a revision and the files as they are now; paths are relative to the top, with slashes."""

    revision: str
    """The revision, as it was given."""
    top: str
    files: tuple[str, ...]
    """All Python files that git knows or does not ignore, and those that were deleted since."""
    ignored: tuple[str, ...]
    """Files and folders that git ignores, whose changes cannot be seen; a folder ends in a slash."""
    python: Mapping[str, str]
    """The Python files that changed, each with git's letter: A, M or D."""
    others: tuple[str, ...]
    """The other files that changed, but for those that are declared irrelevant."""
    settings: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path, revision: str, irrelevant: Sequence[str], outputs: Iterable[Path]) -> ChangedFiles:
        """Compare the repository of a folder with a revision; ``outputs`` are files that this run writes.

        Raises:
            UsageError: when nothing can be compared: no git, no repository, no such revision.
        """
        for pattern in irrelevant:
            if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
                expected = "a pattern from the top of the repository, such as docs/**/*.md"
                raise UsageError(f"evalcheck_irrelevant has {pattern!r}; expected {expected}")
        git = _Git.of(folder, revision)
        commit = git.commit()
        excluded = [f":(top,exclude,glob){pattern}" for pattern in irrelevant]
        by_runs = [f":(top,exclude,glob){pattern}" for pattern in _LEFT_BY_RUNS]
        changed = dict(git.differing(commit, excluded))
        for path in git.listed("-o", "--exclude-standard", "--", ":(top)", *excluded, *by_runs):
            changed.setdefault(path, "A")
        for path in git.hidden():
            changed.setdefault(path, "M")
        for output in outputs:
            changed.pop(relative_to(git.top, output) or "", None)
        python = {path: how for path, how in changed.items() if _is_module(path)}
        harmless = git.listed("-o", "--", *(f":(top,glob){pattern}" for pattern in irrelevant)) if irrelevant else []
        known = (*git.listed("-c", "--recurse-submodules"), *git.listed("-o", "--exclude-standard"), *harmless)
        ignored = {*git.listed("-o", "-i", "--exclude-standard", "--directory")} - {*harmless}
        wanted = [f":(top,glob)**/{name}" for name in _SETTINGS]
        return cls(
            revision=revision,
            top=str(git.top),
            files=tuple(sorted({path for path in (*known, *python) if path.endswith(".py")})),
            ignored=tuple(sorted(path for path in ignored if not _is_left_by_runs(path))),
            python=dict(sorted(python.items())),
            others=tuple(sorted(changed.keys() - python.keys())),
            settings=tuple(sorted({*git.listed("-c", "-o", "--exclude-standard", "--", *wanted, *excluded)})),
        )

    @classmethod
    def from_json(cls, text: str) -> ChangedFiles:
        """Read the changes that a controller of xdist has seen."""
        read: dict[str, Any] = json.loads(text)
        read.update((name, tuple(value)) for name, value in read.items() if isinstance(value, list))
        return cls(**read)

    def as_json(self) -> str:
        """Write the changes for a worker of xdist; names of files may be no UTF-8."""
        return json.dumps(vars(self))


def relative_to(top: Path, path: Path) -> str | None:
    """Return a path relative to a folder, with slashes; None for one outside, or of an environment inside."""
    try:
        inside = PurePosixPath(path.resolve().relative_to(top).as_posix())
    except (OSError, ValueError):
        return None
    if {"site-packages", "dist-packages"} & set(inside.parts):
        return None
    return "" if str(inside) == "." else str(inside)


def _is_module(path: str) -> bool:
    return path.endswith(".py") and PurePosixPath(path).name not in _OF_INSTALLATIONS


def _is_left_by_runs(path: str) -> bool:
    return bool({"__pycache__", ".pytest_cache", ".hypothesis"} & {*PurePosixPath(path).parts})


@dataclass(frozen=True)
class _Git:
    top: Path
    revision: str

    @classmethod
    def of(cls, folder: Path, revision: str) -> _Git:
        git = cls(folder, revision)
        answer = git.ask("rev-parse", "--show-toplevel")
        if answer.returncode and "not a git repository" in answer.stderr:
            raise UsageError(f"{git}: {str(folder)!r} is in no git repository; expected one that has the revision")
        if answer.returncode:
            raise UsageError(f"{git}: {_last_line(answer.stderr)}")
        return cls(Path(answer.stdout.rstrip("\n")).resolve(), revision)

    def __str__(self) -> str:
        return f"--evalcheck-since {self.revision}"

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(self.top), "--no-optional-locks", *arguments]
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            return subprocess.run(
                command,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                encoding="utf-8",
                errors="surrogateescape",
                env=environment,
                check=False,
            )
        except OSError as error:
            why = "git is not installed, or not on PATH" if isinstance(error, FileNotFoundError) else str(error)
            raise UsageError(f"{self}: {why}; it is needed to see what changed") from error

    def answer(self, *arguments: str) -> list[str]:
        """Return what a command prints, split at each NUL."""
        answer = self.ask(*arguments)
        if answer.returncode:
            raise UsageError(f"{self}: git {arguments[0]} failed: {_last_line(answer.stderr)}")
        return [text for text in answer.stdout.split("\0") if text]

    def commit(self) -> str:
        answer = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.revision}^{{commit}}")
        if not answer.returncode:
            return answer.stdout.strip()
        text = f"{self}: there is no such revision; expected a branch, a tag or a commit of this repository"
        names = self.ask("for-each-ref", "--format=%(refname:short)").stdout.split()
        such = f", such as {', '.join(names[:3])}" if names else ", which has no commit yet"
        text += nearest(self.revision, names) or such
        if self.ask("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
            remotes = self.ask("remote").stdout.split()
            remote, _, branch = self.revision.partition("/")
            where, name = (remote, branch) if remote in remotes and branch else ((remotes or ["origin"])[0], "")
            name = name or self.revision
            text += (
                f". This is a shallow clone, which may lack it: git fetch {where} {name}:refs/remotes/{where}/{name}, "
                "or git fetch --unshallow (actions/checkout: fetch-depth: 0)"
            )
        raise UsageError(text)

    def differing(self, commit: str, excluded: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the paths that differ between a commit and the files as they are, staged or not, with a letter."""
        options = ("--raw", "-z", "--no-renames", "--ignore-submodules=none", "--no-ext-diff", "--no-textconv")
        fields = self.answer("diff", *options, commit, "--", ":(top)", *excluded)
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            # The files of a submodule are not compared: it counts as one file of data.
            submodule = "160000" in head.split()[0] + head.split()[1]
            yield (f"{path}/" if submodule else path), head.split()[-1][:1]

    def hidden(self) -> Iterator[str]:
        """Yield the tracked files that git was told not to compare."""
        for tag, _, path in (entry.partition(" ") for entry in self.answer("ls-files", "-v", "-z", "--full-name")):
            if tag.islower() or (tag == "S" and (self.top / path).exists()):
                yield path

    def listed(self, *arguments: str) -> list[str]:
        return self.answer("ls-files", "-z", "--full-name", *arguments)


def _last_line(text: str) -> str:
    return next(iter(reversed(text.strip().splitlines())), "git ended without a message").removeprefix("fatal: ")
