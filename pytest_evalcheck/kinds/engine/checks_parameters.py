"""EC807 to EC814: sampling parameters do what they say, or are refused; so do empty and long prompts, and chats."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt, is_clear_refusal
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.engine.cases import Request
from pytest_evalcheck.kinds.engine.record import PARAMETERS
from pytest_evalcheck.kinds.engine.subject import EngineSubject, assert_same, plain

_LONG = 8
"""Number of tokens of an answer that is cut."""
_WRONG = {"max_tokens": -1, "temperature": -1.0, "n": 0, "top_p": 7.0}
"""Values that mean nothing."""


@check("EC807", conditions=("one token", "several tokens"), examples=8, after=("EC801", "EC802"))
def max_tokens_cuts_the_answer(subject: EngineSubject, case: Request) -> None:
    """An answer has at most `max_tokens` tokens: the first ones of a longer answer.

    Why: the limit belongs to the task, and an answer that is cut elsewhere is marked otherwise.
    Usual cause: the limit counts the prompt, or the token that ends the answer; a default limit wins.
    Fix: `len(new_tokens) < max_tokens`, counted without the prompt.
    """
    prompt, *_ = subject.prompts(case.samples)
    engine = subject.engine()
    whole, cut = (subject.alone(prompt, engine.greedy(count)) for count in (_LONG, case.tokens))
    if isinstance(whole, Raised) or isinstance(cut, Raised) or "tokens" not in whole:
        inconclusive(f"there are no tokens to count: {whole}")
        return
    expect(cut["tokens"]).equals(
        whole["tokens"][: case.tokens], about=f"the tokens with max_tokens={case.tokens}", id="tokens"
    )


@check("EC808", conditions=("several tokens",), examples=8, after=("EC801", "EC802", "EC807"))
def an_answer_ends_at_its_stop_string(subject: EngineSubject, case: Request) -> None:
    """An answer ends before the first stop string in it, or behind it where the record says so.

    Why: tasks cut answers by stop strings, and what follows one changes the mark.
    Usual cause: stop strings are compared with single tokens; the stop string stays; only the first of several counts.
    Fix: `text[: text.find(stop)]` of the whole text after every token.
    """
    prompt, *_ = subject.prompts(case.samples)
    engine = subject.engine()
    engine.require("stop")
    whole = subject.alone(prompt, engine.greedy(_LONG))
    text = "" if isinstance(whole, Raised) else whole["text"]
    if len(text) < 2 or "\ufffd" in text:
        inconclusive(f"the answer has no text to stop at: {whole}")
        return
    middle = len(text) // 2
    for name, stops in {
        "a stop string": [text[middle : middle + 2]],
        "two": ["@never@", text[middle]],
        "one that is not in the text": ["@never@"],
    }.items():
        found = [(text.find(stop), stop) for stop in stops if stop in text]
        end = min(found)[0] + (len(min(found)[1]) if engine.record.keeps_stop else 0) if found else len(text)
        answer = subject.alone(prompt, {**engine.greedy(_LONG), "stop": stops})
        actual = answer if isinstance(answer, Raised) else answer["text"]
        expect(actual).equals(text[:end], about=f"the text with {name}, {stops}", id=f"text-{slug(name)}")


@check("EC809", conditions=("several tokens",), examples=8, after=("EC801", "EC802", "EC810"))
def a_request_for_n_answers_gets_n(subject: EngineSubject, case: Request) -> None:
    """A request with `n` gets so many answers, and the same ones again with the same seed.

    Why: pass@k and votes need k answers; fewer, or copies, give another number.
    Usual cause: `n` is ignored; the answers of several prompts are joined in another order.
    Fix: `[engine.complete([prompt], {"n": n, ...})[0] for prompt in prompts]` shows which are missing.
    """
    prompts, engine = subject.prompts(case.samples)[:2], subject.engine()
    engine.require("n")
    parameters = {**engine.sampled(seed=7, tokens=case.tokens), "n": 3}
    first = [subject.engine().choices([prompt], parameters) for prompt in prompts]
    together = subject.engine().choices(prompts, parameters)
    counts = together if isinstance(together, Raised) else [len(each) for each in together]
    expect(counts).equals([3] * len(prompts), about="the number of answers of each prompt", id="number")
    alone = [one if isinstance(one, Raised) else one[0] for one in first]
    expect([[each["text"] for each in own] for own in together]).equals(
        [own if isinstance(own, Raised) else [each["text"] for each in own] for own in alone],
        about="the answers of two prompts together",
        id="together",
    )


@check("EC810", conditions=("several tokens",), examples=8, after=("EC801", "EC802"))
def a_seed_repeats_an_answer(subject: EngineSubject, case: Request) -> None:
    """A sampled answer is the same with the same seed: again, after other requests, and beside others.

    Why: a published sample must be found again.
    Usual cause: the seed is ignored, or sets one generator that all requests of a batch share.
    Fix: `torch.Generator().manual_seed(seed)` for every request.
    """
    prompts, engine = subject.prompts(case.samples), subject.engine()
    parameters = engine.sampled(seed=11, tokens=case.tokens)
    first = subject.alone(prompts[0], parameters)
    answers = {"again": engine.ask(prompts[:1], parameters)}
    engine.ask(prompts[1:], engine.sampled(seed=12))
    answers["after other requests"] = engine.ask(prompts[:1], parameters)
    answers["beside another request"] = engine.ask([prompts[1], prompts[0]], parameters)
    for name, answer in answers.items():
        last = answer if isinstance(answer, Raised) else answer[-1]
        assert_same(last, first, about=f"the sampled answer {name}", id=f"answer-{slug(name)}")


@check("EC811", existential=True, conditions=("several tokens",), examples=8, after=("EC809", "EC810"))
def other_seeds_give_other_answers(subject: EngineSubject, case: Request) -> None:
    """Control: some prompt gets different answers with different seeds, and with `n`.

    Why: samples that are copies give pass@k the value of pass@1, and a spread of zero.
    Usual cause: a seed that is set once for all, or a temperature that is ignored.
    Fix: pass the seed of the request on: `SamplingParams(seed=seed, temperature=temperature)`.
    """
    prompt, *_ = subject.prompts(case.samples)
    engine = subject.engine()
    texts = {str(subject.alone(prompt, engine.sampled(seed, tokens=_LONG))) for seed in range(4)}
    expect(texts).holds(len(texts) > 1, about="four seeds give one answer", id="seeds")
    if "n" in engine.record.supports:
        several = subject.engine().choices([prompt], {**engine.sampled(seed=7, tokens=_LONG), "n": 4})
        copies = isinstance(several, Raised) or len({str(each) for each in several[0]}) < 2
        expect(several).holds(not copies, about="four answers of one request are copies", id="copies")


@check("EC812", conditions=("several tokens",), examples=8, after=("EC801", "EC802"))
def logit_bias_moves_its_token_alone(subject: EngineSubject, case: Request) -> None:
    """A bias of -100 bans the first greedy token, and one of 100 makes every token the biased one.

    Why: harnesses force and ban answers with it, and an ignored bias changes no number visibly.
    Usual cause: it is not passed on; its keys are texts and are never found; it is applied after the choice.
    Fix: `logits[:, int(token)] += bias` before the token is chosen.
    """
    prompt, other = subject.prompts(case.samples)[:2]
    engine = subject.engine()
    engine.require("logit_bias")
    firsts = [subject.alone(each, engine.greedy(2)) for each in (prompt, other)]
    ids = [None if isinstance(one, Raised) else (one.get("tokens") or [None])[0] for one in firsts]
    if not all(isinstance(token, int) for token in ids):
        raise NotApplicable(f"the engine does not give the ids of tokens, which a bias needs: {ids}")
    banned = subject.alone(prompt, {**engine.greedy(2), "logit_bias": {str(ids[0]): -100.0}})
    banned = banned if isinstance(banned, Raised) else ids[0] in banned["tokens"]
    expect(banned).equals(False, about=f"the answer has token {ids[0]}, which is banned", id="banned")
    forced = subject.alone(prompt, {**engine.greedy(2), "logit_bias": {str(ids[1]): 100.0}})
    forced = forced if isinstance(forced, Raised) else forced["tokens"][:1]
    expect(forced).equals(ids[1:], about=f"the first token with a bias of 100 for {ids[1]}", id="forced")


@check("EC813", conditions=("several tokens",), examples=4, after=("EC801",))
def what_is_not_supported_is_refused(subject: EngineSubject, case: Request) -> None:
    """Parameters that are not supported, values that mean nothing, and prompts that are too long are refused clearly.

    A refusal is an error with a text. An empty prompt is refused or answered, as the record says.

    Why: a parameter that is ignored gives a number of another task under the same name.
    Usual cause: unknown keywords are dropped; a long prompt is cut at the left without a word.
    Fix: `raise ValueError(f"{name} is not supported")`.
    """
    prompt, *_ = subject.prompts(case.samples)
    engine = subject.engine()
    known = ("max_tokens", *engine.record.supports)
    wrong = [(name, value) for name, value in PARAMETERS.items() if name not in known]
    wrong += [(name, value) for name, value in _WRONG.items() if name in known]
    requests = {f"{name}={value}": (prompt, {**engine.greedy(2), name: value}) for name, value in wrong}
    empty = prompt[:0]
    if engine.record.context is not None:
        long = prompt * (_LONG * engine.record.context // len(prompt) + 1) if len(prompt) else empty
        requests["a prompt that is too long"] = (long, engine.greedy(1))
    if not engine.record.empty:
        requests["an empty prompt"] = (empty, engine.greedy(2))
    for name, (asked, parameters) in requests.items():
        result = engine.ask([asked], parameters)
        word = name.partition("=")[0].replace("_", " ")
        named = word if len(asked) else "empty"
        clear = isinstance(result, Raised) and (
            is_clear_refusal(result.error) or named in str(result).replace("_", " ")  # errors of compiled code
        )
        expect(result).holds(clear, about=f"{name} is not refused", id=f"refused-{slug(word)}", form="error")
    if engine.record.empty:
        answer = subject.alone(empty, engine.greedy())
        answered = not isinstance(answer, Raised)
        expect(answer).holds(answered, about="an empty prompt gets no answer", id="empty", detail=str(answer))


@check("EC814", conditions=("several tokens",), examples=4, after=("EC801", "EC802"))
def a_chat_sends_the_ids_of_the_template(subject: EngineSubject, case: Request) -> None:
    """The answer to a conversation is that to the ids of the chat template, and the prompt has as many tokens.

    Why: a beginning mark that comes twice or a system message that is dropped changes every answer of a task.
    Usual cause: the text of the template is tokenized with special tokens once more.
    Fix: `tokenizer(text, add_special_tokens=False)` for the text of a template.
    """
    engine = subject.engine()
    record, texts = engine.record, subject.prompts(case.samples)
    if record.chat is None or record.template is None or not isinstance(texts[0], str):
        raise NotApplicable("it needs ec.Engine(..., chat=..., template=...) and prompts that are texts")
    for count in (1, 3):
        roles = ("user", "assistant", "user")[:count]
        messages = [{"role": role, "content": texts[i % len(texts)]} for i, role in enumerate(roles)]
        ids = attempt("template", record.template, messages)
        answer = attempt("chat", record.chat, messages, engine.greedy(case.tokens))
        if isinstance(ids, Raised) or isinstance(answer, Raised):
            expect(answer).equals(ids, about="the answer to a conversation", id="error")
            continue
        if answer.prompt_tokens is not None and isinstance(ids, list):
            expect(answer.prompt_tokens).equals(
                len(ids), about="the number of tokens of the prompt of a chat", id="number", tolerance=EXACT
            )
        expected = subject.alone(ids, engine.greedy(case.tokens))
        assert_same(plain(answer), expected, about=f"the answer to {count} messages", id="answer")
