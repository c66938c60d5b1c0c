"""Meaning of another project's test result for the simulation, and the causes that were looked into."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

DEVICE, LIMIT, REFUSAL, ACCEPTANCE = "as the device", "documented limit", "false refusal", "wrong acceptance"
SKIPPED, MISSING, PLAIN = "skipped by the test", "needs what is not installed", "fails without a simulation too"
STOPPED = "stopped at the limit of time"
COUNTED, NOT_COUNTED = (DEVICE, LIMIT, REFUSAL, ACCEPTANCE), (SKIPPED, MISSING, PLAIN, STOPPED)


@dataclasses.dataclass(frozen=True)
class Cause:
    """A cause of failing tests: patterns of their names and errors, its meaning for the simulation, and the reason."""

    verdict: str
    why: str
    test: str = ""
    error: str = ""

    def explains(self, line: dict[str, Any]) -> bool:
        """Return whether this is the cause of a failure."""
        text = " | ".join([f"{line.get('type')}: {line.get('text')}", *line.get("caused", ()), *line.get("frames", ())])
        return bool(re.search(self.test, line["test"]) and re.search(self.error, text))


@dataclasses.dataclass(frozen=True)
class Judged:
    """One test with what its result says. `why` is empty where nobody has looked into it."""

    suite: str
    test: str
    verdict: str
    why: str = ""
    error: str = ""


_RELEASE = "a test of another release of PyTorch, NumPy or SciPy: it uses what the installed one does not have"
_NUMERICS = "numerics: every value is the CPU's, where the test expects that half precision on the device differs"
_KERNEL = "dtypes: the device's kernel does not have one that the CPU's has"
_KEYS = "dispatch keys: a kernel that the test registers for CUDA's own key does not run"
_THREAD = "threads of autograd: the device has one of its own"
_WRAPPER = "subclasses: one without `__tensor_flatten__` hides on which device its parts are"
_WARNING = "warnings of C++ code name a line of the simulation"
_ALLOCATOR = "memory: the counts of an allocator's blocks and segments"
_NO_LIMIT = "memory never runs out unless `memory=` says how much there is"
_STREAMS = "a backward pass runs on the current stream of its thread"
_BINDINGS = "the bindings of a PyTorch that is built with CUDA"
_PROCESS = "a subprocess is not simulated"

CAUSES: tuple[Cause, ...] = (
    Cause(PLAIN, _RELEASE, error=r"Parameter Nx=0|has no attribute '(msort|read_vitals)'|KeyError: 'maximize"),
    Cause(PLAIN, _RELEASE, error=r"^TypeError: 'tuple' object does not support item assignment"),
    Cause(PLAIN, _RELEASE, error=r"torch.cat\(\): input types can't be cast"),
    Cause(PLAIN, _RELEASE, test=r"test_(alias_from_tensor|retain_autograd_history)_", error=r"Booleans mismatch"),
    Cause(PLAIN, _RELEASE, error=r"Muon only supports 2D parameters"),
    Cause(PLAIN, _RELEASE, test=r"test_rot90_", error=r"^IndexError: Dimension out of range"),
    Cause(PLAIN, _RELEASE, test=r"test_gradient_all_", error=r"length of the sequences mismatch"),
    Cause(MISSING, _BINDINGS, error=r"_cuda_CUDAAllocator_AllocatorState"),
    Cause(
        PLAIN,
        _RELEASE,
        test=r"nondeterministic_alert_(cumsum|ReplicationPad|MaxPool3d|interpolate|kthvalue|histc)",
        error=r"expected a non-deterministic error|with floating point input",
    ),
    Cause(LIMIT, _ALLOCATOR, test=r"test_memory_stats"),
    Cause(LIMIT, _ALLOCATOR, test=r"test_set_per_process_memory_fraction", error=r"negative dimension"),
    Cause(LIMIT, _NO_LIMIT, test=r"test_out_of_memory_retry|max_split_size_mb_setting_False"),
    Cause(LIMIT, _STREAMS, test=r"test_streaming_backwards_(callback|multiple_streams)"),
    Cause(MISSING, _BINDINGS, error=r"_cuda_attach_out_of_memory_observer|undefined symbol: _ZN5torch4cuda"),
    Cause(PLAIN, _RELEASE, test=r"allow_(bf16|fp16)_reduced_precision_reduction_get_set"),
    Cause(LIMIT, _PROCESS, test=r"test_graph_error$"),
    Cause(LIMIT, _NUMERICS, test=r"test_grad_scaling_autocast", error=r"^AssertionError: AssertionError not raised"),
    Cause(LIMIT, _KERNEL, test=r"test_scatter_reduce_multiply_unsupported_dtypes"),
    Cause(LIMIT, _KEYS, test=r"TestAutogradMultipleDispatch"),
    Cause(LIMIT, _KEYS, test=r"test_autograd_(composite_implicit|multiple_dispatch)"),
    Cause(LIMIT, _THREAD, test=r"test_backward_single_threaded|test_reentrant_parent_error_on_cpu"),
    Cause(LIMIT, _WRAPPER, test=r"_logging_tensor$", error=r"Object comparison failed: device"),
    Cause(LIMIT, _WARNING, test=r"test_cpp_warnings_have_python_context"),
    Cause(LIMIT, _PROCESS, error=r"Subprocess exception while attempting to run"),
)
_MISSING = r"ModuleNotFoundError|ImportError|offline mode|LocalEntryNotFoundError|OfflineModeIsEnabled|Couldn't connect"
_NOT_RAISED = r"not raised|DID NOT RAISE|UnexpectedSuccess"


def judge(line: dict[str, Any], plain: dict[str, Any] | None) -> Judged:
    """Return what a record of a simulated run says; `plain` is the record of the same test without a simulation."""
    suite, test, outcome = line["suite"], line["test"], line["outcome"]
    if outcome == "passed":
        return Judged(suite, test, DEVICE)
    if outcome == "skipped":
        return Judged(suite, test, SKIPPED)
    if outcome == "begun":
        return Judged(suite, test, REFUSAL, error="the process died")
    if line["type"] == "TooLong":
        return Judged(suite, test, STOPPED, "a loop of many waits or small operators")
    error = f"{line['type']}: {line['text']}".split("\n")[0][:150]
    limits = line["limits"] or line.get("refused")
    if limits:
        return Judged(suite, test, LIMIT, re.sub(r"cuda:\d|\(.*\)", "", f"CannotSimulate: {limits[0]}"), error)
    cause = next((one for one in CAUSES if one.explains(line)), None)
    if cause is not None:
        return Judged(suite, test, cause.verdict, cause.why, error)
    if plain is not None and plain["outcome"] not in ("passed", "skipped"):
        same = (plain.get("type"), plain.get("text")) == (line.get("type"), line.get("text"))
        return Judged(suite, test, PLAIN, "" if same else "with another error", error)
    if re.search(_MISSING, " ".join([error, *line.get("caused", ())])):
        return Judged(suite, test, MISSING, "a package, or the network", error)
    return Judged(suite, test, ACCEPTANCE if re.search(_NOT_RAISED, error) else REFUSAL, error=error)
