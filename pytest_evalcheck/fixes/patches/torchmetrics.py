"""Patches of torchmetrics: its base class, collections, aggregators and wrappers."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches import (
    torchmetrics_domains,
    torchmetrics_functional,
    torchmetrics_numbers,
    torchmetrics_states,
    torchmetrics_tasks,
)
from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, begin, put_after, put_before, replace

LIBRARY = Library(
    "torchmetrics",
    "1.9",
    "1.10",
    source="src/",
    patches=(
        Patch(
            mends=("torchmetrics-compute-returns-its-cache",),
            says="compute() returns a copy of the value that it keeps",
            edits={
                "torchmetrics.metric:Metric._wrap_compute": (
                    replace(
                        "return self._computed",
                        "return apply_to_collection(self._computed, Tensor, lambda x: x.clone())",
                    ),
                    replace(
                        "self._computed = value",
                        "self._computed = apply_to_collection(value, Tensor, lambda x: x.clone())",
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics.aggregation import SumMetric

                metric = SumMetric()
                metric.update(2.0)
                metric.compute().add_(1)
                metric.compute().add_(1)
                assert metric.compute() == 2
            """,
        ),
        Patch(
            mends=("torchmetrics-merge-state-keeps-the-cached-value",),
            says="merge_state() drops the value that compute() has cached",
            edits={
                "torchmetrics.metric:Metric.merge_state": (
                    put_after("self._reduce_states(incoming_state)", "self._computed = None"),
                )
            },
            test="""
                from torchmetrics.aggregation import SumMetric

                one, other = SumMetric(), SumMetric()
                one.update(1.0)
                other.update(2.0)
                assert one.compute() == 1
                one.merge_state(other)
                assert one.compute() == 3
            """,
        ),
        Patch(
            mends=("torchmetrics-load-keeps-the-cached-value",),
            says="load_state_dict() drops the value that compute() has cached",
            edits={
                "torchmetrics.metric:Metric._load_from_state_dict": (
                    put_before("for key in self._defaults:", "self._computed = None"),
                )
            },
            test="""
                from torchmetrics.aggregation import SumMetric

                one, other = SumMetric(), SumMetric()
                one.persistent(True)
                other.persistent(True)
                one.update(1.0)
                other.update(2.0)
                assert one.compute() == 1
                one.load_state_dict(other.state_dict())
                assert one.compute() == 2
            """,
        ),
        Patch(
            mends=("torchmetrics-wrapper-not-persistent",),
            says="persistent() of a wrapper is also that of the metrics inside",
            edits={
                "torchmetrics.wrappers.abstract:WrapperMetric": (
                    append(
                        """\
def persistent(self, mode: bool = False) -> None:
    \"\"\"Change whether the states, and those of the metrics inside, are in the state dict.\"\"\"
    for metric in self.modules():
        if isinstance(metric, Metric):
            Metric.persistent(metric, mode)"""
                    ),
                ),
            },
            test="""
                import torch
                from torchmetrics.regression import MeanSquaredError
                from torchmetrics.wrappers import MultioutputWrapper

                metric = MultioutputWrapper(MeanSquaredError(), 1)
                metric.persistent(True)
                metric.update(torch.ones(2, 1), torch.ones(2, 1))
                assert metric.state_dict()["metrics.0.total"] == 2
            """,
        ),
        Patch(
            mends=("torchmetrics-minmax-extremes-not-moved", "torchmetrics-minmax-state-dict-empty"),
            says="MinMaxMetric keeps its extremes in buffers, each in memory of its own",
            edits={
                "torchmetrics.wrappers.minmax:MinMaxMetric.__init__": (
                    replace(
                        'self.min_val = torch.tensor(float("inf"))',
                        'self.register_buffer("min_val", torch.tensor(float("inf")), persistent=False)',
                    ),
                    replace(
                        'self.max_val = torch.tensor(float("-inf"))',
                        'self.register_buffer("max_val", torch.tensor(float("-inf")), persistent=False)',
                    ),
                ),
                "torchmetrics.wrappers.minmax:MinMaxMetric.compute": (
                    put_before("return {", "self.max_val, self.min_val = self.max_val.clone(), self.min_val.clone()"),
                ),
                "torchmetrics.wrappers.minmax:MinMaxMetric": (
                    append(
                        """\
def persistent(self, mode: bool = False) -> None:
    \"\"\"Change whether the extremes, and the states of the metric inside, are in the state dict.\"\"\"
    super(MinMaxMetric, self).persistent(mode)
    self._base_metric.persistent(mode)
    self._non_persistent_buffers_set = set() if mode else {"min_val", "max_val"}"""
                    ),
                ),
            },
            test="""
                import torch
                from torchmetrics.classification import BinaryAccuracy
                from torchmetrics.wrappers import MinMaxMetric

                metric = MinMaxMetric(BinaryAccuracy())
                metric.update(torch.tensor([0.9]), torch.tensor([1]))
                metric.compute()
                assert not metric.state_dict()
                metric.persistent(True)
                assert metric.state_dict()["max_val"] == 1
                assert metric.to("meta").max_val.device.type == "meta"
            """,
        ),
        Patch(
            mends=("torchmetrics-wrapper-returns-its-state",),
            says="MinMaxMetric returns copies of its extremes",
            edits={
                "torchmetrics.wrappers.minmax:MinMaxMetric.compute": (
                    replace(
                        'return {"raw": val, "max": self.max_val, "min": self.min_val}',
                        'return {"raw": val.clone(), "max": self.max_val.clone(), "min": self.min_val.clone()}',
                    ),
                ),
            },
            test="""
                import torch
                from torchmetrics.classification import BinaryAccuracy
                from torchmetrics.wrappers import MinMaxMetric

                metric = MinMaxMetric(BinaryAccuracy())
                metric.update(torch.tensor([0.9]), torch.tensor([1]))
                metric.compute()["max"].add_(1)
                metric.update(torch.tensor([0.9]), torch.tensor([0]))
                assert metric.compute()["max"] == 1
            """,
        ),
        Patch(
            mends=("torchmetrics-forward-resets-first", "torchmetrics-clustering-keeps-malformed-batch"),
            says="forward() restores the state where update() or compute() refuses the batch",
            edits={
                "torchmetrics.metric:Metric._forward_reduce_state_update": (
                    replace(
                        "self.update(*args, **kwargs)\nbatch_val = self.compute()",
                        """\
try:
    self.update(*args, **kwargs)
    batch_val = self.compute()
except BaseException:
    for attr, value in global_state.items():
        setattr(self, attr, value)
    self._update_count = _update_count
    self._is_synced = False
    self._should_unsync = True
    self._to_sync = self.sync_on_compute
    self._computed = None
    self._enable_grad = False
    self.compute_on_cpu = _temp_compute_on_cpu
    raise""",
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics.classification import BinaryAccuracy

                metric = BinaryAccuracy()
                metric.update(torch.tensor([1, 1]), torch.tensor([1, 1]))
                try:
                    metric(torch.tensor([1]), torch.tensor([1, 0]))
                except RuntimeError:
                    pass
                assert metric.compute() == 1
            """,
        ),
        Patch(
            mends=("torchmetrics-error-leaves-synchronised",),
            says="an error in compute() leaves no metric synchronised",
            edits={
                "torchmetrics.metric:Metric.sync_context": (
                    replace(
                        "yield\n\nself.unsync(should_unsync=self._is_synced and should_unsync)",
                        """\
try:
    yield
finally:
    self.unsync(should_unsync=self._is_synced and should_unsync)""",
                    ),
                )
            },
            test="""
                from torchmetrics.aggregation import SumMetric

                class Refuses(SumMetric):
                    def compute(self):
                        raise ValueError("refused")

                metric = Refuses(dist_sync_fn=lambda x, group: [x, x], distributed_available_fn=lambda: True)
                metric.update(1.0)
                for _ in range(2):
                    try:
                        metric.compute()
                    except ValueError:
                        pass
            """,
        ),
        Patch(
            mends=("torchmetrics-merge-state-prepends", "torchmetrics-merge-state-reverses"),
            says="merge_state() keeps the samples of the other metric behind its own",
            edits={
                "torchmetrics.metric:Metric.merge_state": (
                    put_before(
                        "self._reduce_states(incoming_state)",
                        """\
# _reduce_states() puts what it is given first
incoming_state = dict(incoming_state)
for attr in self._defaults:
    if self._reductions[attr] in (dim_zero_cat, None) and attr in incoming_state:
        own = getattr(self, attr)
        setattr(self, attr, incoming_state[attr])
        incoming_state[attr] = own""",
                    ),
                )
            },
            test="""
                from torchmetrics.aggregation import CatMetric

                one, other = CatMetric(), CatMetric()
                one.update([1.0, 2.0])
                other.update([3.0])
                one.merge_state(other)
                assert one.compute().tolist() == [1.0, 2.0, 3.0]
            """,
        ),
        Patch(
            mends=("torchmetrics-nan-strategy-writes-into-input",),
            says="an aggregator that replaces NaN leaves the caller's tensor alone",
            edits={
                "torchmetrics.aggregation:BaseAggregator._cast_and_nan_check_input": (
                    replace(
                        "x[nans | nans_weight] = self.nan_strategy",
                        "x = x.masked_fill(nans | nans_weight, self.nan_strategy)",
                    ),
                    replace(
                        "weight[nans | nans_weight] = 1",
                        "weight = weight.masked_fill(nans | nans_weight, 1)",
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics.aggregation import SumMetric

                value = torch.tensor([1.0, float("nan")])
                SumMetric(nan_strategy=0.0).update(value)
                assert value.isnan().any()
            """,
        ),
        Patch(
            mends=("torchmetrics-weighted-mean-disable-drops-weights",),
            says="MeanMetric(nan_strategy='disable') uses its weights",
            edits={
                "torchmetrics.aggregation:BaseAggregator._cast_and_nan_check_input": (
                    replace(
                        "else:\n    weight = torch.ones_like(x)",
                        "elif weight is None:\n    weight = torch.ones_like(x)",
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics.aggregation import MeanMetric

                metric = MeanMetric(nan_strategy="disable")
                metric.update(torch.tensor([1.0, 5.0]), torch.tensor([3.0, 1.0]))
                assert metric.compute() == 2
            """,
        ),
        Patch(
            mends=("torchmetrics-cat-of-nothing-is-a-list",),
            says="CatMetric without a value gives an empty tensor",
            edits={
                "torchmetrics.aggregation:CatMetric.compute": (
                    replace(
                        "return self.value",
                        "if isinstance(self.value, Tensor):\n    return self.value\n"
                        "return torch.empty(0, dtype=self.dtype, device=self.device)",
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics.aggregation import CatMetric

                assert isinstance(CatMetric().compute(), torch.Tensor)
            """,
        ),
        Patch(
            mends=("torchmetrics-collection-merges-members-by-chance",),
            says="a collection shares states only between metrics whose updates are alike, in what they read, too",
            edits={
                "torchmetrics.collections:MetricCollection._equal_metric_states": (
                    begin(
                        """\
def read_by_update(metric: Metric) -> dict:
    import inspect

    held, names, found = {**vars(metric), **dict(metric.named_buffers())}, ["update"], {}
    for name in names:  # the methods that update calls are appended
        member = getattr(type(metric), name, None)
        code = getattr(inspect.unwrap(getattr(member, "fget", member)), "__code__", None)
        if code is not None:
            found[name], codes = code, [code]
            for one in codes:
                codes += [inner for inner in one.co_consts if isinstance(inner, type(code))]
                names += [other for other in one.co_names if other not in names]
        elif name in held and not name.startswith("_") and name not in metric._defaults:
            found[name] = held[name].tolist() if isinstance(held[name], Tensor) else repr(held[name])
    return found

if read_by_update(metric1) != read_by_update(metric2):
    return False"""
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics import MetricCollection
                from torchmetrics.classification import BinaryAccuracy, BinaryF1Score, BinaryRecall

                both = MetricCollection({"low": BinaryAccuracy(0.4), "high": BinaryAccuracy(0.6)})
                both.update(torch.tensor([0.9]), torch.tensor([1]))
                both.update(torch.tensor([0.5]), torch.tensor([1]))
                assert both.compute() == {"low": 1.0, "high": 0.5}

                both = MetricCollection({"f1": BinaryF1Score(), "recall": BinaryRecall()})
                both.update(torch.tensor([0.9]), torch.tensor([1]))
                assert both.compute_groups == {0: ["f1", "recall"]}
            """,
        ),
        Patch(
            mends=("torchmetrics-bootstrapper-draws-as-many-as-the-first",),
            says="BootStrapper refuses tensors of unequal lengths",
            edits={
                "torchmetrics.wrappers.bootstrapping:BootStrapper.update": (
                    begin(
                        """\
sizes = {len(value) for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)}
if len(sizes) > 1:
    raise ValueError(f"Expected tensors of one length, but got lengths {sorted(sizes)}")"""
                    ),
                )
            },
            test="""
                import torch
                from torchmetrics.regression import MeanSquaredError
                from torchmetrics.wrappers import BootStrapper

                try:
                    BootStrapper(MeanSquaredError()).update(torch.ones(2), torch.ones(3))
                except ValueError:
                    pass
                else:
                    raise AssertionError("a target without a prediction was left out")
            """,
        ),
        Patch(
            mends=("torchmetrics-running-clears-its-window",),
            says="Running keeps copies of list states, which reset() does not clear, and joins them in their order",
            edits={
                f"torchmetrics.wrappers.running:Running.{method}": (
                    replace(
                        'setattr(self, key + f"_{val}", getattr(self.base_metric, key))',
                        "state = getattr(self.base_metric, key)\n"
                        'setattr(self, key + f"_{val}", list(state) if isinstance(state, list) else state)',
                    ),
                )
                for method in ("update", "forward")
            }
            | {
                "torchmetrics.wrappers.running:Running.compute": (
                    replace(
                        "for i in range(self.window):",
                        "# _reduce_states() puts what it is given first: the oldest comes last\n"
                        "for i in [(self._num_vals_seen - age) % self.window for age in range(1, self.window + 1)]:",
                    ),
                )
            },
            test="""
                from torchmetrics.aggregation import CatMetric
                from torchmetrics.wrappers import Running

                metric = Running(CatMetric(), window=3)
                metric.update(1.0)
                metric.update(2.0)
                assert metric.compute().tolist() == [1.0, 2.0]
                metric.update(3.0)
                metric.update(4.0)
                assert metric.compute().tolist() == [2.0, 3.0, 4.0]
            """,
        ),
        Patch(
            mends=("torchmetrics-running-counts-a-window-twice",),
            says="Running empties the metric inside also where compute() fails",
            edits={
                "torchmetrics.wrappers.running:Running.compute": (
                    replace(
                        "val = self.base_metric.compute()\nself.base_metric.reset()",
                        "try:\n    val = self.base_metric.compute()\nfinally:\n    self.base_metric.reset()",
                    ),
                )
            },
            test="""
                from torchmetrics.aggregation import SumMetric
                from torchmetrics.wrappers import Running

                class RefusesOnce(SumMetric):
                    refused = False

                    def compute(self):
                        if not self.refused:
                            self.refused = True
                            raise ValueError("refused")
                        return super().compute()

                metric = Running(RefusesOnce(), window=2)
                metric.update(1.0)
                try:
                    metric.compute()
                except ValueError:
                    pass
                assert metric.compute() == 1
            """,
        ),
        Patch(
            mends=("torchmetrics-input-transformers-by-name",),
            says="input transformers transform arguments that are given by name, too",
            edits={
                f"torchmetrics.wrappers.transformations:MetricInputTransformer.{method}": (
                    begin(
                        """\
if "preds" in kwargs:
    kwargs["preds"] = self.transform_pred(kwargs["preds"])
if "target" in kwargs:
    kwargs["target"] = self.transform_target(kwargs["target"])"""
                    ),
                )
                for method in ("update", "forward")
            }
            | {
                "torchmetrics.wrappers.transformations:MetricInputTransformer._wrap_transform": (
                    begin("if not args:\n    return ()"),
                )
            },
            test="""
                import torch
                from torchmetrics.classification import BinaryAccuracy
                from torchmetrics.wrappers import LambdaInputTransformer

                metric = LambdaInputTransformer(BinaryAccuracy(), transform_pred=lambda scores: 1 - scores)
                metric.update(preds=torch.tensor([0.9]), target=torch.tensor([0]))
                assert metric.compute() == 1
            """,
        ),
        *torchmetrics_domains.PATCHES,
        *torchmetrics_functional.PATCHES,
        *torchmetrics_numbers.PATCHES,
        *torchmetrics_states.PATCHES,
        *torchmetrics_tasks.PATCHES,
    ),
)
