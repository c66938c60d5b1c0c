"""Small projects with a scorer, and edits of them after which a kept score would be out of date."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """A project, what is edited in it (the old and the new text), and the file where that stands."""

    name: str
    scorer: str
    old: str
    new: str
    others: dict[str, str] = {}


HELPERS = "LIMIT = 2\n\ndef helper(n):\n    return n + LIMIT\n"
TWO = {"helpers.py": "import deeper\n\ndef helper(n):\n    return deeper.limit(n)\n"}
DEEPER = {**TWO, "deeper.py": "def limit(n):\n    return n + 2\n"}
PACKAGE = {"rules/__init__.py": "", "rules/inner.py": "def helper(n):\n    return n + 2\n"}

EDITS = [
    Edit("a constant", "LIMIT = 2\ndef score(d):\n    return d + LIMIT\n", "LIMIT = 2", "LIMIT = 3"),
    Edit("a comparison", "def score(d):\n    return d < 2\n", "<", "<="),
    Edit("a constant of the code", "def score(d):\n    return d in {'a', 'b'}\n", "'b'", "'c'"),
    Edit(
        "a compiled pattern",
        "import re\nWORD = re.compile('a')\ndef score(d):\n    return bool(WORD.match(d))\n",
        "'a'",
        "'b'",
    ),
    Edit(
        "flags of a pattern",
        "import re\nWORD = re.compile('a', 0)\ndef score(d):\n    return bool(WORD.match(d))\n",
        ", 0",
        ", re.I",
    ),
    Edit("an array", "import numpy as np\nW = np.array([1, 2])\ndef score(d):\n    return W @ d\n", "2])", "3])"),
    Edit(
        "the dtype of an array",
        "import numpy as np\nW = np.array([1, 2], 'int32')\ndef score(d):\n    return W @ d\n",
        "int32",
        "int64",
    ),
    Edit("a tensor", "import torch\nW = torch.tensor([1.0])\ndef score(d):\n    return W * d\n", "1.0", "2.0"),
    Edit(
        "weights of a module",
        "import torch\nM = torch.nn.Linear(1, 1)\ntorch.nn.init.constant_(M.weight, 1.0)\n"
        "torch.nn.init.constant_(M.bias, 1.0)\ndef score(d):\n    return M(d)\n",
        "weight, 1.0",
        "weight, 2.0",
    ),
    Edit(
        "a dataclass of settings",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Config:\n    limit: int = 2\n"
        "CONFIG = Config()\ndef score(d):\n    return d + CONFIG.limit\n",
        "= 2",
        "= 3",
    ),
    Edit(
        "settings in settings",
        "from types import SimpleNamespace as S\nCONFIG = S(inner=S(values=[{'limit': 2}]))\n"
        "def score(d):\n    return d + CONFIG.inner.values[0]['limit']\n",
        "'limit': 2",
        "'limit': 3",
    ),
    Edit(
        "a class whose pickle leaves its state out",
        "class Config:\n    def __init__(self):\n        self.limit = 2\n    def __getstate__(self):\n        return {}\n"
        "CONFIG = Config()\ndef score(d):\n    return d + CONFIG.limit\n",
        "limit = 2",
        "limit = 3",
    ),
    Edit(
        "slots",
        "class Config:\n    __slots__ = ('limit',)\n    def __init__(self):\n        self.limit = 2\n"
        "CONFIG = Config()\ndef score(d):\n    return d + CONFIG.limit\n",
        "limit = 2",
        "limit = 3",
    ),
    Edit(
        "a subclass of dict",
        "class Config(dict):\n    pass\nCONFIG = Config(limit=2)\ndef score(d):\n    return d + CONFIG['limit']\n",
        "limit=2",
        "limit=3",
    ),
    Edit(
        "a default dictionary",
        "from collections import defaultdict\nC = defaultdict(lambda: 2)\ndef score(d):\n    return d + C[0]\n",
        ": 2",
        ": 3",
    ),
    Edit(
        "a method of an object of the module",
        "class Rules:\n    def limit(self):\n        return 2\nRULES = Rules()\ndef score(d):\n    return d + RULES.limit()\n",
        "return 2",
        "return 3",
    ),
    Edit(
        "a base class",
        "class Base:\n    def limit(self):\n        return 2\nclass Rules(Base):\n    pass\n"
        "def score(d):\n    return d + Rules().limit()\n",
        "return 2",
        "return 3",
    ),
    Edit(
        "a base class of another file",
        "from helpers import Base\nclass Rules(Base):\n    pass\ndef score(d):\n    return d + Rules().limit()\n",
        "return 2",
        "return 3",
        {"helpers.py": "class Base:\n    def limit(self):\n        return 2\n"},
    ),
    Edit(
        "a mixin",
        "class Mixin:\n    limit = 2\nclass Plain:\n    pass\nclass Rules(Plain, Mixin):\n    pass\n"
        "def score(d):\n    return d + Rules.limit\n",
        "limit = 2",
        "limit = 3",
    ),
    Edit(
        "a metaclass",
        "class Meta(type):\n    @property\n    def limit(cls):\n        return 2\nclass Rules(metaclass=Meta):\n    pass\n"
        "def score(d):\n    return d + Rules.limit\n",
        "return 2",
        "return 3",
    ),
    Edit(
        "a decorator",
        "def plus(function):\n    def inner(d):\n        return function(d) + 2\n    return inner\n"
        "@plus\ndef score(d):\n    return d\n",
        "+ 2",
        "+ 3",
    ),
    Edit(
        "a decorator that wraps",
        "from functools import wraps\ndef plus(function):\n    @wraps(function)\n    def inner(d):\n"
        "        return function(d) + 2\n    return inner\n@plus\ndef score(d):\n    return d\n",
        "+ 2",
        "+ 3",
    ),
    Edit(
        "what a decorator wraps",
        "from functools import wraps\ndef plus(function):\n    @wraps(function)\n    def inner(d):\n"
        "        return function(d)\n    return inner\n@plus\ndef score(d):\n    return d + 2\n",
        "+ 2",
        "+ 3",
    ),
    Edit(
        "what a decorator of a library wraps",
        "import contextlib\n@contextlib.contextmanager\ndef plus():\n    yield 2\n"
        "def score(d):\n    with plus() as n:\n        return d + n\n",
        "yield 2",
        "yield 3",
    ),
    Edit(
        "a cached function",
        "from functools import lru_cache\n@lru_cache\ndef limit():\n    return 2\ndef score(d):\n    return d + limit()\n",
        "return 2",
        "return 3",
    ),
    Edit("a cached scorer", "from functools import cache\n@cache\ndef score(d):\n    return d + 2\n", "+ 2", "+ 3"),
    Edit(
        "a cached property",
        "from functools import cached_property\nclass Rules:\n    @cached_property\n    def limit(self):\n"
        "        return 2\ndef score(d):\n    return d + Rules().limit\n",
        "return 2",
        "return 3",
    ),
    Edit(
        "a dispatched function",
        "from functools import singledispatch\n@singledispatch\ndef limit(d):\n    return 1\n"
        "@limit.register\ndef of_int(d: int):\n    return 2\ndef score(d):\n    return d + limit(d)\n",
        "return 2",
        "return 3",
    ),
    Edit(
        "a closure",
        "def made(limit):\n    def score(d):\n        return d + limit\n    return score\nscore = made(2)\n",
        "made(2)",
        "made(3)",
    ),
    Edit(
        "a function in a closure",
        "def made(limit):\n    return lambda d: d + limit()\nscore = made(lambda: 2)\n",
        ": 2",
        ": 3",
    ),
    Edit("a default", "def score(d, limit=2):\n    return d + limit\n", "limit=2", "limit=3"),
    Edit("a default by keyword", "def score(d, *, limit=2):\n    return d + limit\n", "limit=2", "limit=3"),
    Edit(
        "a default of a function inside",
        "def score(d):\n    def inner(limit=2):\n        return limit\n    return d + inner()\n",
        "limit=2",
        "limit=3",
    ),
    Edit(
        "arguments of a partial",
        "from functools import partial\ndef plus(limit, d):\n    return d + limit\nscore = partial(plus, 2)\n",
        "plus, 2",
        "plus, 3",
    ),
    Edit(
        "keywords of a partial",
        "from functools import partial\ndef plus(d, limit):\n    return d + limit\nscore = partial(plus, limit=2)\n",
        "limit=2",
        "limit=3",
    ),
    Edit(
        "the function of a partial",
        "from functools import partial\ndef plus(d, limit):\n    return d + limit + 2\nscore = partial(plus, limit=2)\n",
        "+ 2\n",
        "+ 3\n",
    ),
    Edit(
        "the object of a method",
        "class Rules:\n    def __init__(self, limit):\n        self.limit = limit\n    def score(self, d):\n"
        "        return d + self.limit\nscore = Rules(2).score\n",
        "Rules(2)",
        "Rules(3)",
    ),
    Edit("the object of a built-in method", "score = {'a': 2}.get\n", "2", "3"),
    Edit("the pattern of a built-in method", "import re\nscore = re.compile('a').search\n", "'a'", "'b'"),
    Edit(
        "the call of an object",
        "class Rules:\n    def __call__(self, d):\n        return d + 2\nscore = Rules()\n",
        "+ 2",
        "+ 3",
    ),
    Edit(
        "an attribute of an object",
        "class Rules:\n    limit = None\n    def __call__(self, d):\n        return d + self.limit\n"
        "score = Rules()\nscore.limit = 2\n",
        "limit = 2",
        "limit = 3",
    ),
    Edit("an attribute of the function", "def score(d):\n    return d + score.limit\nscore.limit = 2\n", "= 2", "= 3"),
    Edit("a helper", "from helpers import helper\ndef score(d):\n    return helper(d)\n", "n + L", "n - L", {"helpers.py": HELPERS}),
    Edit("a constant of a helper", "from helpers import helper\ndef score(d):\n    return helper(d)\n", "= 2", "= 3", {"helpers.py": HELPERS}),
    Edit("a helper two files away", "import helpers\ndef score(d):\n    return helpers.helper(d)\n", "+ 2", "+ 3", DEEPER),
    Edit("an import inside", "def score(d):\n    import helpers\n    return helpers.helper(d)\n", "+ 2", "+ 3", DEEPER),
    Edit("an import inside, renamed", "def score(d):\n    import rules.inner as r\n    return r.helper(d)\n", "+ 2", "+ 3", PACKAGE),
    Edit("an import from, inside", "def score(d):\n    from rules.inner import helper\n    return helper(d)\n", "+ 2", "+ 3", PACKAGE),
    Edit("an import of a module from a package", "def score(d):\n    from rules import inner\n    return inner.helper(d)\n", "+ 2", "+ 3", PACKAGE),
    Edit("an import for a function inside", "def score(d):\n    import helpers\n    return (lambda: helpers.helper(d))()\n", "+ 2", "+ 3", DEEPER),
    Edit("a module that is handed on", "import helpers\ndef score(d):\n    return getattr(helpers, 'hel' + 'per')(d)\n", "+ 2", "+ 3", DEEPER),
    Edit("a module in a variable", "import helpers\ndef score(d):\n    h = helpers\n    return h.helper(d)\n", "+ 2", "+ 3", DEEPER),
    Edit("a package without a file of its own", "from space.inner import helper\ndef score(d):\n    return helper(d)\n", "+ 2", "+ 3", {"space/inner.py": "def helper(n):\n    return n + 2\n"}),
    Edit(
        "a relative import",
        "from rules.outer import score\n",
        "+ 2",
        "+ 3",
        {**PACKAGE, "rules/outer.py": "def score(d):\n    from .inner import helper\n    return helper(d)\n"},
    ),
    Edit("a star", "from helpers import *\ndef score(d):\n    return helper(d)\n", "= 2", "= 3", {"helpers.py": HELPERS}),
    Edit("globals()", "def helper(d):\n    return d + 2\ndef score(d):\n    return globals()['hel' + 'per'](d)\n", "+ 2", "+ 3"),
    Edit("a table of functions", "TABLE = {'a': lambda d: d + 2}\ndef score(d):\n    return TABLE['a'](d)\n", "+ 2", "+ 3"),
    Edit("a list of functions", "def two(d):\n    return d + 2\nSTEPS = [two]\ndef score(d):\n    return STEPS[0](d)\n", "+ 2", "+ 3"),
    Edit("a set of functions", "def two(d):\n    return d + 2\nSTEPS = {two}\ndef score(d):\n    return [f(d) for f in STEPS]\n", "+ 2", "+ 3"),
    Edit("a registry", "RULES = {}\ndef rule(f):\n    RULES[f.__name__] = f\n    return f\n@rule\ndef two(d):\n    return d + 2\ndef score(d):\n    return RULES['two'](d)\n", "+ 2", "+ 3"),
    Edit("an attribute by its name", "class Rules:\n    def two(self, d):\n        return d + 2\ndef score(d):\n    return getattr(Rules(), 'tw' + 'o')(d)\n", "+ 2", "+ 3"),
    Edit("an attribute of the class", "class Rules:\n    limit = 2\n    def __call__(self, d):\n        return d + self.limit\nscore = Rules()\n", "= 2", "= 3"),
    Edit("a property", "class Rules:\n    @property\n    def limit(self):\n        return 2\n    def __call__(self, d):\n        return d + self.limit\nscore = Rules()\n", "return 2", "return 3"),
    Edit("a static method", "class Rules:\n    @staticmethod\n    def limit():\n        return 2\ndef score(d):\n    return d + Rules.limit()\n", "return 2", "return 3"),
    Edit("a class method", "class Rules:\n    @classmethod\n    def limit(cls):\n        return 2\ndef score(d):\n    return d + Rules.limit()\n", "return 2", "return 3"),
    Edit("a descriptor", "class Two:\n    def __get__(self, one, kind):\n        return 2\nclass Rules:\n    limit = Two()\ndef score(d):\n    return d + Rules().limit\n", "return 2", "return 3"),
    Edit("__getattr__ of a class", "class Rules:\n    def __getattr__(self, name):\n        return 2\ndef score(d):\n    return d + Rules().limit\n", "return 2", "return 3"),
    Edit("__getattr__ of a module", "import helpers\ndef score(d):\n    return d + helpers.limit\n", "return 2", "return 3", {"helpers.py": "def __getattr__(name):\n    if name != 'limit':\n        raise AttributeError(name)\n    return 2\n"}),
    Edit("a member of an enumeration", "import enum\nclass Limit(enum.Enum):\n    LOW = 2\ndef score(d):\n    return d + Limit.LOW.value\n", "= 2", "= 3"),
    Edit("a member in a table", "import enum\nclass Limit(enum.IntEnum):\n    LOW = 2\nTABLE = [Limit.LOW]\ndef score(d):\n    return d + TABLE[0]\n", "= 2", "= 3"),
    Edit("a class that is made at run time", "Rules = type('Rules', (), {'limit': lambda self: 2})\ndef score(d):\n    return d + Rules().limit()\n", ": 2", ": 3"),
    Edit("a data class that is made at run time", "import dataclasses\nRules = dataclasses.make_dataclass('Rules', ['n'], namespace={'limit': lambda self: 2})\ndef score(d):\n    return d + Rules(1).limit()\n", ": 2", ": 3"),
    Edit("a class inside", "def score(d):\n    class Rules:\n        limit = 2\n    return d + Rules.limit\n", "= 2", "= 3"),
    Edit("a named tuple", "from collections import namedtuple\nRules = namedtuple('Rules', 'limit')\nR = Rules(2)\ndef score(d):\n    return d + R.limit\n", "Rules(2)", "Rules(3)"),
    Edit("code without a source", "space = {}\nexec('def score(d):\\n    return d + 2', space)\nscore = space['score']\n", "+ 2", "+ 3"),
    Edit("a mutable default that is filled", "def score(d, memory={'limit': 2}):\n    return d + memory['limit']\n", ": 2", ": 3"),
    Edit("a function of the project in an object of a library", "from sklearn.preprocessing import FunctionTransformer\ndef two(x):\n    return x + 2\nSTEP = FunctionTransformer(two)\ndef score(d):\n    return STEP.transform([[d]])\n", "+ 2", "+ 3"),
    Edit("a subclass of a class of a library", "import json\nclass Decoder(json.JSONDecoder):\n    def decode(self, s):\n        return super().decode(s) + 2\ndef score(d):\n    return Decoder().decode(d)\n", "+ 2", "+ 3"),
    Edit("an attribute getter", "from operator import attrgetter\nGET = attrgetter('a')\ndef score(d):\n    return GET(d)\n", "'a'", "'b'"),
    Edit("a factory of a field", "from dataclasses import dataclass, field\n@dataclass\nclass Config:\n    limits: list = field(default_factory=lambda: [2])\ndef score(d):\n    return d + Config().limits[0]\n", "[2]", "[3]"),
    Edit("an annotation that a decorator reads", "def typed(f):\n    return lambda d: f.__annotations__['d'](d)\n@typed\ndef score(d: int):\n    return d\n", "d: int", "d: float"),
    Edit("another function of a library", "from math import floor as rounded\ndef score(d):\n    return rounded(d)\n", "floor", "ceil"),
    Edit("a method of the document's class", "from helpers import Document\ndef score(d):\n    return Document(d).text()\n", "+ 2", "+ 3", {"helpers.py": "class Document:\n    def __init__(self, n):\n        self.n = n\n    def text(self):\n        return self.n + 2\n"}),
]  # fmt: skip
"""After each edit the fingerprint of ``scorer.score`` is another one where the modules are declared."""

OWN = {
    "a comparison",
    "a constant of the code",
    "a decorator",
    "a decorator that wraps",
    "what a decorator wraps",
    "a cached scorer",
    "a closure",
    "a function in a closure",
    "a default",
    "a default by keyword",
    "a default of a function inside",
    "arguments of a partial",
    "keywords of a partial",
    "the function of a partial",
    "the object of a method",
    "the object of a built-in method",
    "the pattern of a built-in method",
    "the call of an object",
    "an attribute of an object",
    "an attribute of the function",
    "an attribute of the class",
    "a property",
    "a class inside",
    "code without a source",
    "a mutable default that is filled",
}
"""Edits of the function itself, which are seen without a declaration."""


class Change(NamedTuple):
    """A project, and what happens to it while it runs."""

    name: str
    scorer: str
    statement: str


CHANGES = [
    Change("a table", "TABLE = {'limit': 2}\ndef score(d):\n    return d + TABLE['limit']\n", "TABLE['limit'] = 3"),
    Change("a global", "LIMIT = 2\ndef score(d):\n    return d + LIMIT\n", "LIMIT = 3"),
    Change("a default", "def score(d, limit=2):\n    return d + limit\n", "score.__defaults__ = (3,)"),
    Change("the code", "def score(d):\n    return d + 2\n", "score.__code__ = (lambda d: d + 3).__code__"),
    Change("an attribute of a class", "class R:\n    limit = 2\ndef score(d):\n    return d + R.limit\n", "R.limit = 3"),
    Change("a method", "class R:\n    def f(self):\n        return 2\ndef score(d):\n    return R().f()\n", "R.f = lambda self: 3"),
    Change("a mutable default", "def score(d, seen=[]):\n    seen.append(d)\n    return len(seen)\n", "score(1)"),
    Change("a built-in by a global", "def score(d):\n    return len(d)\n", "len = lambda d: 3"),
]  # fmt: skip


class Hidden(NamedTuple):
    """A project whose scorer depends on more than its code, and why it is not cached."""

    name: str
    scorer: str
    words: str


HIDDEN = [
    Hidden("open", "def load():\n    return open('x').read()\ndef score(d):\n    return load()\n", "uses load"),
    Hidden("open under another name", "fetch = open\ndef score(d):\n    return fetch('x').read()\n", "uses fetch"),
    Hidden("io.open", "import io\ndef score(d):\n    return io.open('x').read()\n", "uses io"),
    Hidden("read_text", "from pathlib import Path\ndef score(d):\n    return Path('x').read_text()\n", "uses Path"),
    Hidden("a path that is opened", "from pathlib import Path\nP = Path('x')\ndef score(d):\n    with P.open() as f:\n        return f.read()\n", "uses P"),
    Hidden("numpy.load", "import numpy as np\ndef score(d):\n    return np.load('x')\n", "uses np"),
    Hidden("numpy.load, imported inside", "def score(d):\n    import numpy as np\n    return np.load('x')\n", "uses numpy"),
    Hidden("numpy.loadtxt by its name", "from numpy import loadtxt\ndef score(d):\n    return loadtxt('x')\n", "uses loadtxt"),
    Hidden("torch.load", "import torch\ndef score(d):\n    return torch.load('x')\n", "uses torch"),
    Hidden("a data base", "import sqlite3\ndef score(d):\n    return sqlite3.connect('x')\n", "uses sqlite3"),
    Hidden("resources of a package", "from importlib.resources import files\ndef score(d):\n    return files('rules')\n", "uses files"),
    Hidden("whether a file exists", "import os.path\ndef score(d):\n    return os.path.exists('x')\n", "uses os"),
    Hidden("a listed folder", "import os\ndef score(d):\n    return os.listdir('x')\n", "uses os"),
    Hidden("a pretrained model", "from transformers import AutoModel\ndef score(d):\n    return AutoModel.from_pretrained('x')\n", "uses AutoModel"),
    Hidden("a variable of the environment", "import os\ndef score(d):\n    return os.environ['MODE']\n", "uses os"),
    Hidden("getenv", "from os import getenv\ndef score(d):\n    return getenv('MODE')\n", "uses getenv"),
    Hidden("environ by its name", "from os import environ\ndef score(d):\n    return environ.get('MODE')\n", "uses environ"),
    Hidden("the working directory", "import os\ndef score(d):\n    return os.getcwd()\n", "uses os"),
    Hidden("the working directory of a path", "from pathlib import Path\ndef score(d):\n    return Path.cwd()\n", "uses Path"),
    Hidden("arguments of the program", "import sys\ndef score(d):\n    return sys.argv[1]\n", "uses sys"),
    Hidden("eval", "RULE = 'd + 2'\ndef score(d):\n    return eval(RULE)\n", "uses RULE, eval"),
    Hidden("exec", "def score(d):\n    exec('import helpers')\n", "uses exec"),
    Hidden("a dynamic import", "import importlib\ndef score(d):\n    return importlib.import_module('hel' + 'pers')\n", "uses importlib"),
    Hidden("__import__", "def score(d):\n    return __import__('helpers')\n", "uses __import__"),
    Hidden("loaded modules", "import sys\ndef score(d):\n    return sys.modules['helpers'].f(d)\n", "uses sys"),
    Hidden("loaded modules by their name", "from sys import modules\ndef score(d):\n    return modules['helpers']\n", "uses modules"),
    Hidden("subclasses", "class B:\n    pass\ndef score(d):\n    return B.__subclasses__()[0]().f(d)\n", "uses B"),
    Hidden("the frames above", "import sys\ndef score(d):\n    return sys._getframe(1).f_globals['x']\n", "uses sys"),
    Hidden("the module of built-ins", "import builtins\ndef score(d):\n    return getattr(builtins, 'op' + 'en')('x')\n", "uses builtins"),
    Hidden("a pickle", "import pickle\ndef score(d):\n    return pickle.loads(d)\n", "uses pickle"),
    Hidden("a library of C", "import ctypes\ndef score(d):\n    return ctypes.CDLL('x').f(d)\n", "uses ctypes"),
    Hidden("a program", "import subprocess\ndef score(d):\n    return subprocess.run(['x'])\n", "uses subprocess"),
    Hidden("os.system", "import os\ndef score(d):\n    return os.system('x')\n", "uses os"),
    Hidden("a generator", "ROWS = (n for n in [1])\ndef score(d):\n    return next(ROWS)\n", "uses ROWS"),
    Hidden("an open file", "import os\nROWS = open(os.devnull)\nROWS.close()\ndef score(d):\n    return ROWS.read()\n", "uses ROWS"),
    Hidden("a store of a thread", "import threading\nHERE = threading.local()\ndef score(d):\n    return HERE.x\n", "uses HERE"),
    Hidden("a file in a method", "class Rules:\n    def load(self):\n        return open('x')\n    def __call__(self, d):\n        return d\nscore = Rules()\n", "is no plain function but a Rules"),
    Hidden("a file in a decorator", "from functools import wraps\ndef from_file(f):\n    @wraps(f)\n    def inner(d):\n        return open('x').read()\n    return inner\n@from_file\ndef score(d):\n    return d\n", "uses open"),
]  # fmt: skip
"""None is cached, unless something is declared."""

ORDINARY = {
    "exact match": "import re\nWORD = re.compile(r'(-?[0-9.,]{2,})|(-?[0-9]+)')\nARTICLES = {'a', 'an', 'the'}\n"
    "def normal(t):\n    return ' '.join(w for w in t.lower().split() if w not in ARTICLES)\n"
    "def score(d):\n    return float(normal(WORD.sub('', d['a'])) == normal(d['b']))\n",
    "math answers": "import ast, fractions, math\ndef score(d):\n    try:\n"
    "        return math.isclose(ast.literal_eval(d['a']), fractions.Fraction(d['b']))\n    except ValueError:\n        return 0\n",
    "json answers": "import json\ndef score(d):\n    return json.loads(d['a']) == json.loads(d['b'])\n",
    "yaml answers": "import yaml\ndef score(d):\n    return yaml.safe_load(d['a']) == d['b']\n",
    "a logger": "import logging\nLOG = logging.getLogger(__name__)\ndef score(d):\n    LOG.info('x')\n    return d\n",
    "a lock": "import threading\nLOCK = threading.Lock()\ndef score(d):\n    with LOCK:\n        return d\n",
    "warnings and dates": "import warnings, datetime, time, random\ndef score(d):\n    warnings.warn('x')\n"
    "    return time.time(), datetime.datetime.now(), random.random()\n",
    "a metric of sklearn": "from sklearn.metrics import f1_score\ndef score(d):\n    return f1_score(d['a'], d['b'])\n",
    "a pipeline of sklearn": "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\n"
    "P = make_pipeline(StandardScaler()).fit([[0.0], [1.0]])\ndef score(d):\n    return P.transform(d)\n",
    "a function of torchmetrics": "import torch\nfrom torchmetrics.functional import accuracy\n"
    "def score(d):\n    return accuracy(torch.tensor(d['a']), torch.tensor(d['b']), task='binary').item()\n",
    "a metric of torchmetrics": "from torchmetrics.text import BLEUScore\nBLEU = BLEUScore()\n"
    "def score(d):\n    return BLEU(d['a'], d['b']).item()\n",
    "a filter of lm-eval": "from lm_eval.filters.extraction import RegexFilter\nF = RegexFilter(r'(\\d+)')\n"
    "def score(d):\n    return F.apply([d['a']], [d])\n",
    "numbers": "import numpy as np\ndef score(d):\n    return np.mean(np.asarray(d)) * np.pi + np.linalg.norm(d)\n",
    "a function of NumPy imported inside": "def score(d):\n    import numpy as np\n    return np.clip(np.mean(d), 0, np.inf)\n",
    "torch": "import torch\nimport torch.nn.functional as F\n"
    "def score(d):\n    return F.cross_entropy(torch.tensor(d['a'], dtype=torch.float32), torch.tensor(d['b'])).item()\n",
    "settings": "from dataclasses import dataclass, field\nfrom enum import Enum\nfrom pathlib import PurePath\n"
    "class Mode(Enum):\n    FAST = 'fast'\n@dataclass(frozen=True)\nclass Config:\n    mode: Mode = Mode.FAST\n"
    "    names: frozenset = frozenset({'a', 'b', 'c'})\n    where: PurePath = PurePath('x')\n"
    "    limits: dict = field(default_factory=dict)\nCONFIG = Config()\ndef score(d):\n    return CONFIG.mode, d\n",
    "an iterator of C": "import itertools\nROWS = itertools.count(3)\ndef score(d):\n    return next(ROWS)\n",
    "a pool": "from concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor(1)\n"
    "def score(d):\n    return POOL.submit(len, d).result()\n",
    "an optional library": "try:\n    import no_such_library\nexcept ImportError:\n    no_such_library = None\n"
    "def score(d):\n    import no_such_other\n    return d\n",
    "an abstract class": "from abc import ABC, abstractmethod\nfrom typing import Generic, Protocol, TypeVar\nT = TypeVar('T')\n"
    "class P(Protocol):\n    def go(self) -> int: ...\nclass B(ABC, Generic[T]):\n    @abstractmethod\n    def go(self): ...\n"
    "class R(B[int]):\n    def go(self):\n        return 2\ndef score(d: P):\n    return R().go()\n",
    "texts": "import difflib, string, unicodedata, collections, itertools, functools, textwrap\n"
    "def score(d):\n    t = unicodedata.normalize('NFKC', d).translate(str.maketrans('', '', string.punctuation))\n"
    "    return difflib.SequenceMatcher(None, t, d).ratio() + len(collections.Counter(t))\n",
    "pass at k": "from pytest_evalcheck.fixes.scoring import pass_at\ndef score(d):\n    return pass_at([True, False], (1, 2))\n",
}
"""Each has the same fingerprint in every process, where its module is declared."""
