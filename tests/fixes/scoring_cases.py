"""Score functions that workers import."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import threading
import time
from pathlib import Path


def numbered(count):
    return [{"id": f"d{number}", "n": number} for number in range(count)]


def doubled(document):
    return 2 * document["n"]


def mixed(document):
    """A float, a NaN, a tuple, a dict or None, and for every seventh document an exception."""
    number = document["n"]
    if number % 7 == 6:
        raise ValueError(f"no {number}")
    digest = int(hashlib.sha256(str(number).encode()).hexdigest(), 16)
    return [number / 3, float("nan"), (number, "x"), {"a": digest / 7}, None][number % 5]


def drawing(document):
    return document["n"], random.random()


def drawing_sometimes(document):
    return random.random() if document["n"] % 97 == 50 else document["n"]


def drawing_from_numpy(document):
    import numpy

    return document["n"], float(numpy.random.random())


def process(document):
    return os.getpid()


class Awkward(Exception):
    """Pickles, but cannot be made again from its pickle."""

    def __init__(self, code, reason):
        super().__init__(f"{reason} ({code})")


class Unpicklable(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def raising(document):
    raise {"awkward": lambda: Awkward(3, "went wrong"), "lock": lambda: Unpicklable("held")}[document["kind"]]()


def leaving(document):
    if document.get("leave"):
        os._exit(7)
    time.sleep(document.get("seconds", 0))
    return document["n"]


def killed_once(document):
    """The first worker that gets there is killed from outside, so to say; a second try succeeds."""
    if document.get("mark") and not Path(document["mark"]).exists():
        Path(document["mark"]).touch()
        os.kill(os.getpid(), 9)
    return document["n"]


def hanging(document):
    if document.get("hang") == "sleep":
        time.sleep(60)
    while document.get("hang") == "deaf":
        with contextlib.suppress(BaseException):
            time.sleep(60)
    return document["n"]


def unsendable_score(document):
    return (each for each in ()) if document["n"] == 2 else document["n"]


def writing(document):
    if document["n"] == 2:
        document["seen"] = True
    return document["n"]


def leaving_a_trace(document):
    time.sleep(0.05)
    with open(document["trace"], "a") as file:
        file.write("x")
    return document["n"]
