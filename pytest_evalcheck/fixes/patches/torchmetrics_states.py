"""Patches of torchmetrics: states that are shared, lost, gathered in pieces, or left on another device."""

from __future__ import annotations

import textwrap

from pytest_evalcheck.fixes.patches.patch import Patch, append, begin, put_after, put_before, replace

_BOTH_RANKS = """
def other_rank(metric):
    states, calls = [getattr(metric, name) for name in metric._reductions], []

    def gather(state, group=None):
        other = states[len(calls)]
        calls.append(other)
        if isinstance(other, list):
            other = torch.cat(other)
        assert other.ndim == state.ndim, "ranks gather tensors of other numbers of dimensions"
        return [state, other]

    return gather
"""

PATCHES: tuple[Patch, ...] = (
    Patch(
        mends=(
            "torchmetrics-list-state-keeps-references",
            "torchmetrics-scores-of-boxes-kept-by-reference",
            "torchmetrics-images-kept-by-reference",
        ),
        says="a list state holds copies of the tensors that update() puts into it",
        edits={
            "torchmetrics.metric:Metric._wrap_update": (
                put_after(
                    "self._update_count += 1",
                    "states = {key: getattr(self, key) for key in self._defaults}\n"
                    "counts = {key: len(state) for key, state in states.items() if isinstance(state, list)}",
                ),
                put_before(
                    "if self.compute_on_cpu:",
                    """\
for key, count in counts.items():
    state = getattr(self, key)
    if isinstance(state, list):
        with torch.set_grad_enabled(self._enable_grad):
            state[count:] = [x.clone() if isinstance(x, Tensor) else x for x in state[count:]]""",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.classification import BinaryAveragePrecision

            metric = BinaryAveragePrecision()
            scores, labels = torch.empty(2), torch.empty(2, dtype=torch.long)
            for s, t in (([0.9, 0.8], [1, 1]), ([0.7, 0.6], [0, 0])):
                scores.copy_(torch.tensor(s))
                labels.copy_(torch.tensor(t))
                metric.update(scores, labels)
            assert metric.compute() == 1
        """,
    ),
    Patch(
        mends=("torchmetrics-collection-counts-rejected-batch",),
        says="a collection counts a batch in none of its metrics where one of them refuses it",
        edits={
            "torchmetrics.collections:MetricCollection": (
                append(
                    """\
def _restorer(self) -> Any:
    \"\"\"Return a function that gives the metrics, and those inside of them, the states that they have now.\"\"\"
    before = [
        (
            metric,
            {k: v.detach().clone() if isinstance(v, Tensor) else list(v) for k, v in metric.metric_state.items()},
            metric._update_count,
        )
        for member in self.values(copy_state=False)
        for metric in member.modules()
        if isinstance(metric, Metric)
    ]

    def restore() -> None:
        for metric, states, count in before:
            for name, value in states.items():
                setattr(metric, name, value)
            metric._update_count, metric._computed = count, None

    return restore"""
                ),
            ),
            "torchmetrics.collections:MetricCollection.forward": (
                replace(
                    'return self._compute_and_reduce("forward", *args, **kwargs)',
                    """\
restore = self._restorer()
try:
    return self._compute_and_reduce("forward", *args, **kwargs)
except BaseException:
    restore()
    raise""",
                ),
            ),
            "torchmetrics.collections:MetricCollection.update": (
                begin("restore = self._restorer()"),
                replace(
                    "m0.update(*args, **m0._filter_kwargs(**kwargs))",
                    """\
try:
    m0.update(*args, **m0._filter_kwargs(**kwargs))
except BaseException:
    restore()
    raise""",
                ),
                replace(
                    "m.update(*args, **m_kwargs)",
                    "try:\n    m.update(*args, **m_kwargs)\nexcept BaseException:\n    restore()\n    raise",
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics import MetricCollection
            from torchmetrics.aggregation import CatMetric, SumMetric
            from torchmetrics.classification import BinaryAccuracy

            class Refuses(SumMetric):
                def update(self, value):
                    super().update(value)
                    if value < 0:
                        raise ValueError("refused")

            for groups in (True, False):
                both = MetricCollection({"a": CatMetric(), "b": Refuses()}, compute_groups=groups)
                for value in (-1.0, 1.0, -2.0, 2.0):
                    for feed in (both.update, both):
                        try:
                            feed(torch.tensor(value))
                        except ValueError:
                            pass
                found = both.compute()
                assert found["a"].tolist() == [1.0, 1.0, 2.0, 2.0]
                assert found["b"] == 6
        """,
    ),
    Patch(
        mends=("torchmetrics-merge-state-weights-by-updates",),
        says="merge_state() weights a state that is averaged by the updates of both metrics",
        edits={
            "torchmetrics.metric:Metric.merge_state": (
                begin("incoming_count = 1"),
                replace(
                    "incoming_state = incoming_state.metric_state",
                    "incoming_count = incoming_state._update_count\nincoming_state = incoming_state.metric_state",
                ),
                put_before(
                    "self._reduce_states(incoming_state)",
                    """\
share = incoming_count / max(self._update_count + incoming_count, 1)
means = {
    attr: (1 - share) * getattr(self, attr) + share * incoming_state[attr]
    for attr, reduction in self._reductions.items()
    if reduction == dim_zero_mean and attr in incoming_state
}""",
                ),
                put_after(
                    "self._reduce_states(incoming_state)",
                    "for attr, mean in means.items():\n    setattr(self, attr, mean)\n"
                    "self._update_count += incoming_count",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.image import PeakSignalNoiseRatio

            target = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
            empty, full = PeakSignalNoiseRatio(data_range=1.0), PeakSignalNoiseRatio(data_range=1.0)
            full.update(target * 0.9, target)
            empty.merge_state(full)
            assert empty.compute() == full.compute()
            full.merge_state(empty)
            assert full.compute() == empty.compute()
        """,
    ),
    Patch(
        mends=("torchmetrics-running-averages-nothing",),
        says="Running averages a state that is reduced by its mean over the updates of its window",
        edits={
            "torchmetrics.wrappers.running:Running.compute": (
                put_before(
                    "self.base_metric._update_count = self._num_vals_seen",
                    """\
from torchmetrics.utilities.data import dim_zero_mean

# a rank without data has the places that are synchronised
seen = range(min(self._num_vals_seen, self.window) or self.window)
for key, reduction in self.base_metric._reductions.items():
    if reduction == dim_zero_mean:
        setattr(self.base_metric, key, sum(getattr(self, f"{key}_{i}") for i in seen) / len(seen))""",
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.image import PeakSignalNoiseRatio
            from torchmetrics.wrappers import Running

            target = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
            alone, running = PeakSignalNoiseRatio(data_range=1.0), Running(PeakSignalNoiseRatio(data_range=1.0), 2)
            for i in range(4):
                running.update(target[i] * 0.9, target[i])
            for i in (2, 3):
                alone.update(target[i] * 0.9, target[i])
            assert torch.isclose(running.compute(), alone.compute())
            empty = Running(PeakSignalNoiseRatio(data_range=1.0), 2)
            others = [getattr(running, name) for name in running._reductions]
            empty.sync(
                dist_sync_fn=lambda state, group=None: [state, others.pop(0)], distributed_available=lambda: True
            )
            assert torch.isclose(empty.compute(), alone.compute())
        """,
    ),
    Patch(
        mends=("torchmetrics-running-wrapper-forgets-its-place", "torchmetrics-running-window-not-saved"),
        says="the state dict of Running holds the number of values that it has seen",
        edits={
            "torchmetrics.wrappers.running:Running": (
                append(
                    """\
def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
    \"\"\"Return the states, and the place in the window beside them.\"\"\"
    import torch

    destination = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
    if any(self._persistent.values()):
        destination[prefix + "_num_vals_seen"] = torch.tensor(self._num_vals_seen)
    return destination

def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
    self._num_vals_seen = int(state_dict.pop(prefix + "_num_vals_seen", self._num_vals_seen))
    super()._load_from_state_dict(state_dict, prefix, *args)"""
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics.aggregation import SumMetric
            from torchmetrics.wrappers import Running

            saved, loaded = (torch.nn.ModuleDict({"sum": Running(SumMetric(), window=2)}) for _ in range(2))
            for module in (saved, loaded):
                module["sum"].persistent(True)
            saved["sum"].update(1.0)
            loaded.load_state_dict(saved.state_dict())
            loaded["sum"].update(2.0)
            assert loaded["sum"].compute() == 3
        """,
    ),
    Patch(
        mends=("torchmetrics-extremes-of-nan-are-infinite",),
        says="the extremes of MinMaxMetric are NaN until there was a number",
        edits={
            "torchmetrics.wrappers.minmax:MinMaxMetric.__init__": (
                replace('torch.tensor(float("inf"))', 'torch.tensor(float("nan"))'),
                replace('torch.tensor(float("-inf"))', 'torch.tensor(float("nan"))'),
            ),
            "torchmetrics.wrappers.minmax:MinMaxMetric.compute": (
                replace(
                    "self.max_val = val if self.max_val.to(val.device) < val",
                    "self.max_val = val if self.max_val.isnan() or self.max_val.to(val.device) < val",
                ),
                replace(
                    "self.min_val = val if self.min_val.to(val.device) > val",
                    "self.min_val = val if self.min_val.isnan() or self.min_val.to(val.device) > val",
                ),
            ),
        },
        test="""
            import torch
            from torchmetrics.aggregation import CatMetric
            from torchmetrics.wrappers import MinMaxMetric

            metric = MinMaxMetric(CatMetric(nan_strategy="disable"))
            seen = []
            for value in (float("nan"), 2.0, float("nan"), 1.0, 3.0):
                metric._base_metric.reset()
                metric.update(torch.tensor([value]))
                extremes = metric.compute()
                seen.append([extremes["min"].item(), extremes["max"].item()])
                metric._computed = None
            assert str(seen) == str([[float("nan")] * 2, [2.0, 2.0], [2.0, 2.0], [1.0, 2.0], [1.0, 3.0]])
        """,
    ),
    Patch(
        mends=("torchmetrics-scalar-counts-of-a-batch-of-one", "torchmetrics-samplewise-counts-of-one-sample"),
        says="samplewise counts of a single sample keep their axis of samples",
        edits={
            "torchmetrics.functional.classification.stat_scores:_binary_stat_scores_compute": (
                begin('if multidim_average == "samplewise":\n    return torch.stack([tp, fp, tn, fn, tp + fn], dim=1)'),
            ),
        }
        | {
            f"torchmetrics.functional.classification.stat_scores:{function}": tuple(
                replace(f"{count}.sum(sum_dim).squeeze()", f"{count}.sum(sum_dim)")
                for count in (
                    "tp = ((target == preds) & (target == 1))",
                    "fn = ((target != preds) & (target == 1))",
                    "fp = ((target != preds) & (target == 0))",
                    "tn = ((target == preds) & (target == 0))",
                )
            )
            for function in ("_binary_stat_scores_update", "_multilabel_stat_scores_update")
        },
        test="""
            import torch
            from torchmetrics.classification import BinaryStatScores, MultilabelStatScores
            from torchmetrics.functional.classification import binary_stat_scores

            preds, target = torch.tensor([[0.9, 0.1, 0.9]] * 3), torch.tensor([[1, 0, 0]] * 3)
            metric = BinaryStatScores(multidim_average="samplewise")
            metric.update(preds[:1], target[:1])
            assert metric.compute().shape == (1, 5)
            assert metric.tp[0].shape == (1,)
            metric.update(preds[1:], target[1:])
            assert metric.compute().shape == (3, 5)
            found = binary_stat_scores(preds[:1], target[:1], multidim_average="samplewise")
            assert found.tolist() == [[1, 1, 1, 0, 1]]
            metric = MultilabelStatScores(3, multidim_average="samplewise", average=None)
            preds, target = preds.unsqueeze(-1), target.unsqueeze(-1)
            for rows in (slice(1), slice(1, 3)):
                metric.update(preds[rows], target[rows])
            assert metric.compute().shape == (3, 3, 5)
        """,
    ),
    Patch(
        mends=("torchmetrics-samplewise-exact-match-averages-integers",),
        says="ranks keep the number of labels of a sample, an integer, by its maximum",
        edits={
            f"torchmetrics.classification.exact_match:{cls}.__init__": (replace('else "mean"', 'else "max"'),)
            for cls in ("MulticlassExactMatch", "MultilabelExactMatch")
        }
        | {
            f"torchmetrics.classification.exact_match:{cls}.update": (
                replace("self.total = total", "self.total = total.reshape(1)"),
            )
            for cls in ("MulticlassExactMatch", "MultilabelExactMatch")
        },
        test=f"""
            import torch
            from torchmetrics.classification import MulticlassExactMatch, MultilabelExactMatch
{textwrap.indent(_BOTH_RANKS, " " * 12)}
            for make, target in (
                (lambda: MulticlassExactMatch(3, multidim_average="samplewise"), torch.tensor([[0, 1], [1, 2]])),
                (lambda: MultilabelExactMatch(2, multidim_average="samplewise"), torch.ones(2, 2, 3, dtype=torch.long)),
            ):
                rank, empty = make(), make()
                rank.update(target, target)
                whole = rank.compute()
                for other, expected in ((rank, whole.repeat(2)),):
                    rank.sync(dist_sync_fn=other_rank(other), distributed_available=lambda: True)
                    assert torch.equal(rank.compute.__wrapped__(), expected)
                    rank.unsync()
                one = make()
                one.update(target[:1], target[:1])
                assert one.total.shape == empty.total.shape
        """,
    ),
    Patch(
        mends=("torchmetrics-r2-scalar-states-of-empty-rank",),
        says="a rank without data gives its sums of R2Score and ExplainedVariance the shape of those of other ranks",
        edits={
            f"torchmetrics.regression.{where}": (
                append(
                    f"""\
def _sync_dist(self, dist_sync_fn: Any, process_group: Any = None) -> None:
    \"\"\"Gather the number of outputs first, which a rank without data does not know.\"\"\"
    own = tensor(self.sum_error.numel() if self.sum_error.ndim else 0, device=self.device)
    outputs = max(int(size) for size in dist_sync_fn(own, group=process_group or self.process_group))
    if outputs and not self.{count}:
        for name in {names}:
            setattr(self, name, getattr(self, name).new_zeros(outputs))
    super()._sync_dist(dist_sync_fn, process_group=process_group)"""
                ),
            )
            for where, count, names in (
                ("r2:R2Score", "total", ("sum_squared_error", "sum_error", "residual")),
                (
                    "explained_variance:ExplainedVariance",
                    "num_obs",
                    ("sum_error", "sum_squared_error", "sum_target", "sum_squared_target"),
                ),
            )
        },
        test="""
            import torch
            from torchmetrics.regression import ExplainedVariance, R2Score

            data = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[1.5, 2.0], [3.0, 4.0]])
            for cls in (R2Score, ExplainedVariance):
                full, empty = cls(multioutput="raw_values"), cls(multioutput="raw_values")
                full.update(*data)
                others = [torch.tensor(2), *(getattr(full, name) for name in full._reductions)]

                def gather(state, group=None):
                    assert state.shape == others[0].shape
                    return [state, others.pop(0)]

                empty.sync(dist_sync_fn=gather, distributed_available=lambda: True)
                assert torch.equal(empty.compute.__wrapped__(), full.compute())
                empty.unsync()
                assert not empty.sum_error.ndim
        """,
    ),
)
