"""`POST /v1/chat/completions` of the simulated engine."""

import math
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from itertools import accumulate

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bench.engine_sim import wire
from bench.engine_sim.bodies import ChatBody, CompletionBody
from bench.engine_sim.changes import Namespace
from bench.engine_sim.config import CallConfig
from bench.engine_sim.connection import (
    JsonResponse,
    read_body,
    refused,
    unless_disconnected,
)
from bench.engine_sim.engine import Answer, Ask, SimulatedEngine
from bench.engine_sim.limits import RequestRefusedError
from bench.engine_sim.prompting import prompt_ids
from bench.engine_sim.request import EngineRequest, FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """One request's answers (n of them) with what its body asked to be told."""

    engine: SimulatedEngine
    body: ChatBody
    head: wire.Head
    answers: list[Answer]

    def sglext(self) -> wire.Json | None:
        """SGLang's extension block; None when there is nothing in it."""
        requests = [answer.request for answer in self.answers]
        block: wire.Json = {}
        if self.body.return_cached_tokens_details:
            tier = self.engine.config.tier
            details = wire.cached_details(requests[0], tier.backend if tier else None)
            if details is not None:
                block["cached_tokens_details"] = details
        if self.body.return_output_ids_in_sglext:
            block["output_ids"] = [list(request.output) for request in requests]
        return block or None

    @property
    def makes_calls(self) -> bool:
        """Whether the answers are calls that the engine can read."""
        return self.engine.config.reads_calls and bool(_calls(self.engine, self.body))

    def calls(self, request: EngineRequest) -> list[wire.Json]:
        """The calls that an ended answer is, as far as the engine can read them.

        One that the answer was cut off in is among those of a stream, its JSON closed; of a whole
        answer it is left out.

        Source: sglang 0.5.23 entrypoints/openai/serving_chat.py `_check_for_unstreamed_tool_args`,
        `_process_tool_calls`.
        """
        if not self.makes_calls:
            return []
        calls = _calls(self.engine, self.body)
        if request.finish is not FinishReason.STOP:
            calls = self._said(calls, len(request.output))
        return [wire.tool_call(call, request, index) for index, call in enumerate(calls)]

    def _said(self, calls: tuple[CallConfig, ...], tokens: int) -> tuple[CallConfig, ...]:
        """Those that so many tokens hold, or in a stream begin."""
        texts = accumulate(call.text for call in calls)
        ends = [len(self.engine.model.encode(text, add_special_tokens=False)) for text in texts]
        starts = (0, *(end + 1 for end in ends[:-1]))
        least = starts if self.body.stream else ends
        return tuple(call for call, needed in zip(calls, least, strict=True) if needed <= tokens)

    def usage(self) -> wire.Json:
        requests = [answer.request for answer in self.answers]
        return wire.usage(requests, cache_report=self.engine.config.cache_report)

    def abort(self) -> None:
        for answer in self.answers:
            self.engine.abort(answer.request.rid)


async def chat(request: Request) -> Response:
    """Answer a chat request, streamed or whole."""
    engine: SimulatedEngine = request.app.state.engine
    try:
        body = await read_body(request, ChatBody)
        reply = _submit(engine, body, custom_labels(request, engine))
    except RequestRefusedError as error:
        return refused(error)
    if not body.stream:
        return await _whole(request, reply)
    return StreamingResponse(_parts(reply), media_type="text/event-stream")


def check_sampling(
    max_new_tokens: int | None, temperature: float | None, top_p: float | None
) -> None:
    """Raises RequestRefusedError: a sampling parameter out of range.

    Source: sglang 0.5.23 sampling/sampling_params.py verify.
    """
    if temperature is not None and not 0 <= temperature < math.inf:
        raise RequestRefusedError(
            f"temperature must be a non-negative finite number, got {temperature}."
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise RequestRefusedError(f"top_p must be in (0, 1], got {top_p}.")
    if max_new_tokens is not None and max_new_tokens < 0:
        raise RequestRefusedError(f"max_new_tokens must be at least 0, got {max_new_tokens}.")


def check_sampled(body: ChatBody | CompletionBody, max_new_tokens: int | None) -> None:
    """The same for what only the OpenAI routes have of it; raises RequestRefusedError."""
    check_sampling(max_new_tokens, body.temperature, body.top_p)
    if body.min_p is not None and not 0 <= body.min_p <= 1:
        raise RequestRefusedError(f"min_p must be in [0, 1], got {body.min_p}.")
    # At temperature 0 it isn't looked at.
    drawn = body.temperature is None or body.temperature > 0
    if drawn and body.top_k is not None and (body.top_k < -1 or body.top_k == 0):
        raise RequestRefusedError(f"top_k must be -1 (disable) or at least 1, got {body.top_k}.")
    for name in ("frequency_penalty", "presence_penalty"):
        if not -2 <= (penalty := getattr(body, name)) <= 2:
            raise RequestRefusedError(f"{name} must be in [-2, 2], got {penalty}.")
    if body.repetition_penalty is not None and not 0 < body.repetition_penalty <= 2:
        raise RequestRefusedError(
            "repetition_penalty must be in (0, 2] (1.0 = no penalty), "
            f"got {body.repetition_penalty}."
        )
    if max_new_tokens is not None and not 0 <= body.min_tokens <= max_new_tokens:
        raise RequestRefusedError(
            f"min_new_tokens must be in [0, max_new_tokens({max_new_tokens})], got "
            f"{body.min_tokens}."
        )


def custom_labels(request: Request, engine: SimulatedEngine) -> Mapping[str, str]:
    """The counted labels of `x-custom-labels`; a header that is no JSON object is ignored."""
    try:
        labels = orjson.loads(request.headers.get("x-custom-labels", "{}"))
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(labels, dict):
        return {}
    return {name: str(labels[name]) for name in engine.config.labels if name in labels}


def namespace(cache_salt: str | None, extra_key: str | None) -> Namespace:
    """Empty strings are no salt, as in the engine: the request is then not isolated at all."""
    return Namespace(cache_salt or None, extra_key or None)


def _calls(engine: SimulatedEngine, body: ChatBody) -> tuple[CallConfig, ...]:
    """The calls that the model is set to make, where it may call a tool."""
    call, script = engine.config.call, engine.config.script
    if not body.tools or body.tool_choice == "none":
        return ()
    if script:
        called = sum("tool_calls" in (message.model_extra or {}) for message in body.messages)
        return script[called] if called < len(script) else ()
    return () if call is None else (call,)


def _with_adapter(engine: SimulatedEngine, body: ChatBody) -> str | None:
    """The extra key, which an adapter (model `NAME:ADAPTER`) is part of."""
    adapter = (body.model or "").rpartition(":")[2]
    return (body.extra_key or "") + adapter if adapter in engine.config.adapters else body.extra_key


def _submit(engine: SimulatedEngine, body: ChatBody, labels: Mapping[str, str]) -> _Reply:
    """Queue a body's n requests. Raises RequestRefusedError."""
    if not body.messages:
        raise RequestRefusedError("Messages cannot be empty.")
    if body.input_ids is not None and not body.input_ids:
        raise RequestRefusedError("input_ids cannot be empty.")
    ids = body.input_ids if body.input_ids is not None else prompt_ids(engine.model, body)
    limit = body.max_completion_tokens if body.max_tokens is None else body.max_tokens
    check_sampled(body, limit)
    rid = body.rid or uuid.uuid4().hex
    answers = [
        engine.submit(
            Ask(
                rid=rid if index == 0 else f"{rid}_{index}",
                prompt=tuple(ids),
                namespace=namespace(body.cache_salt, _with_adapter(engine, body)),
                max_new_tokens=limit,
                stops=body.stops(),
                stop_ids=tuple(body.stop_token_ids or ()),
                ignore_eos=body.ignore_eos,
                priority=body.priority,
                labels=labels,
                streaming=body.stream,
                said="".join(call.text for call in _calls(engine, body)),
            )
        )
        for index in range(body.n)
    ]
    head = wire.Head(id=rid, model=body.model, created=int(time.time()))
    return _Reply(engine=engine, body=body, head=head, answers=answers)


async def _whole(request: Request, reply: _Reply) -> Response:
    async def work() -> None:
        for answer in reply.answers:
            await answer.finished()

    try:
        if not await unless_disconnected(request, work):
            return Response(status_code=499)
    finally:
        reply.abort()
    return JsonResponse(
        wire.chat(
            reply.head,
            [answer.request for answer in reply.answers],
            cache_report=reply.engine.config.cache_report,
            sglext=reply.sglext(),
            calls=reply.calls(reply.answers[0].request),
        )
    )


async def _parts(reply: _Reply) -> AsyncGenerator[bytes]:
    """The server-sent events of an answer, in the engine's order."""
    head = reply.head
    options = reply.body.stream_options
    try:
        for index, answer in enumerate(reply.answers):
            async for part in _spoken(reply, index, answer):
                yield part
        for index, answer in enumerate(reply.answers):
            end = wire.delta(index, answer.request)
            for call in reply.calls(answer.request):
                yield wire.sse(wire.chunk(head, [wire.delta(index, tool_calls=[call])]))
                if answer.request.finish is FinishReason.STOP:
                    end["finish_reason"] = "tool_calls"
            yield wire.sse(wire.chunk(head, [end]))
        if (sglext := reply.sglext()) is not None:
            yield wire.sse(wire.chunk(head, [], usage=None, sglext=sglext))
        if options is not None and options.include_usage:
            yield wire.sse(wire.chunk(head, [], usage=reply.usage()))
        yield wire.DONE
    finally:
        reply.abort()


async def _spoken(reply: _Reply, index: int, answer: Answer) -> AsyncGenerator[bytes]:
    """One choice's role and then its text as it comes."""
    options = reply.body.stream_options
    said: int | None = None
    async for _ in answer.progress():
        if said is None:
            said = 0
            yield wire.sse(
                wire.chunk(reply.head, [wire.delta(index, role="assistant", content="")])
            )
        stream = answer.request.text
        text = stream.text[said : stream.sayable]
        if not text or reply.makes_calls:
            continue
        said += len(text)
        usage = (
            {"usage": reply.usage()}
            if options is not None and options.include_usage and options.continuous_usage_stats
            else {}
        )
        yield wire.sse(wire.chunk(reply.head, [wire.delta(index, content=text)], **usage))
