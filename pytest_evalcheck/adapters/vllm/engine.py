"""vLLM's ``LLM`` in the process of the test, as an engine."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pytest_evalcheck.kinds.engine.record import PARAMETERS, Completion, Engine, Messages, Parameters, Prompt

CLASSES = ("vllm.entrypoints.llm.LLM",)

_ids = itertools.count()


def record(llm: Any) -> Engine:
    """The record of an ``LLM``. It refuses empty prompts, and emptying its cache leaves running requests alone."""
    streams = _Streams(llm.llm_engine)
    tokenizer = llm.get_tokenizer()

    def complete(prompts: Sequence[Prompt], parameters: Parameters) -> list[list[Completion]]:
        asked, sampling = [_prompt(prompt) for prompt in prompts], _sampling(parameters)
        # generate() runs all requests of the engine to their end, and would take the pieces of open streams.
        with streams.left_by_an_error():
            if streams.pieces:
                outputs = streams.finished(asked, sampling)
            else:
                outputs = llm.generate(asked, sampling, use_tqdm=False)
        return [[_completion(choice, output) for choice in output.outputs] for output in outputs]

    def chat(messages: Messages, parameters: Parameters) -> Completion:
        with streams.left_by_an_error():
            (output,) = llm.chat([dict(message) for message in messages], _sampling(parameters), use_tqdm=False)
        return _completion(output.outputs[0], output)

    def template(messages: Messages) -> Prompt:
        return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    return Engine(
        complete,
        stream=streams.stream,
        chat=chat,
        template=template,
        evict=llm.reset_prefix_cache,
        supports=tuple(PARAMETERS),
        empty=False,
        context=llm.llm_engine.model_config.max_model_len,
        facts=_facts(llm.llm_engine),
        source=llm,
    )


class _Streams:
    """Streams of one engine: a step of it serves all that are open, and gives each its pieces."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.pieces: dict[str, deque[Any]] = {}

    def stream(self, prompt: Prompt, parameters: Parameters) -> Iterator[Completion]:
        """The pieces of an answer. The request is submitted at once, and aborted where the iterator is closed."""
        from vllm.sampling_params import RequestOutputKind

        sampling = _sampling(parameters)
        sampling.output_kind = RequestOutputKind.DELTA
        return self._read(self._submit(_prompt(prompt), sampling))

    @contextmanager
    def left_by_an_error(self) -> Iterator[None]:
        """Abort what is left where a step fails: the engine would wait for it for ever, in every later call."""
        try:
            yield
        except Exception:
            self.engine.abort_request(list(self.engine.output_processor.request_states), internal=True)
            raise

    def finished(self, prompts: Sequence[Any], sampling: Any) -> list[Any]:
        """The outputs of prompts that are submitted beside open streams."""
        from vllm.sampling_params import RequestOutputKind

        sampling.output_kind = RequestOutputKind.FINAL_ONLY
        names = [self._submit(prompt, sampling) for prompt in prompts]
        return [next(self._outputs(name)) for name in names]

    def _submit(self, prompt: Any, sampling: Any) -> str:
        name = f"evalcheck-{next(_ids)}"
        self.engine.add_request(name, prompt, sampling)
        self.pieces[name] = deque()
        return name

    def _outputs(self, name: str) -> Generator[Any, None, None]:
        """The outputs of a request, after as many steps of the engine as they need."""
        finished = False
        try:
            while not finished:
                while not self.pieces[name]:
                    if not self.engine.has_unfinished_requests():
                        raise RuntimeError(f"the engine has no request left, and {name} has no end")
                    for output in self.engine.step():
                        self.pieces[output.request_id].append(output)
                output = self.pieces[name].popleft()
                finished = output.finished
                yield output
        finally:
            del self.pieces[name]
            if not finished:
                self.engine.abort_request([name])

    def _read(self, name: str) -> Iterator[Completion]:
        with closing(self._outputs(name)) as outputs:
            for output in outputs:
                yield _completion(output.outputs[0], output)


def _facts(engine: Any) -> dict[str, str]:
    config = engine.vllm_config
    return {
        "engine": f"vLLM {getattr(sys.modules['vllm'], '__version__', '')}",
        "dtype": str(config.model_config.dtype),
        "prefix cache": str(config.cache_config.enable_prefix_caching),
        "chunked prefill": str(config.scheduler_config.enable_chunked_prefill),
        "tensor parallel": str(config.parallel_config.tensor_parallel_size),
    }


def _prompt(prompt: Prompt) -> Any:
    return prompt if isinstance(prompt, str) else {"prompt_token_ids": list(prompt)}


def _sampling(parameters: Parameters) -> Any:
    from vllm import SamplingParams

    given: dict[str, Any] = dict(parameters)
    if isinstance(bias := given.get("logit_bias"), Mapping):
        given["logit_bias"] = {int(token): value for token, value in bias.items()}
    return SamplingParams(**{**given, "logprobs": 0 if given.get("logprobs") else None})


def _completion(choice: Any, output: Any) -> Completion:
    tokens = list(choice.token_ids)
    numbers = None
    if choice.logprobs is not None:
        numbers = [float(found[token].logprob) for token, found in zip(tokens, choice.logprobs, strict=True)]
    prompt_tokens = len(output.prompt_token_ids or ())
    return Completion(
        choice.text, tokens=tokens, logprobs=numbers, finish=choice.finish_reason or "", prompt_tokens=prompt_tokens
    )
