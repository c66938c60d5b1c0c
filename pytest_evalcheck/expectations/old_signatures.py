"""Signatures as they were before comparisons had ids, with prose in them; kept until 1.0.

``ids.json`` holds the ids of the comparisons of every shipped check, each with the prose that stood in a signature for
it. ``python -m pytest_evalcheck.expectations.old_signatures FILE...`` writes the new form of every old signature in
baselines, registries and targets.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.expectations.ids import slug

_HOLE = re.compile(r"\{(\w+)\}")
_SIGNATURE = re.compile(r"(EC\d{3}): (.*)", re.DOTALL)
_NEW = re.compile(r"[^\s:]+(: .*)?", re.DOTALL)
_QUOTED = re.compile(r'"EC\d{3}: (?:[^"\\\n]|\\.)*"')
_MODE = r"(?: \(mode '.*?'\))?"


@cache
def ids() -> Mapping[str, Mapping[str, str]]:
    """Return the ids of the comparisons of every shipped check, by code; a name in braces stands for any words."""
    found: Mapping[str, Mapping[str, str]] = json.loads(
        Path(__file__).with_name("ids.json").read_text(encoding="utf-8")
    )
    return found


def migrated(signature: str) -> str:
    """Return the new form of an old signature; nothing where it is not an old one of a shipped check.

    >>> migrated("EC203: the value after merging the shards by merge_state: NaN")
    'EC203: merged-by-merge-state: NaN'
    """
    found = _SIGNATURE.fullmatch(signature)
    if found is None or _NEW.fullmatch(found[2]):
        return ""
    for old, new in _patterns(found[1]):
        if match := old.fullmatch(found[2]):
            parts = {name: _slug(text or "") for name, text in match.groupdict().items()}
            return f"{signature[:5]}: {_filled(new, parts)}{match['contrast'] or ''}"
    return ""


def problem(signature: str) -> str:
    """Return what is wrong with a signature of a shipped check, with the right one; nothing where nothing is."""
    found = _SIGNATURE.fullmatch(signature)
    if found is None or found[1] not in ids() or found[2].startswith("*"):
        return ""
    if new := migrated(signature):
        return f"{signature!r} is an old signature; write {new!r}"
    id = found[2].partition(": ")[0]
    known = ids()[found[1]]
    if any(_id_pattern(template).fullmatch(text) for template in known for text in (id, id.rstrip("*"))):
        return ""
    meant = nearest(id, known) or f"; expected one of {', '.join(known)}"
    return f"{signature!r} names {id!r}, which is no id of {found[1]}{meant}"


def migrate(text: str) -> str:
    """Return a text with the new form of every old signature that stands in it in double quotes."""

    def new(found: re.Match[str]) -> str:
        try:
            after = migrated(json.loads(found[0]))
        except ValueError:
            return found[0]
        return json.dumps(after, ensure_ascii=False) if after else found[0]

    return _QUOTED.sub(new, text)


@cache
def _patterns(code: str) -> list[tuple[re.Pattern[str], str]]:
    rows = []
    for new, old in ids().get(code, {}).items():
        text = re.escape(old).replace(r"\{", "{").replace(r"\}", "}").replace(r"\#", "#")
        text = _HOLE.sub(lambda hole: f"(?P<{hole[1]}>{_MODE if hole[1].startswith('mode') else '.*?'})", text)
        rows.append((re.compile(f"{text}(?P<contrast>: .*)?", re.DOTALL), new))
    return rows


@cache
def _id_pattern(template: str) -> re.Pattern[str]:
    text = re.sub(r"(^|-)\{\w+\}", r"\1@+", template)
    return re.compile(_HOLE.sub("@*", text).replace("@", r"[^\s:]"))


def _filled(template: str, parts: Mapping[str, str]) -> str:
    def part(hole: re.Match[str]) -> str:
        text = parts[hole[1]]
        joined = not text or text[0] == "*" or not hole.start() or template[hole.start() - 1] == "-"
        return text if joined else f"-{text}"

    return _HOLE.sub(part, template)


def _slug(text: str) -> str:
    """Return the words of a text as a part of an id, in which ``*`` stays what it is."""
    return "*".join(slug(part) if re.search(r"[^\W_]", part) else "" for part in text.split("*"))


def main(paths: Iterable[str]) -> None:
    """Write the new form of every old signature into these files."""
    for path in map(Path, paths):
        before = path.read_text(encoding="utf-8")
        after = migrate(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{path}: signatures have their new form")


if __name__ == "__main__":
    main(sys.argv[1:])
