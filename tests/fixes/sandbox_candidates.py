"""Candidates for one function: what each of them does, and its verdict."""

from __future__ import annotations

import sys

RIGHT = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    return x + 2\n"
TESTS = "assert double(2) == 4\nassert double(5) == 10\n"
LIBC = "import ctypes, os, sys, time\nlibc = ctypes.CDLL(None)\n"
ENDLESS = "while True: pass\n"

HOSTILE = {
    "a wrong answer": (WRONG, "failed"),
    "no answer": ("", "failed"),
    "a syntax error": ("def double(x) return x", "failed"),
    "a NUL": (RIGHT + "\0", "failed"),
    "a lone surrogate": (RIGHT + "name = '\ud800'", "failed"),
    "an exception": ("1 / 0", "failed"),
    "a KeyboardInterrupt": ("raise KeyboardInterrupt", "failed"),
    "an error that cannot be told": ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "failed"),
    "an error with an odd name": ("raise type('A\\nB\\udc00', (Exception,), {})", "failed"),
    "endless recursion": ("def double(x): return double(x)", "failed"),
    "reading stdin": (RIGHT + "input()", "failed"),
    "a huge file": ("open('file', 'wb').write(bytes(20 << 20))\n" + RIGHT, "failed"),
    "a fork": ("import os\nos.fork()\n" + RIGHT, "failed"),
    "a command": ("import os\nos.system('true')\n" + RIGHT, "failed"),
    "a subprocess": ("import subprocess\nsubprocess.Popen(['true'])\n" + RIGHT, "failed"),
    "another program instead": ("import os\nos.execv('/bin/true', ['true'])", "failed"),
    "a pool of processes": ("import multiprocessing\nmultiprocessing.get_context('fork').Pool(2)\n" + RIGHT, "failed"),
    "a signal to its parent": ("import os\nos.kill(os.getppid(), 9)\n" + RIGHT, "failed"),
    "a signal to everything": ("import os\nos.kill(-1, 9)\n" + RIGHT, "failed"),
    "a signal to its group": ("import os\nos.killpg(0, 9)\n" + RIGHT, "failed"),
    "replaced builtins": ("import builtins\nbuiltins.exec = builtins.compile = print\n" + WRONG, "failed"),
    "a replaced exit": ("import os\nos._exit = os.write = lambda *a: None\n" + WRONG, "failed"),
    "an endless loop": (ENDLESS, "timeout"),
    "an endless loop in a test": ("def double(x):\n    while True: pass", "timeout"),
    "a loop that holds on": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "timeout",
    ),
    "deaf to signals": (
        "import signal\nfor each in (14, 15, 2, 1): signal.signal(each, lambda *_: None)\n" + ENDLESS,
        "timeout",
    ),
    "a fork bomb that shrugs": ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "timeout"),
    "a sleep": ("import time\ntime.sleep(1000)", "timeout"),
    "a drip of output": ("import time\nwhile True: print(flush=True); time.sleep(0.001)", "timeout"),
    "all memory": ("x = []\nwhile True: x.append(bytes(1 << 20))", "memory"),
    "all memory in small pieces": ("x = []\nwhile True: x.append([x])", "memory"),
    "all memory, by another name": ("class E(MemoryError): pass\nraise E", "memory"),
    "one large object": ("x = bytes(1 << 40)\n" + RIGHT, "memory"),
    "a flood on stdout": ("while True: print('x' * 1000)", "output"),
    "a flood on stderr": ("import sys\nwhile True: print('x' * 1000, file=sys.stderr)", "output"),
    "a flood, then a right answer": ("print('x' * 100_000)\n" + RIGHT, "output"),
    "a segmentation fault": ("import ctypes\nctypes.string_at(0)", "crashed"),
    "an abort": ("import os\nos.abort()", "crashed"),
    "killing itself": ("import os\nos.kill(os.getpid(), 9)", "crashed"),
    "recursion into the stack": (
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\nA().a",
        # From then on recursion through C is counted, too.
        "crashed" if sys.version_info < (3, 12) else "failed",
    ),
    "os._exit(0)": ("import os\nos._exit(0)", "exited"),
    "os._exit(0) in a test": ("import os\ndef double(x): os._exit(0)", "exited"),
    "os._exit(0) from a thread": (
        "import os, threading\nthreading.Timer(0.05, os._exit, [0]).start()\ndef double(x):\n    while True: pass",
        "exited",
    ),
    "sys.exit(0)": ("import sys\nsys.exit(0)", "exited"),
    "exit() in a test": ("def double(x): exit()", "exited"),
    "printing success": ("print('passed')\nprint('defined\\n' * 3)\nimport os\nos._exit(0)", "exited"),
    "closing all files": ("import os\nos.closerange(0, 256)\n" + RIGHT, "exited"),
    "writing to all files": (
        "import os\nfor each in range(3, 256):\n    try: os.write(each, b'passed\\n')\n    except OSError: pass\n"
        + RIGHT,
        "tampered",
    ),
    "saying what the sandbox says": (
        "import os\nfor each in range(3, 256):\n    try: os.write(each, b'defined\\n' + b'0' * 32)\n"
        "    except OSError: pass\nos._exit(0)",
        "tampered",
    ),
    # Its parent is the first process of its sandbox, which the kernel does not let it kill.
    "killing its parent in C": (LIBC + "libc.kill(os.getppid(), 9)\n" + ENDLESS, "timeout"),
}

# What writes to every file it can reach, without raising.
TO_ALL = "import os\ndef to_all(text):\n    for each in range(3, 64):\n        try: os.write(each, text)\n        except OSError: pass\n"

# Wrong programs that try to be judged right: eight that a judge within the candidate's interpreter passes, and others.
FORGERIES = {
    "answering the protocol by hand": (
        TO_ALL + 'to_all(b\'{"value": null}\\n\' * 9 + b\'["passed", ""]\\n\')\nimport time\ntime.sleep(2)',
        "failed",
    ),
    "a replaced os.read": (
        "import builtins, json, os\nos.read = lambda *a: b'passed'\njson.loads = lambda *a: {'value': None}\n"
        "builtins.compile = builtins.exec = lambda *a: None\n" + WRONG,
        "failed",
    ),
    "a walk of the frames": (
        TO_ALL + "import gc, sys\nframe, found = sys._getframe(), []\nwhile frame:\n"
        "    found += [each for each in frame.f_locals.values() if isinstance(each, (str, bytes, int))]\n"
        "    frame.f_locals.update(verdict=('passed', ''), role='tests')\n    frame = frame.f_back\n"
        "for each in gc.get_objects():\n    if type(each) is dict: found += [v for v in each.values() if type(v) in (str, bytes)]\n"
        "assert not any('double(2) == 4' in str(each) for each in found)\n" + WRONG,
        "failed",
    ),
    "a thread that says so later": (
        TO_ALL
        + 'import threading, time\ndef later():\n    time.sleep(0.2)\n    to_all(b\'["passed", ""]\\n\')\n    os._exit(0)\n'
        "threading.Thread(target=later).start()\ndef double(x): time.sleep(5)\n",
        "tampered",
    ),
    "execv of a program that says so": (
        LIBC + "for each in range(3, 64):\n    try: os.set_inheritable(each, True)\n    except OSError: pass\n"
        'code = b\'import os\\nfor f in range(3, 64):\\n    try: os.write(f, b"[\\\\"passed\\\\", 0]\\\\n")\\n    except OSError: pass\'\n'
        "words = [sys.executable.encode(), b'-c', code, None]\n"
        "libc.execv(words[0], (ctypes.c_char_p * 4)(*words))\n",
        "tampered",
    ),
    "a value equal to everything": (
        "class Any:\n    def __eq__(self, other): return True\n    __bool__ = __eq__\n    def __bool__(self): return True\n"
        "def double(x): return Any()\n",
        "failed",
    ),
    "a number equal to everything": (
        "class Any(int):\n    def __eq__(self, other): return True\ndef double(x): return Any(x)\n",
        "failed",
    ),
    "mock.ANY": ("from unittest import mock\ndef double(x): return mock.ANY\n", "failed"),
    "replacing what reads and compares": (
        "import sys\nfor module in list(sys.modules.values()):\n    for name in ('unpack', 'pack', 'receive', '_text', 'judge'):\n"
        "        for where in (module, getattr(module, 'Peer', None)):\n"
        "            if where is not None and hasattr(where, name): setattr(where, name, lambda *a: None)\n" + WRONG,
        "failed",
    ),
    "replaced builtins of the tests": (
        "import builtins\nabs = min = builtins.abs = builtins.AssertionError = lambda *a: 0\n" + WRONG,
        "failed",
    ),
}

HARMLESS = {
    "plain": RIGHT,
    "prints": "print('x' * 1000)\n" + RIGHT,
    "a main block": RIGHT + "if __name__ == '__main__':\n    exit(1)\n",
    "another folder and environment": "import os\nos.chdir('/')\nos.environ.clear()\n" + RIGHT,
    "closes stdout": "import sys\nsys.stdout.close()\nsys.stderr = None\n" + RIGHT,
    "a thread that stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    + RIGHT,
    "a bad exit handler": "import atexit, os\natexit.register(os.abort)\n" + RIGHT,
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int'\n" + RIGHT,
    "a caught MemoryError": "try:\n    bytes(1 << 40)\nexcept MemoryError:\n    pass\n" + RIGHT,
    "a file of its own": "open('a', 'w').write('a')\nassert open('a').read() == 'a'\n" + RIGHT,
}
