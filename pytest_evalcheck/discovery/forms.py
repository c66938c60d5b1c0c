"""The table of forms: words of a name, words of parameters and shapes of observed arguments, and their strategies.

A strategy is no claim: it is used only where the metric accepts it and right and wrong predictions differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pytest_evalcheck.adapters.protocols.metric import is_numbered_pair, role
from pytest_evalcheck.adapters.protocols.three_arrays import ThreeArrays
from pytest_evalcheck.discovery.inputs import ES, Inputs, no_ties
from pytest_evalcheck.discovery.schemas import Schema

_MOST_OUTPUTS = 8
_SMALL = 4
_MOST_NUMBERS = 200
"""The rows of an example are written out where they have no more numbers than this."""
_SCORES = re.compile(r"(^|_)(logits?|probs?|probabilit(y|ies)|scores?)(_|$)|^threshold=")
"""Words of parameters that take a score of each class, or of each candidate."""
_EVALUATION = re.compile(r"(^|_)(metrics?|eval(s|uat[a-z]+)?|scor(e|es|er|ers|ing)|judges?|graders?|grad(e|ing))(_|$)")
_ONE_SAMPLE = "one sample"


def snake_case(name: str) -> str:
    """The words of a name in small letters: ``AUROC`` and ``MeanError`` are ``auroc`` and ``mean_error``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def says_evaluation(words: str) -> bool:
    """Return whether words in small letters say that something evaluates, or name a metric of a row of the table."""
    return bool(_EVALUATION.search(words)) or any(form.names and re.search(form.names, words) for form in FORMS)


@dataclass(frozen=True, kw_only=True)
class Known:
    """Facts about the inputs of a metric."""

    name: str
    parameters: Sequence[str] = ()
    """The names of the arguments that it is fed with."""
    options: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[Schema] = ()
    """Schemas of the arguments of an observed call, the predictions first."""
    shapes: str = ""
    """Shapes of an observed call in words, such as ``float2 label1``; empty where there is none."""

    @cached_property
    def words(self) -> list[str]:
        """The names of the first two parameters, options with their values, and whether there is one argument."""
        first, second = [*self.parameters[:2], "", ""][:2]
        pair = bool(second) and (is_numbered_pair(first, second) or role(second))
        plain = {
            name: value for name, value in self.options.items() if isinstance(value, (str, int, float, type(None)))
        }
        return [first, second, *(f"{name}={value}" for name, value in plain.items())] + ["1"] * (not pair)

    @property
    def only_scores(self) -> bool:
        """Return whether its predictions are scores by its words: of classes, or of candidates."""
        by_words = not self.shown and self.shapes != _ONE_SAMPLE and "1" not in self.words
        return by_words and any(map(_SCORES.search, self.words))

    @property
    def ignoring(self) -> dict[str, int]:
        """The label that is ignored, as an argument of a strategy."""
        label = self.options.get("ignore_index")
        return {"ignore_index": label} if isinstance(label, int) else {}

    def count(self, *names: str, usual: float = 3) -> int:
        """Return the first of these options that is a number above 1, else the usual one."""
        found = (self.options.get(name) for name in names)
        return next((value for value in found if isinstance(value, int) and value > 1), int(usual))

    @property
    def classes(self) -> int:
        """Number of classes: that of an option, else that of the labels of a call."""
        high = max((each.high for each in self.shown), default=2)
        return max(2, self.count("num_classes", "n_classes", "classes", usual=high + 1))

    def forms(self, *usual: str) -> list[str]:
        """Return the forms of predictions: the one that was observed, else the usual ones, the likeliest first."""
        if not self.shown:
            return [each for each in usual if each != "labels" or not self.only_scores]
        predicted = self.shown[0]
        if predicted.kind != "float":
            return ["labels"] if "labels" in usual else [*usual]
        scores = (predicted.distribution and len(predicted.shape) == 2) or (predicted.low >= 0 and predicted.high <= 1)
        return ["probabilities" if scores else "logits"]


@dataclass(frozen=True)
class Form:
    """A row of the table."""

    names: str
    """Words in the name of a class or function."""
    parameters: str
    """Words of `Known.words`, which say more than a name."""
    shapes: str
    """Words of `Known.shapes`."""
    strategies: Callable[[Known], Iterable[Inputs]]
    usual: int = 0
    """Its place where no word says anything; 0 for none."""
    scores: bool = True
    """True if its predictions may be scores of classes or candidates."""
    alone: bool = False
    """True if nothing else is tried where its words are found."""

    def place(self, known: Known) -> int:
        """Return its place among the rows: 0 and 1 where words of parameters and of the name are found."""
        if self.parameters and any(re.search(self.parameters, word) for word in known.words):
            return 0
        names = snake_case(known.name), known.name.lower()
        named = self.names and any(re.search(self.names, name) for name in names)
        return 1 if named else 2 if known.shapes else 2 + self.usual


def strategies(known: Known) -> Iterator[Inputs]:
    """Yield the strategies of the rows whose words are found, and of usual ones; of rows with the observed shapes."""
    places = {form: form.place(known) for form in FORMS}
    found = [
        form
        for form, place in places.items()
        if (place < 2 or not form.alone)
        and (re.fullmatch(form.shapes, known.shapes) if known.shapes else place != 2)
        and (form.scores or not known.only_scores)
    ]
    found.sort(key=places.__getitem__)
    for form in found[:1] if found and found[0].alone else found:
        yield from form.strategies(known)


def _binary(known: Known) -> Iterator[Inputs]:
    if not known.shown or known.shown[0].kind == "float" or known.classes == 2:
        yield from (ES.binary(of=form, **known.ignoring) for form in known.forms("probabilities", "logits", "labels"))


def _multiclass(known: Known) -> Iterator[Inputs]:
    classes = known.shown[0].shape[1] if known.shown and len(known.shown[0].shape) == 2 else known.classes
    usual = ["labels", "probabilities", "logits"][known.count("top_k", "k", usual=1) > 1 :]
    for form in known.forms(*usual):
        yield ES.multiclass(classes=classes, of=form, **known.ignoring)


def _labels(known: Known) -> Iterator[Inputs]:
    if not known.only_scores:
        yield ES.binary(of="labels", **known.ignoring)
    yield from _multiclass(known)
    yield from _binary(known)


def _multilabel(known: Known) -> Iterator[Inputs]:
    if not known.shown or {0, 1} >= {known.shown[1].low, known.shown[1].high}:
        width = known.shown[0].shape[1] if known.shown else 0
        labels = width if width > 1 else known.count("num_labels", "num_classes")
        for form in known.forms("probabilities", "logits", "labels"):
            yield ES.multilabel(labels=labels, of=form, **known.ignoring)


def _regression(known: Known) -> Iterator[Inputs]:
    outputs = known.count("num_outputs", usual=0)
    counts = [outputs] if outputs else [0, 2]
    if known.shapes == _ONE_SAMPLE:
        counts = [_MOST_OUTPUTS]
    elif known.shown and not outputs:
        first, second = known.shown
        unlike = first.shape != second.shape or (first.distribution and second.distribution)
        outputs = first.shape[1] if len(first.shape) > 1 else 0
        counts = [] if outputs and (unlike or outputs > _MOST_OUTPUTS) else [outputs]
    for count in counts:
        given = {"outputs": count} if count else {}
        yield ES.regression(**given)
        yield ES.regression(**given, positive=True)


def _segmentation(known: Known) -> Iterator[Inputs]:
    if known.shapes == _ONE_SAMPLE:
        yield from (ES.segmentation(classes=classes, size=(8, 8)) for classes in (2, 3))
    elif not known.shown:
        found = [ES.masks(classes=known.classes, height=8, width=8, form="onehot")]
        index = [] if known.only_scores else [ES.segmentation(classes=known.classes, **known.ignoring)]
        yield from found + index if "include_background" in known.options else index + found
        yield ES.masks(classes=known.classes, height=8, width=8)
    elif "3" in known.shapes:
        yield ES.segmentation(classes=known.classes, size=known.shown[1].shape[1:], **known.ignoring)
        yield ES.masks(classes=known.classes, height=8, width=8)
    elif known.shown[0].shape == known.shown[1].shape and max(each.high for each in known.shown) == 1:
        _, classes, height, width = known.shown[1].shape
        if max(height, width) > _SMALL:  # whole classes are absent from small masks
            yield ES.masks(classes=classes, height=_SMALL, width=_SMALL, form="onehot")
        yield ES.masks(classes=classes, height=height, width=width, form="onehot")


def _texts(known: Known) -> Iterator[Inputs]:
    if known.shapes == "lists nested":
        yield ES.text_pairs(references=known.shown[1].width or 2, split=True)
        return
    if known.shapes != "lists lists":
        if known.shapes != "texts lists":
            yield ES.text_pairs()
        if known.shapes != "texts texts":
            yield ES.text_pairs(references=(known.shown[1].width if known.shown else 0) or 2)
    if known.shapes in ("", "lists lists"):
        yield ES.text_lists()
    if not known.shapes:
        yield from (ES.tokens(), ES.answers())


def _tokens(known: Known) -> Iterator[Inputs]:
    _, length, vocabulary = known.shown[0].shape if known.shown else (0, 0, 0)
    if known.shown and length == known.shown[1].shape[1]:
        yield ES.tokens(vocab=max(vocabulary, 2), length=length, **known.ignoring)


def _clusters(known: Known) -> Iterator[Inputs]:
    yield ES.clusters(count=known.classes) if known.shown and known.classes > 2 else ES.clusters()


def _retrieval(known: Known) -> Iterator[Inputs]:
    names = known.parameters
    if not known.shapes or re.search(r"index|quer|group", names[2].lower()):
        default = not known.shapes or [*names] == ["preds", "target", "indexes"] or any(map(str.isdigit, names))
        found = ES.retrieval(**known.ignoring)
        yield found if default else found.named(*names)
    if not known.shapes:
        yield ES.rankings()


def _images(known: Known) -> Iterator[Inputs]:
    if known.shapes == _ONE_SAMPLE:
        yield ES.arrays((12, 12), (12, 12), dtypes=("float32",) * 2, ranges=((0.0, 1.0),) * 2)
    elif not known.shown:
        yield from (ES.image_pairs(), ES.image_pairs(height=48, width=48))
    elif known.shown[0].shape == (shape := known.shown[1].shape):
        spread = _range(known.shown[1])
        given = {} if spread == (0.0, 1.0) else {"value_range": spread}
        yield ES.image_pairs(channels=shape[1], height=shape[2], width=shape[3], **given)


def _audio(known: Known) -> Iterator[Inputs]:
    """Signals: of an example one dimension is a signal, two are the signals of speakers, or several of one."""
    several = "2" in known.shapes and re.search(r"source|speaker|permut", known.name.lower())
    yield ES.audio(speakers=2) if several else ES.audio()
    if known.shapes != _ONE_SAMPLE:
        yield from (ES.audio(), ES.audio(speakers=2), ES.audio(length=8000))


def _values(known: Known) -> Iterator[Inputs]:
    if known.shown:
        if known.shown[0].numbers and known.shown[0].low >= 0:
            yield ES.values(nonnegative=True)
        yield ES.values()
    else:
        yield from (ES.values(), ES.values(weighted=True))
        yield ES.arrays((2,), dtypes=("float32",), ranges=((-4.0, 4.0),))


_TEXTS = r"bleu|rouge|wer\b|word|char|cer\b|edit|text|translation|ter\b|squad|meteor|perplexity|infolm|match"
_TEXT_PARAMETERS = r"(^|_)(hypothes[ie]s|candidates?|sentences?|texts?|strings?|transcripts?)(_|$)"
_IMAGES = r"image|psnr|ssim|structural|peak_?signal|spectral|ergas|uqi|pixel|spatial|total_?variation|fid(elity)?(_|$)"
_AUDIO = r"(?<!p)snr|sdr|(?<!peak)(?<!peak_)signal_?noise|signal_?distortion|audio|stoi|pesq"
_CLUSTERS = r"cluster|rand_?score|mutual_?info|homogeneity|completeness|v_?measure|fowlkes|contingency"
_NUMBERS = (
    r"error|regress|r2|pearson|spearman|kendall|concordance|deviance|explained|variance|poisson|huber|cosine|minkowski"
    r"|divergence|wasserstein"
)
_VALUES = r"^(mean|sum|max|min|cat|running|average|throughput|cosine)[a-z]*(metric|mean|sum)?$|aggregat"
_PLACES = r"(^|_)(index|indices|indexes|idx|edges?|graph|adj|ptr|offsets?|ranks)(_|\d|$)"
"""Words of parameters that take places of samples in something else, which no row describes."""

FORMS = (
    Form("", _PLACES, "", lambda _: [], alone=True),
    Form("", r"^pos_label=", "", lambda known: (*_binary(known), *_labels(known)), alone=True),
    Form("binary", r"^task=binary$", r"(float|int)1 label1", _binary),
    Form("multi_?label|coverage_error|label_?ranking|hamming", r"^num_labels=[1-9]|^task=multilabel$",
         r"(float|int)2 label2", _multilabel, 3),
    Form(r"ranking|ndcg|dcg", "", "", lambda _: [ES.rankings()]),
    Form(r"average_?precision$|detection|bounding|box", "", "", lambda _: [ES.boxes()]),
    Form(r"multi_?class|cross_?entropy|categorical", r"^num_classes=[1-9]|^task=multiclass$",
         r"int1 label1|(float|int)2 label1", _multiclass),
    Form(_TEXTS, _TEXT_PARAMETERS, rf"texts (texts|lists)|lists (lists|nested)|{_ONE_SAMPLE}", _texts, 4, scores=False),
    Form("", "", r"float3 label2", _tokens),
    Form("retrieval|ndcg|mrr|reciprocal_?rank|hit_?rate|click|recsys", "",
         r"(float|int)\d (label|float)\d (float|int)\d", _retrieval, 7),
    Form(_IMAGES, "", rf"\w+4 float4|{_ONE_SAMPLE}", _images, 8),
    Form(_AUDIO, "", r"\w+[12]( \w+[12])*", _audio, 10, alone=True),
    Form(_AUDIO, "", _ONE_SAMPLE, _audio),
    Form(r"segment|dice|iou|jaccard|mask|hausdorff|surface", r"^include_background=",
         rf"int3 label3|\w+4 label4|{_ONE_SAMPLE}", _segmentation, 6),
    Form(_CLUSTERS, "", r"int1 label1", _clusters, 5, scores=False),
    Form(_NUMBERS, "", rf"\w+1 float1|\w+2 float2|{_ONE_SAMPLE}", _regression, 2, scores=False),
    Form(_VALUES, r"^1$", r"(float|int)1|number", _values, 9, scores=False),
    Form("", "", "", _labels, 1),
)  # fmt: skip
"""Rows in the order in which words decide, those of parameters before those of names."""


def by_example(known: Known, arguments: Mapping[str, Any], *, near: bool = False) -> Iterator[Inputs]:
    """Yield strategies of the form of the arguments of an observed call, then its rows themselves.

    Args:
        known: the name and the options of the metric.
        arguments: by parameter, those that are data.
        near: whether other strategies of these shapes are meant, and of a dimension less and more.
    """
    schemas = {name: Schema.of(value) for name, value in arguments.items() if value is not None}
    names, shown = [*schemas], [*schemas.values()]
    if any(each.fields for each in shown):
        yield from () if near else _fields(arguments, shown)
        return
    swapped = _are_swapped(names)
    ordered = [*shown[1::-1], *shown[2:]] if swapped else shown
    pair, labels = shown[:2], 0 if swapped else 1
    ranked = [form.strategies for form in FORMS if form.place(known) == 1][:1] == [_retrieval]
    shapes = _shapes(ordered) if shown else "none"
    other = () if all(each.distribution for each in pair) else (shapes, _resized(shapes, -1), _resized(shapes, 1))
    for each in other if near else (shapes,):
        for guess in strategies(replace(known, parameters=names, shown=() if near else ordered, shapes=each)):
            guess = no_ties(guess) if ranked and [len(each.shape) for each in shown] == [1, 1] else guess
            guess = guess.swapped() if swapped else guess
            floats = [guess.as_float(labels)] if len(pair) == 2 and pair[labels].kind == "float" else []
            made = [_in_container(each, pair) for each in (guess, *floats)]
            # What an example does not give is an option, or has a default.
            yield from (each for each in made if len(each.collated) in (0, len(shown)))
    yield from () if near else _rows(shown, ranked=ranked)


def by_words(known: Known, *, tensors: bool = True) -> Iterator[Inputs]:
    """Yield strategies by words alone; arrays come first where its library knows no ``tensors``."""
    found = [*dict.fromkeys(strategies(known))]
    if _are_swapped(known.parameters):
        found = [each if each.name == "values" else each.swapped() for each in found]
    if not tensors:
        yield from (form for each in found for form in in_arrays(each))
    for form in ("", "as_numpy", "as_list"):
        yield from (getattr(each, form)() if form else each for each in found)
    yield from (each.as_float(1) for each in found)


def by_words_of_one_sample(known: Known) -> Iterator[Inputs]:
    """Yield strategies whose samples are images, signals, texts or vectors, for a function of one sample."""
    swapped = role(known.parameters[0]) == "targets" if known.parameters else False
    for guess in strategies(replace(known, shapes=_ONE_SAMPLE)):
        turned = guess.swapped() if swapped else guess
        yield turned.as_numpy() if turned.has_tensors else turned


def by_parameters(found: ThreeArrays, *, tensors: bool) -> list[Inputs]:
    """Return strategies for a function of three arrays whose names say what they are."""
    guess = getattr(ES, found.kind)()
    guess = guess if found.order == (0, 1, 2) else guess.packed(*found.order)
    return [guess, guess.as_numpy()] if tensors else in_arrays(guess)


def by_annotations(parameters: Mapping[str, Any]) -> Iterator[Inputs]:
    """Numbers beside whole ones, as in ``update(value: float, num_samples: int)``; by parameter, its annotation."""
    kinds = [getattr(annotation, "__name__", annotation) for annotation in parameters.values()]
    if {*kinds} == {"float", "int"} and not any(map(role, parameters)):
        columns = ([0.5, 1.0, 2.5, -1.25] if kind == "float" else [1, 2, 3, 5] for kind in kinds)
        yield ES.rows(*columns, dtypes=tuple("float32" if kind == "float" else "int64" for kind in kinds))


def in_arrays(guess: Inputs) -> list[Inputs]:
    """Return a strategy for a library that knows no tensors: arrays first, and as it is."""
    return [guess.as_numpy(), guess] if guess.has_tensors else [guess]


def _are_swapped(names: Sequence[str]) -> bool:
    return [*map(role, names[:2])] == ["targets", "predictions"]


def _shapes(shown: Sequence[Schema]) -> str:
    words = {"text lists": "lists", "nested lists": "nested"}
    found = [
        f"{'float' if each.kind == 'float' else 'int'}{len(each.shape)}" if each.numbers else each.container
        for each in shown
    ]
    if len(shown) > 1 and shown[1].numbers and _are_labels(shown[0], shown[1]):
        found[1] = f"label{len(shown[1].shape)}"
    return " ".join(words.get(each, each) for each in found)


def _resized(shapes: str, more: int) -> str:
    return re.sub(r"\d", lambda size: str(max(1, int(size[0]) + more)), shapes)


def _are_labels(predicted: Schema, truth: Schema) -> bool:
    whole = truth.values is not None and all(value == round(value) for value in _flat(truth.values))
    return truth.kind != "float" or (whole and truth.low >= 0 and (truth.high <= 1 or predicted.kind == "int"))


def _flat(values: Any) -> Iterator[float]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _in_container(guess: Inputs, pair: Sequence[Schema]) -> Inputs:
    if any(each.container == "array" for each in pair):
        return guess.as_numpy()
    return guess.as_list() if pair and all(each.container == "list" and each.numbers for each in pair) else guess


def _fields(arguments: Mapping[str, Any], schemas: Sequence[Schema]) -> Iterator[Inputs]:
    """Dicts of arguments: two of the same names are tasks; other ones are taken apart."""
    given = [value for value in arguments.values() if value is not None]
    if len(schemas) == 2 and schemas[0].fields and {*dict(schemas[0].fields)} == {*dict(schemas[1].fields)}:
        both = {name: {"preds": given[0][name], "target": given[1][name]} for name, _ in schemas[0].fields}
        found = {name: next(by_example(Known(name=""), pair), None) for name, pair in both.items()}
        if all(found.values()):
            yield ES.tasks(found)
        return
    leaves: list[Schema] = []
    layout: list[Any] = []
    for schema in schemas:
        inside = {name: len(leaves) + i for i, (name, _) in enumerate(schema.fields)}
        layout.append(inside or len(leaves))
        leaves += [each for _, each in schema.fields] if inside else [schema]
    yield from (rows.packed(*layout) for rows in _rows(leaves, ranked=False))


def _rows(schemas: Sequence[Schema], *, ranked: bool) -> Iterator[Inputs]:
    """The rows of the example themselves, or arrays of its shapes."""
    lengths = {each.rows for each in schemas}
    if (
        len(lengths) != 1
        or lengths == {0}
        or any(each.container in ("objects", "fields", "number") for each in schemas)
    ):
        return
    numbers = [each for each in schemas if each.numbers]
    dtypes = tuple({"float": "float32", "int": "int64", "bool": "bool"}.get(each.kind) for each in schemas)
    first, kept = schemas[0], all(each.values is not None for each in schemas)
    alike = {(each.kind, each.shape, each.distribution) for each in schemas}
    if lengths == {1}:
        if len(schemas) == 2 and len(alike) == 1 and first.numbers and first.values is not None:
            both = [*first.values, *schemas[1].values]  # one row each: they meet in every combination
            yield ES.rows(both, both, dtypes=dtypes)
    elif kept and sum(each.count for each in numbers) <= _MOST_NUMBERS:
        columns = [each.values for each in schemas]
        ties = no_ties if _have_scores(schemas, ranked=ranked) else lambda rows: rows
        yield from (ties(ES.rows(*columns, dtypes=dtypes, **mixed)) for mixed in ({}, {"mixed": False}))
        return
    if len(numbers) == len(schemas) and not any(each.distribution for each in schemas):
        shapes = (each.shape[1:] for each in schemas)
        yield ES.arrays(*shapes, dtypes=dtypes, ranges=tuple(map(_range, schemas)))


def _have_scores(schemas: Sequence[Schema], *, ranked: bool) -> bool:
    """Return whether these are scores of candidates, with their labels and their queries, if any."""
    kinds = [each.kind for each in schemas]
    labelled = kinds[:2] in (["float", "int"], ["float", "bool"])
    scores = labelled and (kinds[2:] == ["int"] or (ranked and len(kinds) == 2))
    return scores and all(len(each.shape) == 1 for each in schemas)


def _range(schema: Schema) -> tuple[float, float]:
    if schema.kind != "float":
        return schema.low, schema.high
    if schema.low >= 0 and schema.high <= 1:
        return 0.0, 1.0
    bound = float(max(1.0, abs(round(schema.low)), abs(round(schema.high))))
    return (0.0 if schema.low >= 0 else -bound), bound
