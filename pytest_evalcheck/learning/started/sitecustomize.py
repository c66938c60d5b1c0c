"""Watch the calls of this process: a watched test, or a process that it has started, has started it.

Python imports this module when it starts, as `processes` arranges it, and that of the environment after it. Where
this process imports none of the packages, nothing else happens. It imports nothing of this distribution before that.
"""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Finder:
    """Begin the watch at the first import of one of the packages; no module is found here."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> None:
        if name in os.environ.get("EVALCHECK_LEARN_PACKAGES", "").split(","):
            sys.meta_path.remove(cls)
            try:
                importlib.import_module("pytest_evalcheck.learning.processes").watch_this()
            except Exception as error:  # it is not in this environment: the process goes on as it would
                sys.audit("evalcheck.not_watched", error)


sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _HERE]
sys.meta_path.insert(0, _Finder)
_this = sys.modules.pop(__name__)
try:
    importlib.import_module(__name__)  # that of the environment
except ImportError:
    sys.modules[__name__] = _this
