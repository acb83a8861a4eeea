"""`/generate`, `/tokenize` and `/detokenize` of the simulated engine."""

import time
import uuid
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bench.engine_sim import wire
from bench.engine_sim.bodies import DetokenizeBody, GenerateBody, TokenizeBody
from bench.engine_sim.chat_route import check_sampling, custom_labels, namespace
from bench.engine_sim.connection import (
    JsonResponse,
    read_body,
    refused,
    unless_disconnected,
)
from bench.engine_sim.engine import Answer, Ask, SimulatedEngine
from bench.engine_sim.limits import RequestRefusedError
from bench.engine_sim.prompting import prompt_ids
from bench.engine_sim.tokens import ModelText


async def generate(request: Request) -> Response:
    """SGLang's own generation route: text or ids in, text and ids out."""
    engine: SimulatedEngine = request.app.state.engine
    try:
        body = await read_body(request, GenerateBody)
        answer = engine.submit(_ask(request, engine, body))
    except RequestRefusedError as error:
        return JsonResponse({"error": {"message": error.message}}, status_code=error.status)
    started_s = time.perf_counter()
    if not body.stream:
        try:
            if not await unless_disconnected(request, answer.finished):
                return Response(status_code=499)
        finally:
            engine.abort(answer.request.rid)
        return JsonResponse(_told(engine, answer, started_s))
    return StreamingResponse(_parts(engine, answer, started_s), media_type="text/event-stream")


async def tokenize(request: Request) -> Response:
    """Ids of a text, of several, or of messages."""
    model: ModelText = request.app.state.engine.model
    try:
        body = await read_body(request, TokenizeBody)
        tokens, count = _tokens(model, body)
    except RequestRefusedError as error:
        return refused(error)
    return JsonResponse({"tokens": tokens, "count": count, "max_model_len": model.max_length})


async def detokenize(request: Request) -> Response:
    """The text of ids, or of several lists of them."""
    model: ModelText = request.app.state.engine.model
    try:
        body = await read_body(request, DetokenizeBody)
    except RequestRefusedError as error:
        return refused(error)
    skip = body.skip_special_tokens
    lists = [ids for ids in body.tokens if isinstance(ids, list)]
    if lists:
        return JsonResponse({"text": [model.decode(i, skip_special_tokens=skip) for i in lists]})
    flat = [i for i in body.tokens if isinstance(i, int)]
    return JsonResponse({"text": model.decode(flat, skip_special_tokens=skip)})


def _tokens(
    model: ModelText, body: TokenizeBody
) -> tuple[list[int] | list[list[int]], int | list[int]]:
    match body.prompt:
        case None:
            ids = prompt_ids(model, body)
        case str() as text:
            ids = model.encode(text, add_special_tokens=body.add_special_tokens)
        case texts:
            many = [model.encode(t, add_special_tokens=body.add_special_tokens) for t in texts]
            return many, [len(one) for one in many]
    return ids, len(ids)


def _ask(request: Request, engine: SimulatedEngine, body: GenerateBody) -> Ask:
    """Raises RequestRefusedError."""
    if (body.text is None) == (body.input_ids is None):
        raise RequestRefusedError("Either text, input_ids or input_embeds should be provided.")
    ids = body.input_ids or engine.model.encode(body.text or "", add_special_tokens=True)
    sampling = body.sampling_params
    check_sampling(sampling.max_new_tokens, sampling.temperature, sampling.top_p)
    stop = sampling.stop or ()
    return Ask(
        rid=body.rid or uuid.uuid4().hex,
        prompt=tuple(ids),
        namespace=namespace(body.cache_salt, body.extra_key),
        max_new_tokens=sampling.max_new_tokens,
        stops=(stop,) if isinstance(stop, str) else tuple(stop),
        ignore_eos=sampling.ignore_eos,
        priority=body.priority,
        labels=custom_labels(request, engine),
        streaming=body.stream,
    )


def _told(engine: SimulatedEngine, answer: Answer, started_s: float) -> wire.Json:
    tier = engine.config.tier
    return wire.generated(
        answer.request,
        e2e_s=time.perf_counter() - started_s,
        backend=tier.backend if tier else None,
    )


async def _parts(
    engine: SimulatedEngine, answer: Answer, started_s: float
) -> AsyncGenerator[bytes]:
    try:
        async for _ in answer.progress():
            yield wire.sse(_told(engine, answer, started_s))
        yield wire.DONE
    finally:
        engine.abort(answer.request.rid)
