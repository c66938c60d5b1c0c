"""The samples of a stream, kept as they were when they were added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pytest_evalcheck.fixes.accumulator_validation import checked_keys, checked_peer


class SampleStream:
    """An accumulator that keeps rows of several fields, for metrics that need all samples at once.

    It owns its data: rows are copied when they are added and when they are returned, so that neither a buffer the
    caller refills nor a result the caller writes into changes the state (EC207). A batch is validated as a whole
    before any of it is kept, so that an invalid batch does not change the state (EC210). Rows keep their dtype and
    order (EC203, EC212), an empty batch changes nothing (EC202), and NaN is kept (EC216).

    ``fields`` are the names, in the order `update` takes them, or a mapping from names to templates: an empty
    tensor of the dtype and shape of the field, such as ``torch.empty(0, 5)``, or None to accept those of the first
    rows. With templates `compute` also works before the first row. Rows are kept on ``device``.

    >>> samples = SampleStream({"scores": torch.empty(0), "labels": torch.empty(0, dtype=torch.int64)})
    >>> samples.update(torch.tensor([0.2, 0.9]), labels=torch.tensor([0, 1]))
    >>> samples.compute()["labels"].tolist()
    [0, 1]

    Symptom: all samples get the numbers of the last batch, because a loader fills one buffer again.

    Before::

        class Median(Metric):
            def update(self, value):
                self.rows.append(value)

            def compute(self):
                return torch.cat(self.rows).median()

    After::

        from pytest_evalcheck.fixes import SampleStream


        class Median(SampleStream):
            def compute(self):
                return super().compute()["value"].median()


        median = Median(["value"])

    Costs: one copy of every sample.

    Target: ec.metric(inputs=es.values())

    Shown by: EC207.
    """

    def __init__(
        self, fields: Iterable[str] | Mapping[str, Tensor | None], *, device: torch.device | str = "cpu"
    ) -> None:
        templates = fields if isinstance(fields, Mapping) else _unknown_templates(fields)
        if not templates:
            raise ValueError('fields: expected at least one name, such as ("scores", "labels"), got none')
        self._templates = {name: _checked_template(name, template) for name, template in templates.items()}
        self._device = torch.device(device)
        self._batches: list[dict[str, Tensor]] = []

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self._templates)

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self._device

    def __len__(self) -> int:
        return sum(len(batch[self.fields[0]]) for batch in self._batches)

    def __copy__(self) -> SampleStream:
        # Batches are never written to, the list of them is.
        copied = SampleStream.__new__(SampleStream)
        copied.__dict__.update(self.__dict__, _batches=list(self._batches))
        return copied

    def update(self, *rows: Tensor, **named: Tensor) -> None:
        """Copy one batch: a tensor per field, by position or by name, of shape ``(n, ...)`` with one n for all.

        TypeError for a missing, unknown or repeated field, for anything but a dense tensor and for another dtype than
        the rows before; ValueError for unequal n and for rows of another shape. Nothing is kept of an invalid batch.
        """
        self._append(self._copied(rows, named))

    def forward(self, *rows: Tensor, **named: Tensor) -> dict[str, Tensor]:
        """Copy one batch, and return another copy of it."""
        batch = self._copied(rows, named)
        value = {name: tensor.clone() for name, tensor in batch.items()}
        self._append(batch)
        return value

    __call__ = forward

    def compute(self) -> dict[str, Tensor]:
        """Return all rows so far, a tensor of shape ``(n, ...)`` per field, in the order they were added.

        Without any row a field is a copy of its template; ValueError for a field without template.
        """
        if self._batches:
            return {name: torch.cat([batch[name] for batch in self._batches]) for name in self.fields}
        empty = {}
        for name, template in self._templates.items():
            if template is None:
                raise ValueError(
                    f"compute: there are no samples, and no template says what an empty {name!r} is; "
                    f"expected samples, or SampleStream({{{name!r}: torch.empty(0, ...), ...}})"
                )
            empty[name] = template.to(self._device, copy=True)
        return empty

    def reset(self) -> None:
        """Forget every row, and the dtypes and shapes of the first ones."""
        self._batches = []

    def merge(self, *others: SampleStream) -> None:
        """Append the rows of other shards in the order given; the shards do not change."""
        for other in others:
            checked_peer(other, SampleStream)
            if other.fields != self.fields:
                raise ValueError(f"merge: expected SampleStream of the fields {self.fields}, got {other.fields}")
        joined = list(self._batches)
        for other in others:
            if other._batches:
                self._check(other._batches[0], joined[0] if joined else None)
            joined += [self._here(batch) for batch in other._batches]
        self._batches = joined

    def state_dict(self) -> dict[str, Tensor]:
        """Return a copy of all rows; an empty dict when there are none and a field has no template."""
        known = self._batches or all(template is not None for template in self._templates.values())
        return self.compute() if known else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load copies of what `state_dict` returned; a state that does not fit raises an error and changes nothing."""
        checked_keys(state, self.fields if state else ())
        if not state:
            self.reset()
            return
        self._check(state, None)
        batch = self._here({name: tensor.detach().clone() for name, tensor in state.items()})
        self.reset()
        self._append({name: batch[name] for name in self.fields})

    def to(self, device: torch.device | str) -> SampleStream:
        """Move the rows, in place, and return this accumulator."""
        device = torch.device(device)
        self._batches = [{name: rows.to(device) for name, rows in batch.items()} for batch in self._batches]
        self._device = device
        return self

    def _append(self, batch: dict[str, Tensor]) -> None:
        if len(batch[self.fields[0]]):
            self._batches.append(batch)

    def _here(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: rows.to(self._device) for name, rows in batch.items()}

    def _copied(self, rows: tuple[Tensor, ...], named: Mapping[str, Tensor]) -> dict[str, Tensor]:
        fields = self.fields
        given = {**dict(zip(fields, rows, strict=False)), **named}
        if len(rows) + len(named) != len(given) or set(given) != set(fields):
            raise TypeError(
                f"expected one tensor for each of the fields {fields}, got {len(rows)} by position"
                + (f" and {sorted(named)} by name" if named else "")
            )
        batch = {name: given[name] for name in fields}
        self._check(batch, self._batches[0] if self._batches else None)
        return {name: tensor.detach().to(self._device, copy=True) for name, tensor in batch.items()}

    def _check(self, batch: Mapping[str, Tensor], earlier: Mapping[str, Tensor] | None) -> None:
        for name, tensor in batch.items():
            if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                got = tensor.layout if isinstance(tensor, Tensor) else type(tensor).__name__
                raise TypeError(f"{name}: expected a dense tensor, got {got}; torch.as_tensor makes one")
            if not tensor.dim():
                raise ValueError(
                    f"{name}: expected a tensor of shape (n, ...), one row per sample, got one of shape ()"
                )
        lengths = {name: len(tensor) for name, tensor in batch.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"expected as many rows in every field, got {lengths}")
        if not any(lengths.values()):
            return
        for name, tensor in batch.items():
            like = self._templates[name]
            if like is None and earlier is not None:
                like = earlier[name]
            if like is None:
                continue
            if tensor.dtype != like.dtype:
                raise TypeError(f"{name}: expected {like.dtype}, got {tensor.dtype}; cast it with .to({like.dtype})")
            if tensor.shape[1:] != like.shape[1:]:
                expected, got = tuple(like.shape[1:]), tuple(tensor.shape[1:])
                raise ValueError(f"{name}: expected rows of shape {expected}, got {got}")


def _checked_template(name: str, template: Tensor | None) -> Tensor | None:
    if not isinstance(name, str):
        raise TypeError(f"fields: expected names, got {name!r}")
    if template is None:
        return None
    if not isinstance(template, Tensor):
        raise TypeError(f"fields: expected an empty tensor or None for {name!r}, got {type(template).__name__}")
    if not template.dim() or len(template):
        raise ValueError(
            f"fields: expected an empty tensor such as torch.empty(0, 5) for {name!r}, got one of shape "
            f"{tuple(template.shape)}"
        )
    return template.detach().clone()


def _unknown_templates(fields: Iterable[str]) -> dict[str, Tensor | None]:
    if isinstance(fields, str):
        raise TypeError(f"fields: expected a sequence of names, such as ({fields!r},), got a string")
    names = list(fields)
    if len(set(names)) < len(names):
        raise ValueError(f"fields: expected different names, got {names}")
    return dict.fromkeys(names)
