"""Parts of a generation of your own: prompts that are refused, positions and masks of a step, rows that stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.batch_padding import CacheError, require_size


def require_prompts(
    prompts: Tensor | Sequence[Sequence[int]],
    *,
    vocabulary: int | None = None,
    mask: Tensor | None = None,
    max_length: int | None = None,
    new_tokens: int = 0,
    where: str = "prompts",
) -> list[list[int]]:
    """Return the ids of every prompt without its padding; `CacheError` names the row of a prompt that is refused.

    Refused are a prompt without tokens or of padding alone, an id outside the vocabulary, and a prompt that leaves no
    room for ``new_tokens`` in the ``max_length`` positions of a cache. ``prompts`` are rows of ids of any lengths, or a
    tensor (rows, longest) with the ``mask`` that is 0 at its padding.

    >>> require_prompts(torch.tensor([[0, 4], [5, 6]]), mask=torch.tensor([[0, 1], [1, 1]]))
    [[4], [5, 6]]

    Symptom: an empty prompt or an unknown id gives an answer, or changes the answers of other rows.

    Before::

        def checked(prompts):
            return [[token % vocabulary for token in row] or [0] for row in prompts]

    After::

        from pytest_evalcheck.fixes.caches import require_prompts

        def checked(prompts):
            return require_prompts(prompts, vocabulary=vocabulary)

    Costs: one look at every id; ids of another device are copied to the CPU.

    Target: ec.decoder(inputs=es.prompts(vocab=vocabulary)) with generation(checked=checked)

    Shown by: EC312.
    """
    rows = prompts.tolist() if isinstance(prompts, Tensor) else [list(row) for row in prompts]
    if mask is not None:
        if [len(row) for row in rows] != [mask.shape[-1]] * len(mask):
            raise CacheError(f"mask: expected one entry for each id, got {tuple(mask.shape)} for {len(rows)} rows")
        rows = [[token for token, real in zip(*pair, strict=True) if real] for pair in zip(rows, mask, strict=True)]
    for number, row in enumerate(rows):
        here = f"{where}[{number}]"
        if not row:
            got = "none; begin it with a token such as bos" if mask is None else "padding alone; is a prompt empty?"
            raise CacheError(f"{here}: expected one token or more, got {got}")
        if max_length is not None and len(row) + new_tokens > max_length:
            raise CacheError(
                f"{here}: {len(row)} tokens and {new_tokens} new ones do not fit into {max_length} positions; "
                f"cut it to {max(0, max_length - new_tokens)} or generate fewer"
            )
        for token in row:
            if vocabulary is not None:
                require_id(token, vocabulary, here)
    return rows


def require_id(token: object, vocabulary: int, where: str) -> None:
    """Raise `CacheError` for anything but an id of the vocabulary."""
    if not isinstance(token, int) or not 0 <= token < vocabulary:
        raise CacheError(f"{where}: expected ids from 0 to {vocabulary - 1}, got {token!r}")


def step_positions(ids: Tensor, seen: int, real: Tensor | None = None) -> Tensor:
    """Return the position of each new id in the text of its row, (rows, new), where a cache holds ``seen`` positions.

    ``real`` is the attention mask of the whole text, (rows, seen + new), which is 0 at padding: padding has no
    position, so that a row has the same positions with it and without. `CacheError` for a mask of another width, such
    as that of the new ids alone.

    >>> step_positions(torch.tensor([[7]]), 3), step_positions(torch.tensor([[7]]), 3, torch.tensor([[0, 0, 1, 1]]))
    (tensor([[3]]), tensor([[1]]))

    Symptom: with a cache, or with padding, a text gets other logits than without.

    Before::

        def positions(ids, seen, real):
            return torch.arange(ids.shape[1]).expand(ids.shape)

    After::

        from pytest_evalcheck.fixes.caches import step_positions

        def positions(ids, seen, real):
            return step_positions(ids, seen, real)

    Costs: one cumulative sum of the mask for each step.

    Target: ec.decoder(inputs=es.prompts(vocab=vocabulary)) with generation(positions=positions)

    Shown by: EC301, EC306.
    """
    new = ids.shape[1]
    if real is None:
        return torch.arange(seen, seen + new, device=ids.device).expand(len(ids), new)
    return (_checked(real, ids, seen).long().cumsum(1) - 1).clamp(min=0)[:, seen:]


def step_mask(ids: Tensor, seen: int, real: Tensor | None = None) -> Tensor:
    """Return what each new id attends to, True in (rows or 1, new, seen + new): itself, and the real ids before it.

    The arguments are those of `step_positions`. Padding attends to itself, because attention to nothing is NaN.

    >>> step_mask(torch.tensor([[7]]), 3, torch.tensor([[0, 1, 1, 1]])).int().tolist()
    [[[0, 1, 1, 1]]]

    Symptom: a new token attends to the oldest tokens alone, or to padding.

    Before::

        def attends(ids, seen, real):
            new = ids.shape[1]
            return torch.ones(1, new, seen + new, dtype=torch.bool).tril()

    After::

        from pytest_evalcheck.fixes.caches import step_mask

        def attends(ids, seen, real):
            return step_mask(ids, seen, real)

    Costs: a mask of one bool for each pair of a new token and a token, for each step.

    Target: ec.decoder(inputs=es.prompts(vocab=vocabulary)) with generation(attends=attends)

    Shown by: EC301, EC306.
    """
    keys = torch.arange(seen + ids.shape[1], device=ids.device)
    queries = keys[seen:, None]
    mask = (keys <= queries)[None]
    return mask if real is None else (mask & _checked(real, ids, seen).bool()[:, None]) | (keys == queries)


def _checked(real: Tensor, ids: Tensor, seen: int) -> Tensor:
    expected = (len(ids), seen + ids.shape[1])
    if tuple(real.shape) != expected:
        raise CacheError(
            f"real: expected a mask of the whole text, {expected}: {seen} positions of the cache and {ids.shape[1]} "
            f"new ids, got {tuple(real.shape)}"
        )
    return real


class StopFlags:
    """A flag for every row of a batch that generates: a row ends at its own stop token, and nothing after it counts.

    ``tokens`` are the new tokens of each row so far, with its stop token and without anything after it.

    >>> flags = StopFlags(rows=2, stop_tokens=[9])
    >>> [flags.add(torch.tensor(step)).tolist() for step in ([9, 4], [5, 9])], flags.all_stopped
    ([[9, 4], [9, 9]], True)
    >>> flags.tokens
    [[9], [4, 9]]

    Symptom: a row ends where another one does, or its answer goes on after its stop token.

    Before::

        def generate(rows, next_tokens, count, stop):
            tokens, found = None, []
            while len(found) < count and not (found and set(tokens.tolist()) & set(stop)):
                tokens = next_tokens(tokens)
                found.append(tokens)
            return torch.stack(found, 1).tolist()

    After::

        from pytest_evalcheck.fixes.caches import StopFlags

        def generate(rows, next_tokens, count, stop):
            flags, tokens = StopFlags(rows, stop), None
            for _ in range(count):
                if not flags.all_stopped:
                    tokens = flags.add(next_tokens(tokens))
            return flags.tokens

    Costs: the tokens of each step are copied to the CPU.

    Target: ec.decoder(inputs=es.prompts(vocab=vocabulary)) with generation(generate=generate)

    Shown by: EC310.
    """

    def __init__(self, rows: int, stop_tokens: Iterable[int]) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(require_size(rows, "rows"))]
        self._stops, self._going = frozenset(stop_tokens), set(range(rows))

    @property
    def all_stopped(self) -> bool:
        """Return whether every row has ended."""
        return not self._going

    def add(self, tokens: Tensor) -> Tensor:
        """Add the next token of every row, (rows,), and return what the model is given next: ended rows repeat theirs.

        `CacheError` for another number of rows.
        """
        if tuple(tokens.shape) != (len(self.tokens),):
            raise CacheError(f"tokens: expected one for each of {len(self.tokens)} rows, got {tuple(tokens.shape)}")
        for row, token in enumerate(tokens.tolist()):
            if row in self._going:
                self.tokens[row].append(token)
                if token in self._stops:
                    self._going.discard(row)
        return torch.tensor([row[-1] for row in self.tokens], dtype=tokens.dtype, device=tokens.device)
