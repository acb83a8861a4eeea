"""FW703 to FW708, FW751: what an engine and a tier don't report can't be accounted for.

Source: sglang 0.5.23, srt/arg_groups/fields/{serving,observability}.py and
srt/disaggregation/kv_events.py (`KVEventsConfig`, `ZmqEventPublisher._socket_setup`).
"""

from cache.engine_config.deployment import Deployment
from cache.engine_config.found import Found, found, missing
from cache.engine_config.view import Process, Program, Setting, json_object
from prompts.lint.findings import Severity

LABELS = ("template", "tenant")
_ENDPOINT = "tcp://*:5557"
_BOUND = ("*", "::", "0.0.0.0")
_LOCAL = ("ipc://", "inproc://")


def report_findings(deployment: Deployment) -> Found:
    """What is not reported."""
    for engine in deployment.of(Program.ENGINE):
        yield from _usage(engine)
        yield from _metrics(engine)
        yield from _events(engine)
        yield from _tool_calls(engine)
    for tier in deployment.of(Program.TIER):
        yield from _tier_metrics(tier)


def events_config(engine: Process) -> dict[str, object] | None:
    """The object behind `--kv-events-config`; None where there is none to be read."""
    fields = json_object(engine.text("kv_events_config"))
    return None if fields is None else {"endpoint": _ENDPOINT, **fields}


def _usage(engine: Process) -> Found:
    if engine.lacks("enable_cache_report"):
        yield missing(
            "FW703",
            "The engine doesn't say how many tokens of a prompt it re-used, so every request's "
            "cached tokens and verdict are unknown; add --enable-cache-report.",
            engine,
            "enable_cache_report",
        )


def _metrics(engine: Process) -> Found:
    if engine.lacks("enable_metrics"):
        yield missing(
            "FW704",
            "The engine publishes no metrics, so the ledger can't be checked against its counters "
            "and its prefill speed isn't known; add --enable-metrics.",
            engine,
            "enable_metrics",
        )
        return
    name = "tokenizer_metrics_allowed_custom_labels"
    setting = engine.last(name)
    if setting is not None and not setting.known:
        return
    given = setting.values if setting is not None else ()
    lacking = [label for label in LABELS if label not in given]
    if lacking and (setting is not None or engine.whole):
        yield missing(
            "FW705",
            f"The engine doesn't count its tokens by {' and '.join(lacking)}, so the reports of a "
            "template or tenant can't be checked against it; add "
            f"--tokenizer-metrics-allowed-custom-labels {' '.join(LABELS)}.",
            engine,
            name,
        )


def _tool_calls(engine: Process) -> Found:
    """Only by an engine's own account: a command doesn't show whether there will be tools."""
    if not engine.resolved:
        return
    setting = engine.last("tool_call_parser")
    if "tool_call_parser" in engine.unset:
        yield missing("FW751", _NO_CALLS, engine, "tool_call_parser")
    elif setting is not None and setting.values == (_DEMANDED_CALLS,):
        yield found("FW751", _ONLY_DEMANDED, setting)


# Source: deploy/engine-guard, foreword_guard/demanded_calls.py.
_DEMANDED_CALLS = "foreword_json"
_NO_CALLS = (
    "The engine has no parser of tool calls, so calls come back as text, and requests that demand "
    "one are refused; start it with --tool-call-parser auto, or with a format by name (llama3, "
    "qwen, …) where SGLang can't tell it by the chat template."
)
_ONLY_DEMANDED = (
    "The engine reads calls that a request demands (tool_choice required, or a function) and no "
    "others, since SGLang can't tell by the chat template how its model writes them: those come "
    "back as text; if the model was trained to call tools, name its format (--tool-call-parser "
    "llama3, qwen, …)."
)


def _tier_metrics(tier: Process) -> Found:
    for name in ("disable_observability", "disable_metrics"):
        setting = tier.last(name)
        if setting is not None and tier.on(name):
            yield found(
                "FW704",
                "The tier server counts nothing, so what it serves, stores and loses isn't known; "
                f"leave {setting.spelling} out.",
                setting,
            )


def _events(engine: Process) -> Found:
    setting = engine.last("kv_events_config")
    if setting is None:
        if engine.whole:
            yield missing("FW706", _NO_EVENTS, engine, "kv_events_config")
        return
    fields = events_config(engine)
    if fields is None:
        if setting.known:
            yield found("FW706", _NO_OBJECT, setting, severity=Severity.ERROR)
        return
    if fields.get("publisher", "null") == "null":
        yield found("FW706", _NO_PUBLISHER, setting)
        return
    yield from _endpoint(setting, fields)


_NO_EVENTS = (
    "The engine doesn't tell what it evicts, so a lost prefix can't be told from one that was "
    """never there; add --kv-events-config '{"publisher":"zmq","bind":true,"topic":"kv","""
    """"endpoint":"tcp://127.0.0.1:5557","replay_endpoint":"tcp://127.0.0.1:5558"}'."""
)
_NO_OBJECT = (
    "SGLang can't read --kv-events-config and refuses to start: it is no JSON object; write it in "
    "single quotes where a shell reads it."
)
_NO_PUBLISHER = (
    'Without "publisher":"zmq" SGLang publishes no KV events, whatever else --kv-events-config '
    "says; add it."
)


def _endpoint(setting: Setting, fields: dict[str, object]) -> Found:
    endpoint = str(fields["endpoint"])
    bound = fields.get("bind")
    if bound is None:
        bound = any(mark in endpoint for mark in _BOUND) or endpoint.startswith(_LOCAL)
    if not bound:
        yield found(
            "FW707",
            f"SGLang connects to {endpoint} instead of listening there, so that no subscriber ever "
            'hears an event; add "bind":true to --kv-events-config.',
            setting,
        )
    if fields.get("replay_endpoint") is None:
        yield found(
            "FW708",
            "KV events that a subscriber misses can't be asked for again: what was resident then "
            'stays unknown; add "replay_endpoint" to --kv-events-config, on a port of its own.',
            setting,
        )
