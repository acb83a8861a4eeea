"""State, health, cache and fault routes of the simulated engine."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from bench.engine_sim.bodies import AbortBody
from bench.engine_sim.connection import JsonResponse, read_body, refused
from bench.engine_sim.engine import SimulatedEngine
from bench.engine_sim.faults import Fault, FaultKind
from bench.engine_sim.limits import RequestRefusedError, longest_request
from bench.engine_sim.metrics import CONTENT_TYPE

PROTOCOL_VERSION = "0.5.23"
"""The SGLang whose protocol is simulated."""


class FaultBody(BaseModel):
    """`POST /simulator/faults`: see faults.Fault."""

    kind: FaultKind
    path: str | None = None
    times: int | None = 1
    seconds: float = 0.0
    status: int = 500
    after_chunks: int = 0


async def ready(_: Request) -> Response:
    """`/ready`, `/health` and `/health_generate`: up as soon as it listens."""
    return Response(status_code=200)


async def models(request: Request) -> Response:
    engine = _engine(request)
    cards = [_card(engine), *(_adapter_card(engine, name) for name in engine.config.adapters)]
    return JsonResponse({"object": "list", "data": cards})


async def model(request: Request) -> Response:
    engine = _engine(request)
    name = request.path_params["model"]
    if name == engine.config.name:
        return JsonResponse(_card(engine))
    problem = {
        "message": f"The model '{name}' does not exist",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    return JsonResponse({"error": problem}, status_code=404)


async def model_info(request: Request) -> Response:
    config = _engine(request).config
    return JsonResponse(
        {
            "engine": "simulated",
            "model_path": str(config.model_path),
            "served_model_name": config.name,
            "tokenizer_path": str(config.model_path),
            "is_generation": True,
            "weight_version": "default",
        }
    )


async def server_info(request: Request) -> Response:
    """The part of SGLang's answer that says how re-use works here."""
    engine = _engine(request)
    config = engine.config
    return JsonResponse(
        {
            "engine": "simulated",
            "version": PROTOCOL_VERSION,
            "model_path": str(config.model_path),
            "served_model_name": config.name,
            "context_length": config.context_tokens,
            "page_size": config.page_size,
            "max_total_tokens": config.capacity_tokens,
            "max_total_num_tokens": engine.scheduler.pool.capacity_tokens,
            "max_req_input_len": longest_request(config) - 5,
            "chunked_prefill_size": config.chunked_prefill_tokens,
            "schedule_policy": "fcfs",
            "radix_eviction_policy": config.eviction,
            "enable_priority_scheduling": config.priority_scheduling,
            "tool_call_parser": "simulated" if config.reads_calls else None,
            "enable_cache_report": config.cache_report,
            "enable_lmcache": config.tier is not None,
            "enable_metrics": True,
            "kv_events_config": _kv_events_config(engine),
            "tokenizer_metrics_allowed_custom_labels": list(config.labels),
            "kv_events": _kv_events(engine),
        }
    )


async def loads(request: Request) -> Response:
    engine = _engine(request)
    include = request.query_params.get("include")
    sections = set(include.split(",")) if include else {"all"}
    return JsonResponse(
        {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": PROTOCOL_VERSION,
            "accelerator": None,
            "num_accelerators": 1,
            "loads": [_load(engine, sections)],
        }
    )


async def flush(request: Request) -> Response:
    if _engine(request).flush():
        return Response("Cache flushed.\n")
    return Response("Flush cache failed.\n", status_code=400)


async def abort(request: Request) -> Response:
    engine = _engine(request)
    try:
        body = await read_body(request, AbortBody)
    except RequestRefusedError as error:
        return refused(error)
    if body.abort_all:
        engine.abort_all()
    else:
        engine.abort(body.rid)
    return Response(status_code=200)


async def metrics(request: Request) -> Response:
    engine = _engine(request)
    return Response(engine.metrics.render(engine.scheduler), media_type=CONTENT_TYPE)


async def simulator_state(request: Request) -> Response:
    return JsonResponse(_engine(request).state())


async def simulator_requests(request: Request) -> Response:
    """The requests that have ended, the last 50,000 of them, in the order of their ends."""
    return JsonResponse({"requests": [asdict(each) for each in _engine(request).answered]})


async def order_fault(request: Request) -> Response:
    """`POST` orders a fault, `DELETE` takes all back."""
    engine = _engine(request)
    if request.method == "DELETE":
        engine.heal()
        return Response(status_code=204)
    try:
        body = await read_body(request, FaultBody)
    except RequestRefusedError as error:
        return refused(error)
    engine.order(Fault(**body.model_dump()))
    return Response(status_code=204)


def _engine(request: Request) -> SimulatedEngine:
    engine: SimulatedEngine = request.app.state.engine
    return engine


def _card(engine: SimulatedEngine) -> dict[str, Any]:
    name = engine.config.name
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": engine.config.context_tokens,
    }


def _adapter_card(engine: SimulatedEngine, name: str) -> dict[str, Any]:
    """An adapter stands on the model, and has no window of its own."""
    return _card(engine) | {"id": name, "parent": engine.config.name, "max_model_len": None}


def _kv_events_config(engine: SimulatedEngine) -> str | None:
    """The argument as SGLang gives it back: JSON in a string."""
    if engine.publisher is None:
        return None
    config: dict[str, Any] = {"publisher": "zmq", "endpoint": engine.publisher.endpoint}
    config |= {"bind": True, "topic": engine.publisher.topic}
    if engine.publisher.replay_endpoint is not None:
        config["replay_endpoint"] = engine.publisher.replay_endpoint
    return orjson.dumps(config).decode()


def _kv_events(engine: SimulatedEngine) -> dict[str, Any] | None:
    if engine.publisher is None:
        return None
    publisher = engine.publisher
    described: dict[str, Any] = {
        "publisher": "zmq",
        "endpoint_host": _host_and_port(publisher.endpoint)[0],
        "endpoint_port_base": _host_and_port(publisher.endpoint)[1],
        "topic": publisher.topic,
        "block_size": engine.config.page_size,
        "dp_size": 1,
    }
    if publisher.replay_endpoint is not None:
        described["replay_endpoint_port_base"] = _host_and_port(publisher.replay_endpoint)[1]
    return described


def _host_and_port(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host, int(port)


def _load(engine: SimulatedEngine, sections: set[str]) -> dict[str, Any]:
    scheduler = engine.scheduler
    pool = scheduler.pool
    waiting = scheduler.waiting_uncached_tokens()
    load: dict[str, Any] = {
        "timestamp": time.time(),
        "dp_rank": 0,
        "num_running_reqs": scheduler.num_running,
        "num_waiting_reqs": len(scheduler.waiting),
        "num_waiting_uncached_tokens": waiting,
        "num_used_tokens": pool.used_tokens,
        "num_total_tokens": pool.used_tokens + waiting,
        "max_total_num_tokens": pool.capacity_tokens,
        "max_running_requests": engine.config.max_running_requests,
        "token_usage": pool.used_tokens / pool.capacity_tokens,
        "total_prefill_uncached_tokens": scheduler.totals.prefill_tokens,
        "total_prefill_busy_us": int(scheduler.totals.prefill_s * 1e6),
    }
    if sections & {"all", "memory"}:
        load["memory"] = {"token_capacity": pool.capacity_tokens}
    if sections & {"all", "queues"}:
        queued = len(scheduler.waiting)
        load["queues"] = {"waiting": queued, "grammar": 0, "paused": 0, "retracted": 0}
    return load
