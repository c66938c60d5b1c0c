"""Strategies that may draw what a metric takes, the likeliest first, each as source of a target file.

A guess is no claim: it is used only where the metric accepts it and right and wrong predictions differ.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.protocols.metric import is_numbered_pair, role
from pytest_evalcheck.adapters.protocols.three_arrays import ThreeArrays
from pytest_evalcheck.discovery.naming_tables import TOPICS
from pytest_evalcheck.discovery.schemas import Schema

_FORMS = ("probabilities", "logits", "labels")
_MOST_OUTPUTS = 8
_SMALL = 4
_MOST_NUMBERS = 200
"""The rows of an example are written out where they have no more numbers than this."""
_INDICES = re.compile(r"(^|_)(index|indices|indexes|idx|edges?|graph|adj|ptr|offsets?|ranks)(_|\d|$)")
"""Words in the name of a parameter that takes places of samples in something else."""
_SCORES = re.compile(r"(^|_)(logits?|probs?|probabilit(y|ies)|scores?)(_|$)")
"""Words in the name of a parameter that takes a score of each class, or of each candidate."""
_TEXTS = re.compile(r"(^|_)(hypothes[ie]s|candidates?|sentences?|texts?|strings?|transcripts?)(_|$)")
"""Words in the name of a parameter that takes texts."""
_TEXT_STRATEGIES = re.compile(r"es\.(text_|answers)")
"""Strategies whose samples are texts, of which there are no arrays."""
_NO_SCORES = re.compile(r'of="labels"|es\.(regression|clusters|text|values|segmentation|answers|tokens\(\))')
"""Strategies whose predictions are no scores."""
_NO_TIES = ".replace(distinct=lambda sample: sample[0])"
"""Suffix that makes candidate scores unique: a tie has no right order."""


def from_example(arguments: Mapping[str, Any], options: Mapping[str, Any], name: str = "") -> Iterator[str]:
    """Strategies of the form of these arguments, by parameter; ``options`` are those of the constructor."""
    schemas = {name: Schema.of(value) for name, value in arguments.items() if value is not None}
    if any(each.fields for each in schemas.values()):
        yield from _field_strategies(arguments, list(schemas.values()))
        return
    if _topics(name)[:1] == ["audio"] and {len(each.shape) for each in schemas.values()} <= {1, 2}:
        yield from _signal_strategies(name, max(len(each.shape) for each in schemas.values()))
        return
    names = list(schemas)
    swapped = len(names) > 1 and (role(names[0]), role(names[1])) == ("targets", "predictions")
    pair = [schemas[name] for name in names[:2]]
    guesses: Iterator[str] = iter(())
    if len(names) == 1:
        guesses = _strategies_for_single(pair[0])
    elif len(names) == 2:
        guesses = _strategies_for_pair(pair[int(swapped)], pair[1 - int(swapped)], options)
    elif len(names) == 3:
        guesses = _strategies_for_three(names, schemas, options)
    form = _container(pair)
    topic = _topics(name)[:1] == ["retrieval"]
    ranked = topic and [len(each.shape) for each in pair] == [1, 1]
    for guess in guesses:
        turned = f"{guess}{_NO_TIES}" if ranked and not guess.startswith("es.retrieval") else guess
        turned = f"{turned}.swapped()" if swapped else turned
        yield f"{turned}{form}"
        if len(pair) == 2 and pair[0 if swapped else 1].kind == "float":
            yield f"{turned}.as_float({0 if swapped else 1}){form}"
    yield from _example_rows(list(schemas.values()), ranked=topic)


def from_parameters(found: ThreeArrays, *, tensors: bool) -> Iterator[str]:
    """Strategies for a function of three arrays whose names say what they are."""
    ordered = "" if found.order == (0, 1, 2) else f".packed{found.order!r}"
    guess = f"es.{found.kind}(){ordered}"
    yield from [guess, f"{guess}.as_numpy()"] if tensors else array_strategies(guess)


def from_annotations(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Numbers beside whole ones, as in ``update(value: float, num_samples: int)``; by parameter, its annotation."""
    kinds = [_KINDS.get(annotation) for annotation in parameters.values()]
    if {*kinds} == {"float32", "int64"} and not any(map(role, parameters)):
        columns = ", ".join("[0.5, 1.0, 2.5, -1.25]" if kind == "float32" else "[1, 2, 3, 5]" for kind in kinds)
        yield f"es.rows({columns}, dtypes={tuple(kinds)!r})"


_KINDS = {float: "float32", "float": "float32", int: "int64", "int": "int64"}


def one_sample_strategies(name: str, parameters: Sequence[str]) -> Iterator[str]:
    """Strategies whose samples are images, signals, texts or vectors, for a function of one, the likeliest first."""
    texts = ["text"] if any(map(_TEXTS.search, parameters[:2])) else []
    topics = [topic for topic in (*texts, *_topics(name)) if topic in _ONE_SAMPLE_STRATEGIES]
    swapped = role(parameters[0]) == "targets" if parameters else False
    for topic in dict.fromkeys([*topics, *_ONE_SAMPLE_STRATEGIES]):
        for guess in _ONE_SAMPLE_STRATEGIES[topic]:
            turned = f"{guess}.swapped()" if swapped else guess
            yield turned if topic == "text" else f"{turned}.as_numpy()"


_ONE_SAMPLE_STRATEGIES: dict[str, tuple[str, ...]] = {
    "text": ("es.text_pairs()", "es.text_pairs(references=2)"),
    "image": ('es.arrays((12, 12), (12, 12), dtypes=("float32",) * 2, ranges=((0.0, 1.0),) * 2)',),
    "segmentation": ("es.segmentation(classes=2, size=(8, 8))", "es.segmentation(classes=3, size=(8, 8))"),
    "audio": ("es.audio()",),
    "regression": ("es.regression(outputs=8)", "es.regression(outputs=8, positive=True)"),
}
"""By topic: strategies whose samples are more than a number."""


def from_words(
    name: str, parameters: Sequence[str], options: Mapping[str, Any], *, tensors: bool = True
) -> Iterator[str]:
    """Strategies for a metric of this name, whose ``update`` has these parameters.

    Args:
        name: that of the class or function.
        parameters: their names, the data first.
        options: by name, what it was made with.
        tensors: whether its library knows tensors; arrays are tried first where it does not.
    """
    if any(map(_INDICES.search, parameters[:2])):
        return  # places of samples in something else, which no word describes
    roles = [*map(role, parameters[:2]), "", ""]
    swapped = roles[0] == "targets" != roles[1]
    pair = len(parameters) > 1 and is_numbered_pair(*parameters[:2])
    single = not pair and (len(parameters) == 1 or not roles[1])
    first = ["text"] if any(map(_TEXTS.search, parameters[:2])) else []
    found = list(dict.fromkeys(_topic_strategies(name, options, first, single=single)))
    if not single and ("threshold" in options or any(map(_SCORES.search, parameters[:2]))):
        found = [guess for guess in found if not _NO_SCORES.search(guess)]
    turned = [f"{guess}.swapped()" if swapped and "values" not in guess else guess for guess in found]
    if not tensors:
        yield from (source for guess in turned for source in array_strategies(guess))
    yield from (f"{guess}{form}" for form in ("", ".as_numpy()", ".as_list()", ".as_float(1)") for guess in turned)


def array_strategies(guess: str) -> list[str]:
    """A strategy for a library that knows no tensors: arrays first, and as it is."""
    as_it_is = guess.endswith((".as_numpy()", ".as_list()")) or _TEXT_STRATEGIES.match(guess)
    return [guess] if as_it_is else [f"{guess}.as_numpy()", guess]


def _topic_strategies(name: str, options: Mapping[str, Any], first: Sequence[str], *, single: bool) -> Iterator[str]:
    topics = [*first, *_topics(name)]
    if topics[:1] == ["audio"]:  # what else has such a form would take the time for the samples
        yield from _TOPICS["audio"](options)
        return
    if "include_background" in options:  # a background is one of several channels
        topics.insert(0, "segmentation")
    if options.get("num_labels") or options.get("task") == "multilabel":
        topics.insert(0, "multilabel")
    if options.get("num_classes") or options.get("task") == "multiclass":
        topics.insert(0, "multiclass")
    if options.get("task") == "binary":
        topics.insert(0, "binary")
    rest = ["values"] if single else []
    rest += ["classification", "regression", "multilabel", "text", "clusters", "segmentation", "retrieval", "image"]
    if "pos_label" in options:  # it is compared with labels
        rest, topics = [], ["binary", "classification"]
    for topic in dict.fromkeys([*topics, *rest, "values", "audio"] if rest else topics):
        yield from _TOPICS[topic](options)


def _topics(name: str) -> list[str]:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return [topic for topic, pattern in TOPICS if re.search(pattern, words) or re.search(pattern, name.lower())]


def _signal_strategies(name: str, dimensions: int) -> Iterator[str]:
    """Return readings of an example: one dimension is a signal, two are the signals of speakers, or several of one."""
    several = re.search(r"source|speaker|permut", name.lower())
    yield "es.audio(speakers=2)" if dimensions == 2 and several else "es.audio()"
    yield from _TOPICS["audio"]({})


def _classes(options: Mapping[str, Any], *names: str, default: int = 3) -> int:
    for name in names:
        if isinstance(options.get(name), int) and options[name] > 1:
            return int(options[name])
    return default


def _ignoring(options: Mapping[str, Any]) -> str:
    ignored = options.get("ignore_index")
    return f", ignore_index={ignored}" if isinstance(ignored, int) else ""


def ignoring_as(source: str, options: Mapping[str, Any]) -> str:
    """Return the strategy with the ignored label of these options in place of its own; none where they have none.

    >>> ignoring_as('es.binary(of="labels", ignore_index=-100)', {"ignore_index": None})
    'es.binary(of="labels")'
    >>> ignoring_as('es.binary(of="labels").as_numpy()', {"ignore_index": -1})
    'es.binary(of="labels", ignore_index=-1).as_numpy()'
    """
    name = re.match(r"es\.(\w+)", source)
    if "ignore_index" not in options or name is None:
        return source
    plain = re.sub(r", ignore_index=-?\d+", "", source)
    takes_one = "ignore_index" in inspect.signature(getattr(es, name[1])).parameters
    return re.sub(r"^(es\.\w+\([^()]+)\)", rf"\1{_ignoring(options)})", plain) if takes_one else plain


def _binary(options: Mapping[str, Any]) -> Iterator[str]:
    for form in _FORMS:
        yield f'es.binary(of="{form}"{_ignoring(options)})'


def _multiclass(options: Mapping[str, Any]) -> Iterator[str]:
    classes = _classes(options, "num_classes", "n_classes", "classes")
    forms = ("labels", "probabilities", "logits") if (options.get("top_k") or 1) == 1 else ("probabilities", "logits")
    for form in forms:
        yield f'es.multiclass(classes={classes}, of="{form}"{_ignoring(options)})'


def _multilabel(options: Mapping[str, Any]) -> Iterator[str]:
    labels = _classes(options, "num_labels", "num_classes")
    for form in _FORMS:
        yield f'es.multilabel(labels={labels}, of="{form}"{_ignoring(options)})'


def _classification(options: Mapping[str, Any]) -> Iterator[str]:
    yield f'es.binary(of="labels"{_ignoring(options)})'
    yield from _multiclass(options)
    yield from _binary(options)


def _regression(options: Mapping[str, Any]) -> Iterator[str]:
    outputs = options.get("num_outputs")
    several = f"outputs={outputs}" if isinstance(outputs, int) and outputs > 1 else ""
    yield f"es.regression({several})"
    yield f"es.regression({', '.join(filter(None, [several, 'positive=True']))})"
    if not several:
        yield "es.regression(outputs=2)"
        yield "es.regression(outputs=2, positive=True)"


def _segmentation(options: Mapping[str, Any]) -> Iterator[str]:
    classes = _classes(options, "num_classes")
    index = f"es.segmentation(classes={classes}{_ignoring(options)})"
    channels = f'es.masks(classes={classes}, height=8, width=8, form="onehot")'
    yield from (channels, index) if "include_background" in options else (index, channels)
    yield f"es.masks(classes={classes}, height=8, width=8)"


def _retrieval(options: Mapping[str, Any]) -> Iterator[str]:
    yield f"es.retrieval({_ignoring(options).removeprefix(', ')})"
    yield "es.rankings()"


def _pairs(*sources: str) -> Any:
    return lambda options: iter(sources)  # noqa: ARG005


_TOPICS: dict[str, Any] = {
    "binary": _binary,
    "multiclass": _multiclass,
    "multilabel": _multilabel,
    "classification": _classification,
    "regression": _regression,
    "segmentation": _segmentation,
    "text": _pairs("es.text_pairs()", "es.text_pairs(references=2)", "es.text_lists()", "es.tokens()", "es.answers()"),
    "retrieval": _retrieval,
    "clusters": _pairs("es.clusters()"),
    "values": _pairs(
        "es.values()",
        "es.values(weighted=True)",
        'es.arrays((2,), dtypes=("float32",), ranges=((-4.0, 4.0),))',
        'es.arrays((2,), dtypes=("float32",), ranges=((0.125, 4.0),))',
    ),
    "ranking": _pairs("es.rankings()", "es.rankings(levels=4)"),
    "image": _pairs("es.image_pairs()", "es.image_pairs(height=48, width=48)"),
    "audio": _pairs("es.audio()", "es.audio(speakers=2)", "es.audio(length=8000)"),
    "detection": _pairs("es.boxes()"),
}


def _strategies_for_single(one: Schema) -> Iterator[str]:
    if one.numbers and len(one.shape) <= 1:
        yield "es.values(nonnegative=True)" if one.low >= 0 else "es.values()"
        yield "es.values()"
    if one.container == "number":
        yield "es.values()"


def _strategies_for_three(
    names: Sequence[str], schemas: Mapping[str, Schema], options: Mapping[str, Any]
) -> Iterator[str]:
    if re.search(r"index|quer|group", names[2].lower()) and all(schemas[name].numbers for name in names):
        of_default = tuple(names) == ("preds", "target", "indexes")
        named = "" if of_default or any(name.isdigit() for name in names) else f".named({', '.join(map(repr, names))})"
        yield from (f"{guess}{named}" for guess in _retrieval(options))


def _strategies_for_pair(predicted: Schema, truth: Schema, options: Mapping[str, Any]) -> Iterator[str]:
    if predicted.container == "texts":
        yield from _text_strategies(truth)
    if predicted.container == truth.container == "text lists":
        yield "es.text_lists()"
    if not (predicted.numbers and truth.numbers):
        return
    dimensions = len(predicted.shape), len(truth.shape)
    labels = _is_whole(truth) and truth.low >= 0 and (truth.high <= 1 or predicted.kind == "int")
    if truth.kind == "float" and not labels:
        yield from _number_strategies(predicted, truth, dimensions, options)
        return
    if dimensions == (1, 1):
        yield from _label_strategies(predicted, truth, options)
    elif dimensions == (2, 1):
        classes = predicted.shape[1]
        yield f'es.multiclass(classes={classes}, of="{_form(predicted)}"{_ignoring(options)})'
    elif dimensions == (2, 2) and {0, 1} >= {truth.low, truth.high}:
        yield f'es.multilabel(labels={predicted.shape[1]}, of="{_form(predicted)}"{_ignoring(options)})'
    elif dimensions == (3, 2) and predicted.kind == "float" and predicted.shape[1] == truth.shape[1]:
        yield f"es.tokens(vocab={max(predicted.shape[2], 2)}, length={truth.shape[1]}{_ignoring(options)})"
    elif dimensions == (3, 3) and predicted.kind != "float":
        classes = _classes(options, "num_classes", default=int(max(predicted.high, truth.high)) + 1)
        yield f"es.segmentation(classes={max(classes, 2)}, size={truth.shape[1:]}{_ignoring(options)})"
    elif dimensions == (4, 4) and predicted.shape == truth.shape and max(predicted.high, truth.high) == 1:
        _, classes, height, width = truth.shape
        if max(height, width) > _SMALL:  # whole classes are absent from small masks
            yield f'es.masks(classes={classes}, height={_SMALL}, width={_SMALL}, form="onehot")'
        yield f'es.masks(classes={classes}, height={height}, width={width}, form="onehot")'


def _label_strategies(predicted: Schema, truth: Schema, options: Mapping[str, Any]) -> Iterator[str]:
    if predicted.kind == "float":
        yield f'es.binary(of="{_form(predicted)}"{_ignoring(options)})'
        return
    classes = _classes(options, "num_classes", default=int(max(predicted.high, truth.high)) + 1)
    if classes > 2:
        yield f'es.multiclass(classes={classes}, of="labels"{_ignoring(options)})'
        yield f"es.clusters(count={classes})"
    else:
        yield f'es.binary(of="labels"{_ignoring(options)})'
        yield f'es.multiclass(classes=2, of="labels"{_ignoring(options)})'
        yield "es.clusters()"


def _number_strategies(
    predicted: Schema, truth: Schema, dimensions: tuple[int, int], options: Mapping[str, Any]
) -> Iterator[str]:
    positive = "positive=True" if min(predicted.low, truth.low) > 0 else ""
    if _classes(options, "num_outputs", default=1) > 1:
        yield from _regression(options)
    elif dimensions == (1, 1):
        yield "es.regression()"
        yield "es.regression(positive=True)"
    elif predicted.shape != truth.shape or (predicted.distribution and truth.distribution):
        return
    elif dimensions == (2, 2) and truth.shape[1] <= _MOST_OUTPUTS:
        outputs = f"outputs={truth.shape[1]}"
        yield f"es.regression({outputs})"
        yield f"es.regression({', '.join(filter(None, [outputs, positive]))})"
    elif dimensions == (4, 4):
        low, high = _range(truth)
        spread = "" if (low, high) == (0.0, 1.0) else f", value_range={(low, high)}"
        _, channels, height, width = truth.shape
        yield f"es.image_pairs(channels={channels}, height={height}, width={width}{spread})"


def _text_strategies(truth: Schema) -> Iterator[str]:
    if truth.container == "texts":
        yield "es.text_pairs()"
    if truth.container == "text lists":
        yield f"es.text_pairs(references={truth.width or 2})"


def _field_strategies(arguments: Mapping[str, Any], schemas: Sequence[Schema]) -> Iterator[str]:
    """Dicts of arguments: two of the same names are tasks; other ones are taken apart."""
    given = [value for value in arguments.values() if value is not None]
    if len(schemas) == 2 and schemas[0].fields and {*dict(schemas[0].fields)} == {*dict(schemas[1].fields)}:
        both = [(name, {"preds": given[0][name], "target": given[1][name]}) for name, _ in schemas[0].fields]
        found = [(name, next(from_example(pair, {}), "")) for name, pair in both]
        if all(source for _, source in found):
            yield f"es.tasks({{{', '.join(f'{name!r}: {source}' for name, source in found)}}})"
        return
    leaves: list[Schema] = []
    layout = []
    for schema in schemas:
        inside = [(name, len(leaves) + i) for i, (name, _) in enumerate(schema.fields)]
        layout.append(repr(dict(inside)) if inside else str(len(leaves)))
        leaves += [each for _, each in schema.fields] if inside else [schema]
    for source in _example_rows(leaves, ranked=False):
        yield f"{source}.packed({', '.join(layout)})"


def _is_whole(schema: Schema) -> bool:
    return (
        schema.low == round(schema.low)
        and schema.high == round(schema.high)
        and schema.values is not None
        and all(value == round(value) for value in _flat(schema.values))
    )


def _flat(values: Any) -> Iterator[float]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _form(predicted: Schema) -> str:
    if predicted.kind != "float":
        return "labels"
    if len(predicted.shape) == 2 and predicted.distribution:
        return "probabilities"
    return "probabilities" if predicted.low >= 0 and predicted.high <= 1 else "logits"


def _container(pair: Sequence[Schema]) -> str:
    if any(each.container == "array" for each in pair):
        return ".as_numpy()"
    if pair and all(each.container == "list" and each.numbers for each in pair):
        return ".as_list()"
    return ""


def _example_rows(schemas: Sequence[Schema], *, ranked: bool) -> Iterator[str]:
    """The rows of the example themselves, or arrays of its shapes."""
    lengths = {each.rows for each in schemas}
    if len(lengths) != 1 or any(each.container in ("objects", "fields", "number") for each in schemas):
        return
    numbers = [each for each in schemas if each.numbers]
    first = schemas[0]
    if (
        lengths == {1}
        and len(schemas) == 2
        and first.numbers
        and first.values is not None
        and (
            (first.kind, first.shape, first.distribution)
            == (schemas[1].kind, schemas[1].shape, schemas[1].distribution)
        )
    ):
        both = repr([*first.values, *schemas[1].values])  # one row each: they meet in every combination
        yield f"es.rows({both}, {both}, dtypes={(_dtype(first),) * 2!r})"
    if lengths == {0}:
        return
    if (
        lengths != {1}
        and all(each.values is not None for each in schemas)
        and sum(each.count for each in numbers) <= _MOST_NUMBERS
    ):
        columns = ", ".join(repr(each.values) for each in schemas)
        dtypes = tuple(_dtype(each) if each.numbers else None for each in schemas)
        ties = _without_ties(schemas, ranked=ranked)
        yield f"es.rows({columns}, dtypes={dtypes!r}){ties}"
        yield f"es.rows({columns}, dtypes={dtypes!r}, mixed=False){ties}"
    elif len(numbers) == len(schemas) and not any(each.distribution for each in schemas):
        shapes = ", ".join(repr(each.shape[1:]) for each in schemas)
        dtypes = tuple(map(_dtype, schemas))
        ranges = tuple(_range(each) for each in schemas)
        yield f"es.arrays({shapes}, dtypes={dtypes!r}, ranges={ranges!r})"


def _without_ties(schemas: Sequence[Schema], *, ranked: bool) -> str:
    """Scores of candidates, with their labels and their queries, if any: a tie has no right order."""
    kinds = [each.kind for each in schemas]
    labelled = kinds[:2] in (["float", "int"], ["float", "bool"])
    scores = labelled and (kinds[2:] == ["int"] or (ranked and len(kinds) == 2))
    return _NO_TIES if scores and all(len(each.shape) == 1 for each in schemas) else ""


def _dtype(schema: Schema) -> str:
    return {"float": "float32", "int": "int64", "bool": "bool"}[schema.kind]


def _range(schema: Schema) -> tuple[float, float]:
    if schema.kind != "float":
        return schema.low, schema.high
    if schema.low >= 0 and schema.high <= 1:
        return 0.0, 1.0
    bound = float(max(1.0, abs(round(schema.low)), abs(round(schema.high))))
    return (0.0 if schema.low >= 0 else -bound), bound
