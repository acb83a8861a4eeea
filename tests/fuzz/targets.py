"""What reads bytes from outside, each as a function that ends in a known error or in none.

`test_targets.py` runs them a little with hypothesis; `run_atheris.py` for as long as one likes,
guided by coverage.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from fastapi import Request
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.formparsers import MultiPartException
from starlette.types import Message

from app.completions.body import CompletionRequest, check_completion
from app.errors import GatewayError
from app.fleet.addresses import replica_url
from app.json_guard import loads
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.refusals import check_request
from app.routes.bodies import checked_body
from app.routes.files import read_upload
from app.routes.report import parse_moment
from app.sampling_limits import check_sampling
from app.schemas import ChatCompletionRequest, check_fields, split_messages
from app.settings import WireSettings
from app.sse import EventReader
from app.tracing import parent_of
from cache.engine_loads import parse_loads
from cache.engine_metrics import parse_engine_metrics
from cache.errors import CacheError
from cache.kv_events import decode_batch
from prompts import PromptError
from retrieval import RetrievalError
from retrieval.filters import canonical, parse_filter
from tests.fuzz.wire import feed_protocol

KNOWN = (GatewayError, PromptError, CacheError, RetrievalError)
_LIMITS = WireSettings()
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def chat(data: bytes) -> None:
    """A chat completion, up to where a replica is needed."""
    _read_chat(checked_body(loads(data, _LIMITS), ChatCompletionRequest))


def completion(data: bytes) -> None:
    request = checked_body(loads(data, _LIMITS), CompletionRequest)
    check_completion(request)
    check_sampling(request.extras, None)
    request.each()


def response(data: bytes) -> None:
    request = checked_body(loads(data, _LIMITS), ResponsesRequest)
    check_request(request)
    _read_chat(chat_request(request, frozenset()))


def search_filter(data: bytes) -> None:
    given = loads(data, _LIMITS)
    if isinstance(given, dict):
        once = canonical(parse_filter(given))
        assert canonical(parse_filter(json.loads(once))) == once


def kv_events(data: bytes) -> None:
    decode_batch(data)


def engine_metrics(data: bytes) -> None:
    parse_engine_metrics(data.decode("utf-8", "replace"), at=_NOW)


def engine_loads(data: bytes) -> None:
    parse_loads(data)


def events(data: bytes) -> None:
    """Cut anywhere, a stream gives the same events."""
    middle = len(data) // 2
    reader = EventReader()
    in_parts = reader.feed(data[:middle]) + reader.feed(data[middle:])
    assert in_parts == EventReader().feed(data)


def replica_address(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    url = replica_url(text)
    assert replica_url(url) == url


def moment(data: bytes) -> None:
    parse_moment(data.decode("utf-8", "replace"), _NOW, "since")


def traceparent(data: bytes) -> None:
    """What goes out to the engine is well formed, whatever came in."""
    parent, _, state = data.partition(b"\n")
    context = parent_of([(b"traceparent", parent), (b"tracestate", state)])
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context=context)
    for value in carrier.values():
        assert value.isprintable()


def multipart(data: bytes) -> None:
    """A form with a file: its content type, a line feed, its body."""
    kind, _, body = data.partition(b"\n")
    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind)]}
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> Message:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    with suppress(MultiPartException):  # which the app answers with 400
        asyncio.run(read_upload(Request(scope, receive)))


def _read_chat(request: ChatCompletionRequest) -> None:
    check_fields(request)
    check_sampling(request.extras, None)
    split_messages(request.messages)
    request.tools()


_CHAT = (
    b'{"model":"default","messages":[{"role":"system","content":"s"},{"role":"user","content":['
    b'{"type":"text","text":"\\u00e9"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c",'
    b'"type":"function","function":{"name":"f","arguments":"{\\"a\\": 1.50}"}}]},{"role":"tool",'
    b'"tool_call_id":"c","content":"r"}],"tools":[{"type":"function","function":{"name":"f",'
    b'"description":"d","parameters":{"type":"object","properties":{"a":{"type":"number"}}}}}],'
    b'"max_tokens":3,"stop":["x"],"top_logprobs":2,"n":2,"seed":7,"foreword":{"mode":"rag",'
    b'"filters":{"type":"eq","key":"a","value":1},"variables":{"a":[1]}}}'
)
_METRICS = (
    b"# TYPE sglang:num_running_reqs gauge\n"
    b'sglang:num_running_reqs{model_name="m"} 1.0\n'
    b'sglang:cached_tokens_total{cache_source="device",model_name="m"} 5e3\n'
)

TARGETS: Mapping[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]] = {
    "chat": (chat, (_CHAT,)),
    "completion": (completion, (b'{"model":"m","prompt":[[1,2],[3]],"max_tokens":2,"echo":true}',)),
    "response": (
        response,
        (
            b'{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},'
            b'{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"tools":[{"type":'
            b'"file_search","vector_store_ids":["v"],"filters":{"type":"eq","key":"a","value":1}}],'
            b'"prompt":{"id":"docqa","variables":{"a":"b"}},"text":{"format":{"type":"text"}}}',
        ),
    ),
    "search_filter": (
        search_filter,
        (b'{"type":"and","filters":[{"type":"in","key":"a","value":[1,"b",true,1.5]}]}',),
    ),
    "kv_events": (
        kv_events,
        (
            # [1.0, [["BlockRemoved" …]]] as msgpack
            b"\x92\xcb?\xf0\x00\x00\x00\x00\x00\x00\x91\x82\xa4type\xacBlockRemoved\xacblock_hashes"
            b"\x91\x01",
        ),
    ),
    "engine_metrics": (engine_metrics, (_METRICS,)),
    "engine_loads": (engine_loads, (b'{"loads":[{"num_running_reqs":1,"num_waiting_reqs":0}]}',)),
    "events": (
        events,
        (b": ping\r\ndata: {}\r\n\r\nevent: x\ndata: a\ndata: b\n\ndata: [DONE]\n\n",),
    ),
    "traceparent": (
        traceparent,
        (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\nrojo=00f067aa0ba902b7,a@b=c",),
    ),
    "multipart": (
        multipart,
        (
            b"multipart/form-data; boundary=b\n--b\r\ncontent-disposition: form-data; "
            b'name="purpose"\r\n\r\nassistants\r\n--b\r\ncontent-disposition: form-data; '
            b'name="file"; filename="a.txt"\r\ncontent-type: text/plain\r\n\r\nhello\r\n--b--\r\n',
        ),
    ),
    "replica_address": (replica_address, (b"http://[::1]:30000/base/", b"https://a.example")),
    "moment": (moment, (b"24h", b"2026-01-31T12:00+01:00")),
    "http": (
        feed_protocol,
        (
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
            b"\r\n",
        ),
    ),
}


def survives(name: str, data: bytes) -> None:
    """Run one target; a known error is an answer, anything else a fault."""
    with suppress(*KNOWN):
        TARGETS[name][0](data)
