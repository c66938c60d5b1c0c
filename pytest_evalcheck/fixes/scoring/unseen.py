"""What a score may depend on that no look at the function shows: files, the environment, code made at run time."""

from __future__ import annotations

import re
from typing import Any

FILE = "reads files"
ENVIRONMENT = "reads the environment of the process"
CODE = "runs code, or finds it, by a name or a text of run time"
PROGRAM = "runs another program"

_BY_NAME: dict[str, str] = {
    r"(builtins|io|_io|os|posix|nt|codecs|_codecs|tokenize|gzip|bz2|lzma|tarfile|zipfile|shelve|dbm)\.open\w*": FILE,
    r"(os|posix|nt)\.(listdir|scandir|walk|fwalk|stat|lstat|access|readlink|read)": FILE,
    r"(os\.path|posixpath|ntpath|genericpath)\.(exists|lexists|is\w+|get\w+)": FILE,
    r"(zipfile\.ZipFile|_?sqlite3\.(connect|Connection)|mmap\.mmap|linecache\.\w+|glob\.\w+|pkgutil\.\w+)(\..*)?": FILE,
    r"importlib\.(resources|metadata|_common)\..*": FILE,  # the last one has those of resources on Python 3.10
    r"(os|posix|nt)\.(environb?|getenvb?|getcwdb?|uname|getlogin)|sys\.argv": ENVIRONMENT,
    r"builtins\.(eval|exec|compile|__import__)|runpy\..*": CODE,
    r"(importlib|_frozen_importlib)\.(?!resources|metadata|_common).*": CODE,
    r"sys\.(modules|_getframe|_current_frames)|inspect\.(currentframe|stack|getmodule)|gc\.get_\w+|ctypes\..*": CODE,
    r"_?pickle\.(loads?|_?loads?|_?Unpickler)|marshal\.loads?": CODE,
    r"builtins|os|posix|nt|io|sys|importlib|subprocess|ctypes": CODE,  # a module that is handed on
    r"subprocess\..*|(os|posix|nt)\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|fork\w*)": PROGRAM,
}
_NAMED = [(re.compile(pattern), why) for pattern, why in _BY_NAME.items()]

# Functions of libraries that read a file or a model: numpy.loadtxt, torch.load, pandas.read_csv, evaluate.load.
_READS = re.compile(
    r"(load|read|open)(_.*|txt|mat|arff)?|fetch_.*|from_pretrained|from_?file|genfromtxt|memmap|imread|Memmap"
)
# Those of the standard library that take a text, or a file that something else has opened.
_TAKES_TEXT = re.compile(r"(json|yaml|tomllib|tomli|plistlib|re|csv|ast|html|_?io|email)(\..*)?")
_METHODS = {
    **dict.fromkeys(("read_text", "read_bytes", "open", "iterdir", "rglob"), FILE),
    **dict.fromkeys(("from_pretrained", "fromfile", "loadtxt", "genfromtxt", "read_csv", "read_json"), FILE),
    **dict.fromkeys(("environ", "getenv", "getcwd", "cwd"), ENVIRONMENT),
    "__subclasses__": CODE,
    "f_globals": CODE,
    "f_locals": CODE,
}


def why_unseen(name: str, value: Any, from_library: bool) -> str:
    """Return what a function, class or value of this full name does that cannot be seen; empty where it does not."""
    for pattern, why in _NAMED:
        if pattern.fullmatch(name):
            return why
    module, _, last = name.rpartition(".")
    if from_library and callable(value) and _READS.fullmatch(last) and not _TAKES_TEXT.fullmatch(module):
        return FILE
    return ""


def why_unseen_attribute(name: str) -> str:
    """Return what a method of this name, of an object that is not known, does that cannot be seen; empty for others."""
    return _METHODS.get(name, "")
