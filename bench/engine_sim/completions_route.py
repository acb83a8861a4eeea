"""`POST /v1/completions` of the simulated engine.

Source: sglang 0.5.23 entrypoints/openai/serving_completions.py.
"""

import time
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bench.engine_sim import wire
from bench.engine_sim.bodies import CompletionBody
from bench.engine_sim.chat_route import check_sampled, custom_labels, namespace
from bench.engine_sim.connection import (
    JsonResponse,
    read_body,
    refused,
    unless_disconnected,
)
from bench.engine_sim.engine import Answer, Ask, SimulatedEngine
from bench.engine_sim.limits import RequestRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """One prompt's answers (n of them) with what its body asked to be told."""

    engine: SimulatedEngine
    body: CompletionBody
    head: wire.Head
    answers: list[Answer]

    def echoed(self) -> str:
        """What goes before each answer; ids are spelled without control tokens."""
        match self.body.prompt:
            case _ if not self.body.echo:
                return ""
            case str() as text:
                return text
            case ids:
                return self.engine.model.decode(ids, skip_special_tokens=True)

    def usage(self) -> wire.Json:
        requests = [answer.request for answer in self.answers]
        return wire.usage(requests, cache_report=self.engine.config.cache_report)

    def sglext(self) -> wire.Json | None:
        """SGLang's extension block; None when there is nothing in it."""
        if not self.body.return_cached_tokens_details:
            return None
        tier = self.engine.config.tier
        details = wire.cached_details(self.answers[0].request, tier.backend if tier else None)
        return None if details is None else {"cached_tokens_details": details}

    def ids(self, index: int, first: int, *, with_prompt: bool) -> wire.Json:
        """Ids of an answer from its token `first` on, and the prompt's, if they are asked for."""
        if not self.body.return_token_ids:
            return {}
        request = self.answers[index].request
        prompt = {"prompt_token_ids": list(request.prompt)} if with_prompt else {}
        return {"token_ids": list(request.output[first:]), **prompt}

    def abort(self) -> None:
        for answer in self.answers:
            self.engine.abort(answer.request.rid)


async def complete(request: Request) -> Response:
    """Go on with a prompt, streamed or whole."""
    engine: SimulatedEngine = request.app.state.engine
    try:
        body = await read_body(request, CompletionBody)
        reply = _submit(request, engine, body)
    except RequestRefusedError as error:
        return refused(error)
    if not body.stream:
        return await _whole(request, reply)
    return StreamingResponse(_parts(reply), media_type="text/event-stream")


def _submit(request: Request, engine: SimulatedEngine, body: CompletionBody) -> _Reply:
    """Queue a body's n requests. Raises RequestRefusedError."""
    if not body.prompt:
        raise RequestRefusedError("Prompt cannot be empty")
    check_sampled(body, body.max_tokens)
    text = body.prompt
    ids = engine.model.encode(text, add_special_tokens=True) if isinstance(text, str) else text
    rid = body.rid or uuid.uuid4().hex
    answers = [
        engine.submit(
            Ask(
                rid=rid if index == 0 else f"{rid}_{index}",
                prompt=tuple(ids),
                namespace=namespace(body.cache_salt, body.extra_key),
                max_new_tokens=body.max_tokens,
                stops=body.stops(),
                stop_ids=tuple(body.stop_token_ids or ()),
                ignore_eos=body.ignore_eos,
                priority=body.priority,
                labels=custom_labels(request, engine),
                streaming=body.stream,
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
    choices = [
        wire.text_choice(
            index,
            reply.echoed() + answer.request.text.text,
            answer.request,
            **reply.ids(index, 0, with_prompt=True),
        )
        for index, answer in enumerate(reply.answers)
    ]
    metadata = wire.weights(len(reply.answers[0].request.output))
    body = wire.text_completion(reply.head, choices, usage=reply.usage(), metadata=metadata)
    sglext = reply.sglext()
    return JsonResponse(body | {"sglext": sglext} if sglext else body)


async def _parts(reply: _Reply) -> AsyncGenerator[bytes]:
    """The server-sent events of an answer, in the engine's order."""
    options = reply.body.stream_options
    try:
        for index, answer in enumerate(reply.answers):
            async for part in _spoken(reply, index, answer):
                yield part
        if (sglext := reply.sglext()) is not None:
            yield wire.sse(wire.text_completion(reply.head, [], usage=None, sglext=sglext))
        if options is not None and options.include_usage:
            yield wire.sse(wire.text_completion(reply.head, [], usage=reply.usage()))
        yield wire.DONE
    finally:
        reply.abort()


async def _spoken(reply: _Reply, index: int, answer: Answer) -> AsyncGenerator[bytes]:
    """One choice's text as it comes; the last part has the reason why it ended."""
    options = reply.body.stream_options
    request = answer.request
    said, told, is_first = 0, 0, True
    async for _ in answer.progress():
        text = request.text.text[said : request.text.sayable]
        if not text and request.finish is None:
            continue
        said += len(text)
        ids = reply.ids(index, told, with_prompt=is_first)
        told = len(request.output)
        ended = request if request.finish is not None else None
        echoed = reply.echoed() if is_first else ""
        is_first = False
        usage = (
            {"usage": reply.usage()}
            if options is not None and options.include_usage and options.continuous_usage_stats
            else {}
        )
        choice = wire.text_choice(index, echoed + text, ended, **ids)
        yield wire.sse(wire.text_completion(reply.head, [choice], **usage))
