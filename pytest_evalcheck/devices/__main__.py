"""`python -m pytest_evalcheck.devices script.py`: run a script, or a module, on simulated devices."""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys

from pytest_evalcheck.devices.errors import SimulationError
from pytest_evalcheck.devices.patches.processes import VARIABLE
from pytest_evalcheck.devices.simulation import simulate

_USAGE = "python -m pytest_evalcheck.devices [--simulate=cuda:1,mps] [--summary] (script.py | -m module) [argument ...]"


def main(arguments: list[str]) -> None:
    """Run what the arguments name as `__main__`, with the rest as its own arguments.

    Raises SystemExit with 2 where the arguments or the devices are impossible, and with what the script exits with.
    """
    parser = argparse.ArgumentParser(prog="python -m pytest_evalcheck.devices", usage=_USAGE, description=__doc__)
    parser.add_argument("--simulate", help=f"devices, separated by commas (default: ${VARIABLE})")
    parser.add_argument("--compile", choices=("refuse", "eager"), default="refuse", help="what torch.compile does")
    parser.add_argument("--summary", action="store_true", help="print transfers and host synchronisations at the end")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if given.simulate is not None:
        os.environ[VARIABLE] = given.simulate
    sys.argv = [given.script, *given.rest]
    sys.path[0] = os.getcwd() if given.module else os.path.dirname(os.path.abspath(given.script))
    with contextlib.ExitStack() as stack:
        try:
            ledger = stack.enter_context(simulate(compile=given.compile))
        except SimulationError as error:
            parser.error(str(error))
        if given.summary:
            stack.callback(lambda: print(ledger.summary(), file=sys.stderr))
        if given.module:
            runpy.run_module(given.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(os.path.abspath(given.script), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
