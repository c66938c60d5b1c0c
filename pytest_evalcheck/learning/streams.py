"""Streams made of observed rows: resampled, reordered, cut anew and padded as they were, with small changes inside.

A call is a tree of arguments. Its leaves that have one entry for each sample are columns; what is the same in every
call of a group is fixed. A sample is one entry of each column, as plain JSON, and a batch is the tree again.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.annotated import ORIGIN, seen_in_annotations
from pytest_evalcheck.learning.values import (
    INDEX,
    TABLES,
    decoded,
    drawn,
    has_form,
    is_array,
    is_cut,
    is_kept,
    made_array,
    made_table,
)
from pytest_evalcheck.learning.watching import Seen
from pytest_evalcheck.strategies.arguments import Arguments
from pytest_evalcheck.strategies.samples import OF_TYPES, SampleStrategy

Path = tuple[str, ...]
_SEEDS = 8
"""Number of arrays that are drawn where no row was kept: few enough that equal ones meet in one batch."""
_LABELS = 16
"""A column of no more different whole numbers or texts than this has labels: no other one is drawn."""
_MOST_OF_A_ROW = 10_000_000
"""Numbers of one row that are drawn by a seed: a corpus that names more was edited."""
_STEPS = 16
"""Number of steps in which the range of a column of fractions is drawn."""
_FEW_CALLS = 3
"""With fewer calls than this halves of texts are inputs, too."""
_WORDS = 4
"""Words of a text of one call, of which halves are inputs, too."""
_SCALARS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Column:
    """One leaf that has an entry for each sample."""

    path: Path
    container: str
    """"torch", "numpy", "xarray" with the names of dimensions, "list" or "tuple"."""
    dtype: str = ""
    entries: tuple[Any, ...] = ()
    """The observed entries, in order: of an array the rows as lists, of a list its items as JSON."""
    trailing: tuple[int, ...] = ()
    """The shape of a row of which no number was kept: it is drawn by a seed."""
    low: float = 0.0
    high: float = 0.0

    @property
    def is_array(self) -> bool:
        """Return whether it is an array of torch, NumPy or xarray."""
        return self.container.partition(":")[0] in ("torch", "numpy", "xarray")

    @property
    def is_index(self) -> bool:
        """Return whether it has the names of the rows of a table."""
        return self.path[-1].startswith(INDEX)

    @property
    def is_seeded(self) -> bool:
        """Return whether its rows were too large to be kept."""
        return self.is_array and not self.entries

    @cached_property
    def numbers(self) -> list[Any]:
        """All numbers of its entries; empty where an entry is anything else."""
        found = [*_numbers_of(self.entries)]
        return found if all(type(each) in (bool, int, float) for each in found) else []

    @cached_property
    def domain(self) -> tuple[Any, ...]:
        """Values that one number, or one text, may be changed to; empty where nothing is changed."""
        if self.entries and all(isinstance(each, str) for each in self.entries):
            return _labels(self.entries) if len({*self.entries}) < len(self.entries) else ()
        if not self.numbers or self._is_tied:
            return ()
        if not all(isinstance(each, float) for each in self.numbers) or all(each == int(each) for each in self.numbers):
            labels = _labels(self.numbers)
            return labels or tuple(range(int(min(self.numbers)), int(max(self.numbers)) + 1))[: 4 * _LABELS]
        low, high = min(self.numbers), max(self.numbers)
        return tuple(low + (high - low) * step / _STEPS for step in range(_STEPS + 1))

    @cached_property
    def is_sorted(self) -> bool:
        """Return whether the numbers of every entry rise, as edges, offsets and positions do."""
        rows = [each for each in self.entries if isinstance(each, list) and len(each) > 1]
        flat = rows and all(type(number) in (int, float) for row in rows for number in row)
        return bool(flat) and all(row == sorted(row) for row in rows) and any(row != row[::-1] for row in rows)

    @cached_property
    def _is_tied(self) -> bool:
        """Return whether the numbers of an entry depend on each other: they sum to one, or the entries have NaN."""
        rows = [each for each in self.entries if isinstance(each, list)]
        flat = [row for row in rows if row and all(isinstance(number, float) for number in row)]
        sums = [sum(row) for row in flat if len(row) > 1]
        distribution = bool(sums) and len(flat) == len(rows) and all(abs(one - 1) < 0.02 for one in sums)
        return distribution or any(number != number or abs(number) == float("inf") for number in self.numbers)


@dataclass(frozen=True)
class Stream:
    """Calls of one form: what has rows, and what is the same in all of them."""

    name: str
    columns: tuple[Column, ...]
    fixed: Mapping[Path, Any]
    """By path: values that are the same in every call, as JSON."""
    forms: Mapping[Path, str]
    """By path: the container of what is not a leaf."""
    tests: tuple[str, ...]
    """The tests that the calls are from."""
    one_sample: bool = False
    """True if every call has one sample; a batch then has a list for each argument."""
    documents: bool = False
    """True if a batch is responses and documents, as a scorer takes them: the first argument, and the others."""
    by_name: frozenset[str] = frozenset()
    """Parameters that are given by name alone."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Columns that are changed and exchanged together, since entries of one follow from those of another."""

    @property
    def count(self) -> int:
        """Number of rows that were kept; 0 where all are drawn by a seed."""
        return max((len(each.entries) for each in self.columns), default=0)

    def strategy(self, *, changes: bool) -> SampleStrategy:
        """Return samples of these rows; with ``changes`` also rows whose entries come from several of them."""
        rows = [tuple(_entry(each, i) for each in self.columns) for i in range(self.count or _SEEDS)]
        sample: st.SearchStrategy[Any] = st.sampled_from(rows)
        if changes:
            sample = st.one_of(sample, sample, self._changed(rows))
        if any(each.is_seeded for each in self.columns):
            seeds = (st.integers(0, _SEEDS - 1) if each.is_seeded else st.none() for each in self.columns)
            sample = st.builds(_with_seeds, sample, st.tuples(*seeds))
        annotated = self.tests == (ORIGIN,)  # nobody has said which argument is the prediction
        alike = (
            changes
            and not annotated
            and len(self.columns) > 1
            and (0, 1) not in self.groups
            and _are_alike(*self.columns[:2])
        )
        contrast = self._contrast(rows) if alike else ()
        alike = bool(contrast)  # where all targets are equal, no prediction is wrong
        fractions = [index for index, each in enumerate(self.columns) if self._is_fractional(each)]
        return SampleStrategy(
            name=f"values of the types of {self.name}" if annotated else f"rows that tests give to {self.name}",
            sample=sample,
            collate=self.batch,
            right=(lambda row: (row[1], *row[1:])) if alike else None,
            wrong=self._wrong(rows) if alike else None,
            contrast=contrast,
            observed=OF_TYPES if annotated else "your tests use",
            corrupted=partial(_corrupted, fractions) if changes and fractions else None,
        )

    def batch(self, samples: Sequence[Any]) -> Any:
        """Return the arguments of some samples."""
        leaves: dict[Path, Any] = {path: self._kept(path, value) for path, value in self.fixed.items()}
        for index, column in enumerate(self.columns):
            leaves[column.path] = _collated(column, [row[index] for row in samples], self.package)
        if self.documents:
            return self._documents(samples)
        if self.one_sample:  # an option with a length of its own is no column of a batch
            leaves = {
                path: [value] * len(samples) if isinstance(value, (list, tuple)) and path in self.fixed else value
                for path, value in leaves.items()
            }
        names = dict.fromkeys(path[0] for path in (*self.order, *leaves))
        given = {path[0] for path in leaves}
        whole = {name: self._tree((name,), leaves) for name in names if name in given}
        data = {column.path[0] for column in self.columns} - self.by_name
        first = [*itertools.takewhile(lambda name: name in given and (name in data or name.isdigit()), names)]
        return _arguments(whole, first)

    def _kept(self, path: Path, value: Any) -> Any:
        if not (isinstance(value, dict) and {"made", "object", "name"} & {*value}):
            return decoded(value, self.package)
        if path not in self._objects:  # one object for all batches, as in a run
            self._objects[path] = decoded(value, self.package)
        return self._objects[path]

    @cached_property
    def _objects(self) -> dict[Path, Any]:
        return {}

    def _documents(self, samples: Sequence[Any]) -> tuple[list[list[Any]], list[dict[str, Any]]]:
        """Return the first argument of each sample as its only response, and the others that differ as its document."""
        responses, documents = [], []
        tops = dict.fromkeys(column.path[0] for column in self.columns)
        for row in samples:
            leaves = {path: self._kept(path, value) for path, value in self.fixed.items() if path[0] in tops}
            for column, entry in zip(self.columns, row, strict=True):
                leaves[column.path] = decoded(_thawed(entry), self.package)
            given = {name: self._tree((name,), leaves) for name in tops}
            responses.append([given.pop(next(iter(tops)))])
            documents.append(given)
        return responses, documents

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that are the same in every call, as JSON."""
        tops = {column.path[0] for column in self.columns}
        return {path[0]: value for path, value in self.fixed.items() if path[0] not in tops}

    @property
    def is_text(self) -> bool:
        """Return whether a sample has a text, a mapping or an object: it is a document, and no number."""
        entries = (one for each in self.columns if not each.is_array for one in each.entries)
        return any(not (isinstance(one, (int, float, list)) or one is None or _is_numbers(one)) for one in entries)

    @property
    def package(self) -> str:
        """The package of the name."""
        return self.name.partition(":")[0].partition(".")[0]

    @cached_property
    def order(self) -> tuple[Path, ...]:
        """The paths in the order of the parameters."""
        return tuple(self.forms)

    def _tree(self, path: Path, leaves: Mapping[Path, Any]) -> Any:
        if path in leaves:
            return leaves[path]
        inside = dict.fromkeys(one[: len(path) + 1] for one in self.forms if one[: len(path)] == path and one != path)
        values = {one[-1]: self._tree(one, leaves) for one in inside}
        form = self.forms[path]
        if form in TABLES:
            return made_table(form, values)
        return values if form == "dict" else (tuple if form == "tuple" else list)(values.values())

    def _changed(self, rows: Sequence[Any]) -> st.SearchStrategy[Any]:
        """Rows whose columns come from several rows of the same shapes, with some numbers changed inside the domain."""
        shapes = Counter(map(_shapes, rows))
        usual = [row for row in rows if shapes[_shapes(row)] == max(shapes.values())]
        groups = self.groups

        def joined(drawn: Sequence[Any]) -> Any:
            entries = {index: row[index] for group, row in zip(groups, drawn, strict=True) for index in group}
            return tuple(entries[index] for index in range(len(self.columns)))

        mixed = st.tuples(*([st.sampled_from(usual)] * len(groups))).map(joined)
        places = [group[0] for group in groups if len(group) == 1 and self.columns[group[0]].domain]
        if not places:
            return mixed
        values = {index: st.sampled_from(self.columns[index].domain) for index in places}
        one = st.sampled_from(places).flatmap(lambda at: st.tuples(st.just(at), values[at], st.integers(0, 63)))
        return st.one_of(mixed, st.builds(self._with_change, mixed, one))

    def _with_change(self, row: Any, change: tuple[int, Any, int]) -> Any:
        at, value, place = change
        entry = _replaced(row[at], value, place)
        column = self.columns[at]
        entry = tuple(sorted(entry)) if column.is_sorted and isinstance(entry, tuple) else entry
        return (*row[:at], entry, *row[at + 1 :])

    def _wrong(self, rows: Sequence[Any]) -> Callable[[Any], Any]:
        others = sorted({repr(row[1]): row[1] for row in rows}.values(), key=repr)

        def wrong(row: Any) -> Any:
            different = (other for other in others if other != row[1] and _shape(other) == _shape(row[1]))
            return (next(different, row[0]), *row[1:])

        return wrong

    def _is_fractional(self, column: Column) -> bool:
        """Return whether a column has fractions of which one may be no number: in a table NaN is a missing value."""
        of_table = column.container.startswith("xarray") or self.forms.get(column.path[:-1]) in TABLES
        return column.is_array and "float" in column.dtype and bool(column.entries and column.numbers) and not of_table

    def _contrast(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        found = {repr(row[1]): row for row in rows}
        return tuple(found.values())[:4] if len(found) > 1 else ()


def learned(
    name: str,
    *,
    made: int = 0,
    group: int = 0,
    one_sample: bool = False,
    documents: bool = False,
    loader: str = "",
    changes: bool = True,
    types: int = 0,
) -> SampleStrategy:
    """Samples made of the rows that a project's own runs have given to a function, or to a method of a class.

    They are read from the nearest ``evalcheck-corpus``: that of the current folder, or of a folder above it. Of what no
    run has called they are made of the annotations of its parameters.

    Args:
        name: ``package.module:function``, or ``package.module:Class.method``.
        made: of which of the ways in which runs have made objects of the class.
        group: which of the forms of its calls; 0 is the one with the most rows.
        one_sample: whether each call is one sample.
        documents: whether each call is one document, with the response as its first argument: batches for a scorer.
        loader: the argument that is a loader of batches: samples are those that it loads.
        changes: whether columns are also exchanged, and numbers changed inside of what was observed.
        types: which types were guessed for parameters that no run has given and nobody has annotated.

    Raises:
        UsageError: where there is no corpus, no such name in it, or no rows.
    """
    module, _, path = name.partition(":")
    first = path.partition(".")[0]
    known = corpus.nearest()
    entry = known.entries.get(f"{module}:{first}") or _annotated(module, first, types)
    if entry is None:
        raise UsageError(f"the corpus has no {module}:{first}{nearest(f'{module}:{first}', known.entries)}")
    found = streams_seen(entry, name, made, one_sample=one_sample or documents, loader=loader)
    if not 0 <= group < len(found):
        kind = "calls with one sample each" if one_sample else "calls with rows"
        raise UsageError(f"the corpus has {len(found)} groups of {kind} of {name}; group={group} is none of them")
    return replace(found[group], documents=documents).strategy(changes=changes)


def _annotated(module: str, name: str, types: int) -> Seen | None:
    with suppress(ImportError):
        return seen_in_annotations(getattr(importlib.import_module(module), name, None), types)
    return None


def calls_of(entry: Seen, method: str, made: int | None = 0) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the test and the arguments of each call of a function, or of a method of objects that were made alike.

    Of a method of all objects where ``made`` is None.
    """
    if not entry.is_class:
        return [(test, call.arguments) for test, call in entry.calls]
    if method == "__init__":
        return [(each.test, each.made) for each in entry.objects if each.made]
    ways = entry.ways if made is None else entry.ways[made : made + 1]
    alike = (each for each in entry.objects if each.made in ways)
    return [(each.test, call.arguments) for each in alike for call in each.calls if call.method == method]


def streams_seen(entry: Seen, name: str, made: int = 0, *, one_sample: bool = False, loader: str = "") -> list[Stream]:
    """Return the streams of the calls of a name; where objects that were made alike have none, of those of all objects.

    Tests often give each object one text or record, and another option to each: what one was given, others take, too.
    """
    method = name.partition(":")[2].partition(".")[2]
    for way in (made, None):
        calls = calls_of(entry, method, way)
        calls = loaded(calls, loader) if loader else calls
        found = streams_of(name, calls, one_sample=one_sample)
        if found or streams_of(name, calls, one_sample=not one_sample):
            by_name = _by_name(entry, method)
            return [replace(each, by_name=by_name) for each in found]
    return []


def _by_name(entry: Seen, method: str) -> frozenset[str]:
    """Return the parameters that are given by name alone, of code that is imported already."""
    owner: Any = getattr(sys.modules.get(entry.module), entry.name, None)
    try:
        parameters = inspect.signature(getattr(owner, method) if method else owner).parameters
    except (TypeError, ValueError, AttributeError):
        return frozenset()
    return frozenset(name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY)


def loaded(calls: Sequence[tuple[str, Mapping[str, Any]]], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each batch, or all samples, of the loader among the arguments of calls, as the arguments of a call."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for test, arguments in calls:
        found += [(test, batch) for batch in batches_of(arguments.get(name))]
    return found


def batches_of(value: Any) -> list[dict[str, Any]]:
    """Return the batches of a loader as JSON, each by the place or name of its parts; none for any other value."""
    if isinstance(value, dict) and "loader" in value:
        inside = value["loader"]
        if isinstance(inside, dict) and "tuple" in inside:
            return [_parts_of(inside)]
        samples = [_parts_of(each) for each in (inside if isinstance(inside, list) else inside["list"])]
        if not samples or not samples[0] or any(each.keys() != samples[0].keys() for each in samples):
            return []
        return [{key: _stacked([each[key] for each in samples]) for key in samples[0]}]
    batches = [_parts_of(each) for each in value] if isinstance(value, list) else []
    same = batches and all(each and each.keys() == batches[0].keys() for each in batches)
    return batches if same and all(any(map(is_array, each.values())) for each in batches) else []


def _parts_of(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "dict" in value:
        return dict(value["dict"])
    items = value if isinstance(value, list) else value.get("tuple", []) if isinstance(value, dict) else []
    return {str(i): each for i, each in enumerate(items)} if len(items) > 1 else {}


def _stacked(values: Sequence[Any]) -> Any:
    """Return the entries of samples as torch's loader collates them: arrays and numbers become a tensor."""
    first = values[0]
    if is_array(first) and all(
        is_array(each) and "rows" in each and each["shape"] == first["shape"] for each in values
    ):
        low, high = min(each.get("low", 0) for each in values), max(each.get("high", 0) for each in values)
        shape = [len(values), *first["shape"]]
        dtype = first["dtype"] if first["array"] == "torch" else f"torch.{first['dtype']}"
        rows = [each["rows"] for each in values]
        return {"array": "torch", "dtype": dtype, "shape": shape, "low": low, "high": high, "rows": rows}
    kinds = {type(each) for each in values}
    if kinds <= {int, float, bool}:
        dtype = "torch.float64" if float in kinds else "torch.int64"
        return {
            "array": "torch",
            "dtype": dtype,
            "shape": [len(values)],
            "rows": [*values],
            "low": float(min(values)),
            "high": float(max(values)),
        }
    return [*values]


def streams_of(name: str, calls: Sequence[tuple[str, Mapping[str, Any]]], *, one_sample: bool = False) -> list[Stream]:
    """Group calls by their form, and return a stream for each group that has rows.

    Raises:
        UsageError: where the calls are not as they are written, such as after an edit by hand.
    """
    try:
        return _grouped(name, calls, one_sample)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration) as error:
        text = f"{type(error).__name__}: {error}"
        raise UsageError(f"the calls of {name} in the corpus cannot be read ({text}); learn again") from error


def _grouped(name: str, calls: Sequence[tuple[str, Mapping[str, Any]]], one_sample: bool) -> list[Stream]:
    groups: dict[str, list[tuple[str, dict[Path, Any], dict[Path, str]]]] = {}
    for test, arguments in calls:
        leaves, forms = _flat(arguments, name.partition(":")[0].partition(".")[0], whole=one_sample)
        groups.setdefault(json.dumps([[*leaves], [*forms.values()]]), []).append((test, leaves, forms))
    read = _sample_streams if one_sample else _batch_streams
    found = [stream for group in groups.values() for stream in read(name, group)]
    return sorted(found, key=lambda each: -each.count)


def _flat(arguments: Mapping[str, Any], package: str, *, whole: bool) -> tuple[dict[Path, Any], dict[Path, str]]:
    """Return the leaves of a call by path, and by path the containers above them; ``whole`` arguments are leaves.

    An argument that was not kept has no leaf: it may have a default. It has a form, since what comes after it is given
    by name.
    """
    leaves: dict[Path, Any] = {}
    forms: dict[Path, str] = {}

    def walk(path: Path, value: Any) -> None:
        forms[path] = ""
        inside: Mapping[str, Any] = {}
        if whole:
            pass  # the parts of one argument are of one sample
        elif isinstance(value, dict) and "dict" in value:
            forms[path], inside = "dict", value["dict"]
        elif isinstance(value, dict) and (kind := next((each for each in TABLES if each in value), "")):
            forms[path], inside = kind, value[kind]
        elif isinstance(value, dict) and "tuple" in value and not all(map(_is_scalar, value["tuple"])):
            forms[path], inside = "tuple", {str(i): each for i, each in enumerate(value["tuple"])}
        for name, each in inside.items():
            walk((*path, name), each)
        if not inside:
            leaves[path] = value

    for name, value in arguments.items():
        # What takes the place of a model replies to a batch otherwise than to its samples.
        if is_kept(value, package) and (whole or not has_form(value, "stand_in")):
            walk((name,), value)
        else:
            forms[(name,)] = ""
    return leaves, forms


def _is_scalar(value: Any) -> bool:
    return isinstance(value, _SCALARS) or (isinstance(value, dict) and "float" in value)


def _is_numbers(value: Any) -> bool:
    return is_array(value) or (isinstance(value, dict) and all(map(is_array, value.get("series", {"": ""}).values())))


def _length(value: Any) -> int | None:
    """Return the number of entries of a leaf; None where it has none."""
    if isinstance(value, list):
        return len(value)
    if is_array(value):
        return int(value["shape"][0]) if value["shape"] else None
    if isinstance(value, dict) and ("list" in value or "tuple" in value):
        return int(value["length"])
    return None


Group = Sequence[tuple[str, dict[Path, Any], dict[Path, str]]]


def _batch_streams(name: str, group: Group) -> Iterator[Stream]:
    """Streams of calls that each have a batch: leaves of one length, in every call, are its columns."""
    paths = [*group[0][1]]
    lengths = [{path: _length(leaves[path]) for path in paths} for _, leaves, _ in group]
    usual = [_usual(each) for each in lengths]
    rows = [path for path in paths if all(n and each[path] == n for each, n in zip(lengths, usual, strict=True))]
    if not rows:
        return
    parts: dict[str, list[tuple[str, dict[Path, Any], dict[Path, str]]]] = {}
    for one in group:
        fixed = {path: one[1][path] for path in paths if path not in rows}
        forms = [_form_of(one[1][path]) for path in rows]
        parts.setdefault(json.dumps([[*fixed.values()], forms], sort_keys=True), []).append(one)
    for part in parts.values():
        columns = _columns(rows, [leaves for _, leaves, _ in part])
        fixed = {path: part[0][1][path] for path in paths if path not in rows}
        if columns and not any(map(is_cut, fixed.values())):
            yield _stream(name, columns, fixed, part)


def _sample_streams(name: str, group: Group) -> Iterator[Stream]:
    """The stream of calls that each have one sample: what differs between them is a column."""
    paths = [*group[0][1]]
    values = {path: [leaves[path] for _, leaves, _ in group] for path in paths}
    different, least = [path for path in paths if any(each != values[path][0] for each in values[path][1:])], _WORDS
    if not different:  # of one call, numbers are changed inside of what was seen
        different = [path for path in paths if len([*_numbers_of(values[path][0])]) > 1 and not is_cut(values[path][0])]
        for least in (_WORDS, 1) if not different else ():  # or its texts are shorter, first those of several words
            halves = {path: _halves(values[path][0], least) for path in paths}
            different = [path for path in paths if halves[path] != 2 * values[path][:1]]
            values.update((path, [values[path][0], *halves[path]]) for path in different)
            if different:
                break
    elif all(type(each) in (str, bool) for path in different for each in values[path]) and any(
        is_array(values[path][0]) for path in paths
    ):
        options: dict[str, list[Any]] = {}
        for one in group:
            options.setdefault(repr([one[1][path] for path in different]), []).append(one)
        for alike in options.values():
            yield from _sample_streams(name, alike)
        return
    elif len(group) < _FEW_CALLS:  # what differs may be a name alone
        values.update((path, [*values[path], *_halves(values[path][0], _WORDS)]) for path in different)
    columns = [Column(path, "list", entries=tuple(values[path])) for path in different]
    if columns and (len(columns[0].entries) > 1 or any(each.domain for each in columns)):
        # Of single words all but the first one may be options.
        for some in [columns, columns[:1]] if least == 1 and len(columns) > 1 else [columns]:
            fixed = {path: values[path][0] for path in paths if path not in [each.path for each in some]}
            yield _stream(name, some, fixed, group, one_sample=True)


def _halves(value: Any, least: int) -> list[Any]:
    return [_half(value, least, second=second) for second in (False, True)]


def _half(value: Any, least: int, *, second: bool) -> Any:
    """Return a value as JSON in which each text of so many words has the half of these; that of one its half."""
    if isinstance(value, str):
        words = value.split()
        parts = words if len(words) > 1 else [*value]
        half = len(parts) // 2
        shorter = (" " if parts is words else "").join(parts[half:] if second else parts[:half])
        return shorter if len(words) >= least and half else value
    if isinstance(value, list):
        return [_half(each, least, second=second) for each in value]
    for key in ("dict", "fields") if least > 1 else ():  # a word in an object may be its kind
        if isinstance(value, dict) and key in value:
            return {**value, key: {name: _half(each, least, second=second) for name, each in value[key].items()}}
    return value


def _stream(
    name: str, columns: Sequence[Column], fixed: Mapping[Path, Any], part: Group, *, one_sample: bool = False
) -> Stream:
    tests = tuple(dict.fromkeys(test for test, *_ in part))
    return Stream(name, tuple(columns), fixed, part[0][2], tests, one_sample, groups=_tied(columns))


def _usual(lengths: Mapping[Path, int | None]) -> int | None:
    """Return the length that most leaves have; of several the first one's."""
    counted = Counter(each for each in lengths.values() if each)
    return counted.most_common(1)[0][0] if counted else None


def _form_of(value: Any) -> Any:
    if is_array(value):
        return [value["array"], value["dtype"], len(value["shape"]), value["shape"][2:]]
    return "list" if isinstance(value, list) else next(iter(value))


def _columns(paths: Sequence[Path], calls: Sequence[Mapping[Path, Any]]) -> list[Column]:
    """Return the columns of some calls with the rows that were kept of all of them; none where that is one row."""
    entries: dict[Path, list[Any]] = {path: [] for path in paths}
    seeded = [path for path in paths if all(is_array(call[path]) and not call[path].get("rows") for call in calls)]
    for call in calls:
        kept = {path: _entries(call[path]) for path in paths if path not in seeded}
        rows = [*zip(*kept.values(), strict=False)]
        whole = [row for row in rows if not any(map(is_cut, row))]
        for path, column in zip(kept, zip(*(whole or rows), strict=True), strict=False):
            entries[path] += column
    if len(seeded) < len(paths) and max(map(len, entries.values())) < 2:
        return []
    columns = [_column(path, [call[path] for call in calls], tuple(entries[path])) for path in paths]
    columns.sort(key=lambda each: each.is_index)  # predictions and targets come first
    for each in columns:  # numbers that make no array are found here, and not in a check
        if each.is_array:
            _collated(each, [_entry(each, i) for i in range(len(each.entries))], "")
    return columns


def _entries(value: Any) -> list[Any]:
    if is_array(value):
        return list(value.get("rows", ()))
    return value if isinstance(value, list) else list(next(iter(value.values())))


def _column(path: Path, values: Sequence[Any], entries: tuple[Any, ...]) -> Column:
    first = values[0]
    if is_array(first) and not entries and math.prod(first["shape"][1:]) > _MOST_OF_A_ROW:
        raise UsageError(f"an array of the shape {first['shape']} has rows that are too large to be drawn")
    if not is_array(first):
        return Column(path, "list" if isinstance(first, list) else next(iter(first)), entries=entries)
    low = min((each["low"] for each in values if "low" in each), default=0.0)
    high = max((each["high"] for each in values if "high" in each), default=1.0)
    if "float" in first["dtype"] and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return Column(path, first["array"], first["dtype"], entries, tuple(first["shape"][1:]), low, high)


def _tied(columns: Sequence[Column]) -> tuple[tuple[int, ...], ...]:
    """Group columns in which an entry says something about the entry of another one, in the same row.

    Masks and padding: where one has 0 or its padding, another one always has one value. Labels and candidates: an
    entry of one is an item of the other, or a place in it.
    """
    home = {index: index for index in range(len(columns))}
    for one in home:
        for other in range(one):
            if _are_tied(columns[one], columns[other]) or _are_tied(columns[other], columns[one]):
                old, new = home[one], home[other]
                home.update((index, new) for index, now in home.items() if now == old)
    groups: dict[int, list[int]] = {}
    for index, root in home.items():
        groups.setdefault(root, []).append(index)
    return tuple(map(tuple, groups.values()))


def _are_tied(first: Column, second: Column) -> bool:
    if first.is_index and second.is_index:
        return True  # tables are joined by the names of their rows
    pairs = [*zip(first.entries, second.entries, strict=False)]
    lists = [(one, two) for one, two in pairs if isinstance(one, list) and isinstance(two, list)]
    if len(lists) == len(pairs) and pairs:
        lengths = {len(one) for one, _ in lists}
        if len(lengths) > 1 and all(len(one) == len(two) for one, two in lists):
            return True  # as long as each other, in every row
        return _masks(lists)
    if all(isinstance(two, list) and not isinstance(one, (list, dict)) for one, two in pairs) and pairs:
        return all(one in two for one, two in pairs)
    return False


def _masks(pairs: Sequence[tuple[list[Any], list[Any]]]) -> bool:
    """Return whether one value of the first is always beside one value of the second, and others are not."""
    beside: dict[Any, set[Any]] = {}
    for one, two in pairs:
        if len(one) != len(two) or any(isinstance(each, (list, dict)) for each in (*one, *two)):
            return False
        for a, b in zip(one, two, strict=True):
            beside.setdefault(a, set()).add(b)
    values = {b for found in beside.values() for b in found}
    sole = [found for found in beside.values() if len(found) == 1]
    return len(beside) == 2 and len(values) > 2 and len(sole) == 1


def _labels(values: Sequence[Any]) -> tuple[Any, ...]:
    found = {(type(each), each): each for each in values}
    return tuple(sorted(found.values(), key=lambda each: (str(type(each)), each))) if len(found) <= _LABELS else ()


def _numbers_of(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers_of(each)
    elif isinstance(value, dict) and "float" in value:
        yield float(value["float"])
    elif isinstance(value, dict) and "rows" in value:
        yield from _numbers_of(value["rows"])
    else:
        yield value


def _entry(column: Column, index: int) -> Any:
    if column.is_seeded:
        return index % _SEEDS
    return _frozen(column.entries[index % len(column.entries)])


def _frozen(entry: Any) -> Any:
    if isinstance(entry, list):
        return tuple(map(_frozen, entry))
    if isinstance(entry, dict) and [*entry] == ["float"]:
        return float(entry["float"])
    return entry


def _thawed(entry: Any) -> Any:
    return [_thawed(each) for each in entry] if isinstance(entry, tuple) else entry


def _with_seeds(row: Any, seeds: Any) -> Any:
    return tuple(entry if seed is None else seed for entry, seed in zip(row, seeds, strict=True))


def _shapes(row: Sequence[Any]) -> Any:
    return tuple(map(_shape, row))


def _shape(entry: Any) -> Any:
    """Return the lengths inside of an entry: entries of another shape may not fit beside the others."""
    if isinstance(entry, (list, tuple)):
        return (len(entry), *(_shape(each) for each in entry[:1])) if entry else (0,)
    return ()


def _are_alike(first: Column, second: Column) -> bool:
    """Return whether the entries of two columns may stand for each other, as predictions and targets of one kind."""
    if (first.container, first.dtype) != (second.container, second.dtype) or first.is_seeded != second.is_seeded:
        return False
    if first.is_seeded:
        return (first.trailing, first.low, first.high) == (second.trailing, second.low, second.high)
    if {*map(_shape, map(_frozen, first.entries))} != {*map(_shape, map(_frozen, second.entries))}:
        return False
    if first.numbers and second.numbers:
        inside = min(first.numbers) <= min(second.numbers) and max(first.numbers) >= max(second.numbers)
        kinds = {type(each) for column in (first, second) for each in column.numbers}
        return len(kinds) == 1 and (inside or float not in kinds)
    return all(isinstance(each, str) for each in (*first.entries, *second.entries))


def _corrupted(places: Sequence[int], row: Any, number: float) -> Any:
    """Return the row with the first fraction of it replaced, in one of these columns."""
    for index in places:
        if isinstance(next(_numbers_of(row[index]), None), float):
            return (*row[:index], _replaced(row[index], number, 0), *row[index + 1 :])
    return row


def _replaced(entry: Any, value: Any, place: int) -> Any:
    """Return an entry with one of its numbers replaced, the one at a place."""
    if isinstance(entry, dict) and "rows" in entry:
        return {**entry, "rows": _thawed(_replaced(_frozen(entry["rows"]), value, place))}
    if not isinstance(entry, tuple):
        return value
    at = place % len(entry) if entry else 0
    return (*entry[:at], _replaced(entry[at], value, place // len(entry)), *entry[at + 1 :]) if entry else entry


def _collated(column: Column, entries: Sequence[Any], package: str) -> Any:
    if not column.is_array:
        items = (decoded(_thawed(each), package) for each in entries)
        return tuple(items) if column.container == "tuple" else [*items]
    if column.is_seeded:
        return _seeded(column, entries)
    widths = {len(each) for each in column.entries if isinstance(each, list)}
    rows = [*entries]
    if len(widths) > 1 and rows:
        width, fill = max(map(len, rows)), _padding(column)
        deep = next((len(row[0]) for row in rows if row and isinstance(row[0], tuple)), 0)
        rows = [(*row, *[(fill,) * deep if deep else fill] * (width - len(row))) for row in rows]
    return made_array(column.container, column.dtype, _thawed(tuple(rows)), (0, *_array_shape(column.entries[0])))


def _array_shape(row: Any) -> tuple[int, ...]:
    return (len(row), *(_array_shape(row[0]) if row else ())) if isinstance(row, list) else ()


def _padding(column: Column) -> Any:
    """Return the number with which most of the padded rows end: the one that a row ends with twice; else 0."""
    ends = [row[-1] for row in column.entries if len(row) > 1 and row[-1] == row[-2] and not isinstance(row[-1], list)]
    return Counter(ends).most_common(1)[0][0] if ends else 0


def _seeded(column: Column, seeds: Sequence[int]) -> Any:
    import numpy

    made = [drawn(seed, column.dtype, column.low, column.high, column.trailing) for seed in seeds]
    whole = numpy.stack(made) if made else numpy.zeros((0, *column.trailing))
    return made_array(column.container, column.dtype, whole, (0, *column.trailing))


def _arguments(whole: Mapping[str, Any], first: Sequence[str]) -> Arguments | tuple[Any, ...] | dict[str, Any]:
    """Return the first arguments, and those of ``*args``, by position, and the others by name."""
    rest = dict(whole)
    positional = [rest.pop(name) for name in first]
    positional += [rest.pop(name) for name in [*rest] if name.isdigit()]
    return Arguments(tuple(positional), rest).collated  # type: ignore[no-any-return]
