"""Other projects' own device tests on a simulated device, and what each result says about the simulation.

    python benchmarks/peers.py --checkout PATH [--device cuda] [--files GLOB ...] [--stride N] [--records DIR]
                               [--real] [--again]
    python benchmarks/peers.py --table [--records DIR]
    python benchmarks/peers.py --smoke

PATH is a checkout of PyTorch, accelerate, torchmetrics or transformers; `peers_suites.py` says which of its files are
run. Each file is a process of its own, in which collection and tests run inside `simulate`. Results are appended to a
file of JSON lines in DIR, so that a run that was stopped goes on where it was. A test that fails is run again without a
simulation: PyTorch's as its variant for the CPU. With `--real` the same tests run on the device of this machine too,
and every result that differs is listed. `--stride 3` runs a third of the tests, always the same.

Every result is one of these. `peers_causes.py` names the causes that were looked into, each with its reason.

| | |
| --- | --- |
| as the device | the test passes; or it fails on the device too |
| documented limit | `CannotSimulate`, or a sentence under "What is not simulated" in docs/devices.md |
| false refusal | an error that the device does not raise, or another value |
| wrong acceptance | the test expects an error of the device, and there is none |
| not counted | skipped by the test, needs what is not installed, fails without a simulation too, or was stopped |

`--table` writes `peers.md`. `--smoke` runs some tests that are generated from PyTorch's own samples of operators and
modules, in seconds and without a checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers_causes import Judged, judge
from peers_suites import SUITES, Suite, find_suite, plain_name
from peers_table import written

HERE = Path(__file__).parent
GENERATED = HERE / "peers_generated.py"
PIECE = 900  # seconds of one process


class Records:
    """The results of one suite and one way of running it, in a file of JSON lines."""

    def __init__(self, folder: Path, suite: str, way: str) -> None:
        self.path = folder / f"{suite}.{way}.jsonl"

    def read(self) -> dict[str, dict[str, Any]]:
        """The last line of each test, by its name."""
        if not self.path.exists():
            return {}
        found = (json.loads(line) for line in self.path.read_text().splitlines())
        return {line["test"]: line for line in found}

    def forget(self, tests: list[str]) -> None:
        """Remove the results of tests."""
        if self.path.exists():
            lines = self.path.read_text().splitlines(keepends=True)
            self.path.write_text("".join(line for line in lines if json.loads(line)["test"] not in tests))


def run(
    suite: Suite, checkout: Path, file: str, records: Records, device: str, *, stride: int = 1, only: str = ""
) -> str:
    """Run the tests of a file in processes of their own, until all were run. Returns pytest's last line."""
    kind = suite.device.partition(":")[0] if records.path.stem.endswith("real") else device.partition(":")[0] or "cpu"
    asked = {"suite": suite.name, "device": device, "records": str(records.path), "limit": suite.limit}
    environment = {
        **os.environ,
        **suite.environment,
        "PEERS": json.dumps({**asked, "stride": stride, "only": only}),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(checkout / "src"), os.environ.get("PYTHONPATH", "")]),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": kind,
    }
    command = [sys.executable, "-m", "pytest", "-p", "peers_plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["-p", "no:warnings", "-q", "--tb=no", "-o", "addopts=", *suite.options, file]
    last = ""
    while True:
        before = len(records.read())
        try:
            done = subprocess.run(
                command, cwd=checkout / suite.folder, env=environment, capture_output=True, text=True, timeout=PIECE
            )
            last = (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""])[-1]
            if done.returncode in (0, 1, 5):
                return last
            last = f"exit code {done.returncode}: {last}"
        except subprocess.TimeoutExpired:
            last = f"stopped after {PIECE} s"
        if len(records.read()) == before:
            return last


def again_without(suite: Suite, checkout: Path, folder: Path, failed: list[str]) -> None:
    """Run on the plain CPU what failed, each file in one process."""
    plain = Records(folder, suite.name, "plain")
    names = sorted({plain_name(name) for name in failed} - plain.read().keys())
    for file in sorted({name.partition("::")[0] for name in names}):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as only:
            only.write("\n".join(name for name in names if name.startswith(f"{file}::")))
            only.flush()
            print(f"  without a simulation: {file}: {run(suite, checkout, file, plain, '', only=only.name)}")


def failures(records: Records) -> list[str]:
    return [name for name, line in records.read().items() if line["outcome"] not in ("passed", "skipped")]


def judged(folder: Path) -> Iterator[Judged]:
    """Every recorded test, with what its result says."""
    for name in SUITES:
        plain = Records(folder, name, "plain").read()
        for test, line in Records(folder, name, "simulated").read().items():
            yield judge(line, plain.get(plain_name(test)))


def compare(folder: Path, suite: str) -> list[str]:
    """The tests that end differently on the device of this machine."""
    real, simulated = Records(folder, suite, "real").read(), Records(folder, suite, "simulated").read()
    return [
        f"{test}: {simulated[test]['outcome']} simulated, {line['outcome']} on the device"
        for test, line in real.items()
        if test in simulated and simulated[test]["outcome"] != line["outcome"]
    ]


def smoke() -> None:
    """A few generated tests, in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        suite, records = SUITES["generated"], Records(Path(folder), "generated", "simulated")
        print(run(suite, HERE, GENERATED.name, records, "cuda", stride=40))
        found = [judge(line, None) for line in records.read().values()]
        print(written(found))
        if not found or any(one.verdict in ("false refusal", "wrong acceptance") for one in found):
            sys.exit("the smoke run has false refusals or wrong acceptances, or ran nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, action="append", default=[])
    parser.add_argument("--device", default="", help="the simulated device (that of the suite)")
    parser.add_argument("--files", nargs="*", default=None, help="patterns of test files, in place of the suite's list")
    parser.add_argument("--stride", type=int, default=0)
    parser.add_argument("--records", type=Path, default=Path("peers-records"))
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--again", action="store_true", help="first forget what failed before, so that it is run again")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    if asked.smoke:
        smoke()
        return
    asked.records.mkdir(parents=True, exist_ok=True)
    for checkout in asked.checkout:
        suite = find_suite(checkout)
        simulated = Records(asked.records, suite.name, "simulated")
        if asked.again:
            simulated.forget(failures(simulated))
        for file, stride in suite.chosen(checkout / suite.folder, asked.files):
            last = run(suite, checkout, file, simulated, asked.device or suite.device, stride=asked.stride or stride)
            print(f"{suite.name} {file}: {last}", flush=True)
            if asked.real:
                real = Records(asked.records, suite.name, "real")
                run(suite, checkout, file, real, "", stride=asked.stride or stride)
        again_without(suite, checkout, asked.records, failures(simulated))
        if asked.real:
            print("\n".join(compare(asked.records, suite.name)))
    text = written(list(judged(asked.records)))
    print(text)
    if asked.table:
        (HERE / "peers.md").write_text(text)


if __name__ == "__main__":
    main()
