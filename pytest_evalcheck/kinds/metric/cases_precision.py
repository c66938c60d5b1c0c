"""Streams whose numbers arrive in another dtype."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Cut, Rows, pick
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.strategies.samples import Bulk, SampleStrategy


@dataclass(frozen=True, kw_only=True)
class LowPrecision:
    """Many samples from a distribution, in batches of ``batch`` rows, quantised to ``dtype``."""

    seed: int
    rows: int
    batch: int
    scale: float
    offset: float
    drift: float
    dtype: str

    @property
    def bulk(self) -> Bulk:
        """The distribution, without the cut and the dtype."""
        return Bulk(seed=self.seed, rows=self.rows, scale=self.scale, offset=self.offset, drift=self.drift)

    @property
    def regimes(self) -> frozenset[str]:
        reached = {self.dtype}
        if self.offset:
            reached.add("an offset")
        if self.rows > 1000:
            reached.add("thousands of samples")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[LowPrecision]:
        del inputs
        return st.builds(
            cls,
            seed=st.integers(0, 99),
            rows=st.sampled_from([64, 1000, 5000]),
            batch=st.sampled_from([1000, 100]),
            scale=st.sampled_from([1.0, 100.0]),
            offset=st.sampled_from([0.0, 1000.0]),
            drift=st.sampled_from([0.0, 1.0]),
            dtype=st.sampled_from(["float16", "bfloat16", "float32"]),
        )

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> None:
        return None

    @classmethod
    def always(cls) -> list[LowPrecision]:
        """Every dtype with few plain rows, with an offset, and with thousands of drifting rows."""
        plain = {"seed": 0, "rows": 64, "batch": 1000, "scale": 1.0, "offset": 0.0, "drift": 0.0}
        harder = [{}, {"rows": 1000, "offset": 1000.0}, {"rows": 5000, "scale": 100.0, "drift": 1.0}]
        dtypes = ("float32", "float16", "bfloat16")
        return [cls(**{**plain, **change}, dtype=dtype) for change in harder for dtype in dtypes]  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Samples cut into batches whose numbers arrive as another dtype."""

    samples: Rows
    batches: Cut
    dtype: str

    @property
    def cut(self) -> list[Rows]:
        """The samples of each batch."""
        return pick(self.samples, self.batches)

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({self.dtype})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Cast]:
        # Small numbers wrap in uint8 alone.
        dtypes = ["float16", "bfloat16", *(["uint8", "uint8", "uint8", "int32"] if inputs.integers else [])]
        return st.tuples(st.sampled_from(dtypes), Stream.strategy(inputs)).map(
            lambda drawn: cls(samples=drawn[1].samples, batches=drawn[1].batches, dtype=drawn[0])
        )

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Cast | None:
        stream = Stream.of(inputs, samples)
        return cls(samples=samples, batches=stream.batches, dtype="float16") if stream else None
