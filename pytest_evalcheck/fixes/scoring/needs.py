"""Libraries that are imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

_INSTALL = {
    "joblib": "pip install joblib",
    "tqdm": "pip install tqdm, or give progress= a function of the number of documents done",
    "lm_eval": "pip install lm_eval",
    "ray": "pip install ray",
    "distributed": "pip install 'dask[distributed]'",
}


def needed(name: str) -> Any:
    """Import a module, or say which library has to be installed for what was asked."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        if error.name != library:
            raise
        way = _INSTALL.get(library, f"pip install {library}")
        raise ModuleNotFoundError(f"{library} is needed for this and is not installed: {way}", name=library) from error
