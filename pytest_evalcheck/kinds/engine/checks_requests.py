"""EC801 to EC806: an answer is that of its request, whatever else the engine is asked for."""

from __future__ import annotations

import random
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.engine.cases import ManyDocuments, Request, documents, turned
from pytest_evalcheck.kinds.engine.subject import EngineSubject, assert_same, drift

BATCH_SIZES = (1, 2, 7, 32)


@check("EC801", conditions=("one token", "several tokens"), examples=8)
def answer_is_independent_of_its_neighbours(subject: EngineSubject, case: Request) -> None:
    """Prompts that are submitted together get the answers that each gets alone, in their order.

    Why: with another batch size or order of the documents the same model would get another score.
    Usual cause: padding that is attended to, a scale over the batch, results in the order in which they end.
    Fix: `engine.complete([prompt], parameters)` for each prompt shows which rows differ; mask the padding.
    """
    prompts, engine = subject.prompts(case.samples), subject.engine()
    parameters = engine.greedy(case.tokens)
    alone = [subject.alone(prompt, parameters) for prompt in prompts]
    orders = {"together": [*range(len(prompts))], "in the reverse order": [*range(len(prompts))][::-1]}
    for name, order in (orders | {"beside an equal one": [*range(len(prompts)), 0]}).items():
        answers = subject.engine().ask([prompts[index] for index in order], parameters)
        id = f"prompts-{slug(name)}"
        if isinstance(answers, Raised) or len(answers) != len(order):
            expect(answers).equals([alone[index] for index in order], about=f"answers of prompts {name}", id=id)
            continue
        for index, answer in zip(order, answers, strict=True):
            assert_same(answer, alone[index], about=f"the answer of a prompt {name}", id=f"answer-{id}")


@check("EC802", conditions=("several tokens",), examples=8, after=("EC801",))
def answer_is_independent_of_earlier_requests(subject: EngineSubject, case: Request) -> None:
    """A prompt gets the same answer the first time, again, and after others: similar ones, parts of it, longer ones.

    Why: a prefix cache must not change a number, and a run that is resumed asks in another order.
    Usual cause: a cache of prompts whose key is a hash of a part of them, or blocks that are used again when half full.
    Fix: `key = tuple(ids)`: a key of all ids, of what they follow, and of what else the model is given.
    """
    prompt, *others = subject.prompts(case.samples)
    engine = subject.engine()
    parameters = engine.greedy(case.tokens)
    expected = subject.alone(prompt, parameters)
    similar = subject.inputs.similar or (lambda row: turned(row, 1))
    before = {
        "again": [prompt, prompt],
        "after others": others,
        "after similar ones": subject.prompts([similar(case.samples[0]), turned(case.samples[0], 1)]),
        "after its parts": [prompt[: max(1, len(prompt) - 1)], prompt[: max(1, len(prompt) // 2)]],
        "after longer ones": [prompt + other for other in others],
    }
    for name, earlier in before.items():
        engine.evict()
        for each in earlier:
            engine.ask([each], parameters)
        answer = engine.ask([prompt], parameters)
        if not isinstance(answer, Raised):
            answer = answer[0]
        assert_same(answer, expected, about=f"the answer {name}", id=f"answer-{slug(name)}")


@check("EC803", conditions=("several tokens",), examples=4, after=("EC801", "EC802"))
def answer_is_independent_of_requests_in_flight(subject: EngineSubject, case: Request) -> None:
    """Requests that several threads submit at once get the answers that each gets alone.

    Why: clients of an evaluation send many requests at once, and their number is chosen for speed.
    Usual cause: an attribute of the engine that holds the current request; a setting of one thread, such as its dtype.
    Fix: keep the state of a request in the request: `request.ids` for `self.ids`.
    """
    engine = subject.engine()
    if not engine.record.concurrent:
        raise NotApplicable("the engine takes one call at a time: ec.Engine(..., concurrent=True)")
    prompts, parameters = subject.prompts(case.samples), engine.greedy(case.tokens)
    alone = [subject.alone(prompt, parameters) for prompt in prompts]
    for times in (1, 3):
        answers = engine.in_flight(prompts * times, parameters)
        for index, answer in enumerate(answers):
            about = f"an answer beside {len(answers) - 1} other requests in flight"
            assert_same(answer, alone[index % len(prompts)], about=about, id="in-flight")


@check("EC804", conditions=("one token", "several tokens"), examples=8, after=("EC801", "EC802"))
def a_stream_gives_the_same_answer(subject: EngineSubject, case: Request) -> None:
    """The pieces of a stream make the answer that the same request gets without a stream.

    Why: a client that streams must not get another text, nor lose its end.
    Usual cause: the last piece is dropped with the mark of the end; a character of several bytes is cut in two.
    Fix: `"".join(pieces) == answer`, with the piece that comes with the reason of the end.
    """
    prompt, *_ = subject.prompts(case.samples)
    engine = subject.engine()
    parameters = engine.greedy(case.tokens)
    streamed = engine.streamed(prompt, parameters)
    assert_same(streamed, subject.alone(prompt, parameters), about="the answer that is streamed", id="streamed")


@check("EC805", conditions=("several tokens",), examples=8, after=("EC801", "EC802", "EC804"))
def cancelling_a_request_changes_no_other_answer(subject: EngineSubject, case: Request) -> None:
    """After a request is cancelled, the same prompt and others get the answers that they get alone.

    Why: a client that runs into a time limit cancels and asks again.
    Usual cause: the memory of the cancelled request is free, and still read or written; its place is not reset.
    Fix: free the blocks of a request after its last step, and reset `slot.length` when another one gets it.
    """
    prompts, engine = subject.prompts(case.samples), subject.engine()
    parameters = engine.greedy(max(4, case.tokens))
    engine.streamed(prompts[0], parameters, pieces=1)
    for name, prompt in (("of the same prompt", prompts[0]), ("of another prompt", prompts[1])):
        answer = engine.ask([prompt], parameters)
        if not isinstance(answer, Raised):
            answer = answer[0]
        about = f"the answer {name} after a request was cancelled"
        assert_same(answer, subject.alone(prompt, parameters), about=about, id=f"answer-{slug(name)}")


@check("EC806", conditions=("several prompts",), examples=1, after=("EC801", "EC802"))
def answers_do_not_flip_with_the_batch_size(subject: EngineSubject, case: ManyDocuments) -> None:
    """No answer of 34 documents flips over batches of 1, 2, 7 and 32 of them, in order and shuffled.

    The failure says how many answers flip, and how far log-probabilities drift before they do.

    Why: every flipped answer can be another mark, and the score then depends on the machine.
    Usual cause: kernels that sum in another order in large batches, in half precision; a limit of a large batch.
    Fix: `dtype="float32"` and batch-invariant kernels, or report the number of flips beside the score.
    """
    rows = subject.prompts(documents(case.samples, BATCH_SIZES[-1] + 2))
    shuffled = random.Random(case.seed).sample(range(len(rows)), len(rows))
    answers: dict[int, list[Any]] = {index: [] for index in shuffled}
    orders = [(range(len(rows)), BATCH_SIZES), (shuffled, BATCH_SIZES[1:])]  # EC802 is about the order of single ones
    for order, size in [(order, size) for order, sizes in orders for size in sizes]:
        engine = subject.engine()
        for start in range(0, len(rows), size):
            batch = order[start : start + size]
            got = engine.ask([rows[index] for index in batch], engine.greedy())
            if isinstance(got, Raised) or len(got) != len(batch):
                inconclusive(f"a batch of {len(batch)} gets no answers: {got}"[:200])
                return
            for index, answer in zip(batch, got, strict=True):
                answers[index].append(answer)
    key = "tokens" if all("tokens" in answer for each in answers.values() for answer in each) else "text"
    flips = {i: next((a for a in each if a[key] != each[0][key]), None) for i, each in answers.items()}
    flipped = {index: answer for index, answer in flips.items() if answer is not None}
    about = f"answers flip for {len(flipped)} of {len(rows)} documents"
    detail = "\n".join(drift(answer, answers[index][0]) for index, answer in sorted(flipped.items())[:3])
    expect(len(flipped)).holds(not flipped, about=about, id="flips", detail=detail)
