"""FW724, FW725, FW735, FW736: who can reach what has no password, and who can read one.

Source: sglang 0.5.23, srt/utils/auth.py (`decide_request_auth`); lmcache 0.5.6, `lmcache server
--help` (the HTTP API has no authentication); redis 7 on protected mode.
"""

from collections.abc import Iterator

from cache.engine_config.deployment import Deployment
from cache.engine_config.found import Found, found
from cache.engine_config.rules_reports import events_config
from cache.engine_config.view import Process, Program, Setting, adapters, is_loopback
from prompts.lint.findings import Confidence, Severity

_SECRETS = ("access_key", "password", "secret", "secret_key", "token")
_REDIS_SECRETS = ("masterauth", "requirepass")
_ENGINE_SECRETS = ("admin_api_key", "api_key", "ssl_keyfile_password")


def exposure_findings(deployment: Deployment) -> Found:
    """What is open to others."""
    for engine in deployment.of(Program.ENGINE):
        yield from _keys(engine)
        yield from _engine_reach(engine)
        yield from _written_keys(engine)
    for tier in deployment.of(Program.TIER):
        yield from _tier_reach(tier)
        yield from _adapter_secrets(tier)
        yield from _scripts(tier)
    for redis in deployment.of(Program.REDIS):
        yield from _redis_reach(redis)
        yield from _redis_secrets(redis)


def _keys(engine: Process) -> Found:
    setting = engine.last("api_key")
    if setting is None or not setting.text or not engine.lacks("admin_api_key"):
        return
    yield found(
        "FW724",
        "Whoever has the API key may also flush the cache and change the model's weights; add "
        "--admin-api-key, with another value.",
        setting,
    )


def _written_keys(engine: Process) -> Found:
    for name in _ENGINE_SECRETS:
        setting = engine.last(name)
        if setting is not None and setting.spelling.startswith("--") and setting.text:
            yield found(
                "FW725",
                f"Every user of the machine reads {setting.spelling} in its list of processes; put "
                "the key into a file for --config that only the engine's user can read.",
                setting,
                confidence=None if setting.known else Confidence.SUSPECTED,
            )


def _open_listeners(process: Process, *names: str) -> Iterator[Setting]:
    """The settings by which a process on the host itself listens for other machines too."""
    container = process.container
    if not process.on_host and (container is None or not container.host_network):
        return
    for name in names:
        setting = process.last(name)
        if setting is not None and setting.known and not is_loopback(setting.text):
            yield setting


def _engine_reach(engine: Process) -> Found:
    keyed = bool(engine.text("api_key")) and bool(engine.text("admin_api_key"))
    for at in () if keyed else _open_listeners(engine, "host"):
        yield found(
            "FW735",
            "The engine listens for other machines, and whoever reaches it may use any tenant's "
            "salt and flush the cache; listen on 127.0.0.1, or add --api-key and --admin-api-key.",
            at,
            confidence=Confidence.SUSPECTED,
        )
    events = engine.last("kv_events_config")
    endpoint = str((events_config(engine) or {}).get("endpoint", ""))
    listening = engine.on_host or (engine.container is not None and engine.container.host_network)
    if events is not None and listening and any(mark in endpoint for mark in ("*", "0.0.0.0")):
        yield found("FW735", _EVENTS, events, confidence=Confidence.SUSPECTED)
    yield from _published(engine, keyed=keyed)


_EVENTS = (
    "KV events hold the prompts' token ids, and other machines may subscribe to them; give "
    '--kv-events-config an endpoint on 127.0.0.1 with "bind":true.'
)


def _published(process: Process, *, keyed: bool) -> Found:
    ports = process.container.ports if process.container is not None else ()
    served = process.number("port", 30000)
    for port in ports:
        if port.open and not (keyed and port.container_port == served):
            yield found(
                "FW735",
                f"This port of {process.program} is published to other machines, and nothing asks "
                "them for a key; publish it on 127.0.0.1, or not at all: containers of one network "
                "reach each other anyway.",
                port.at,
                # Keys may stand where it isn't seen.
                confidence=None if process.whole else Confidence.SUSPECTED,
            )


def _tier_reach(tier: Process) -> Found:
    for at in _open_listeners(tier, "host", "http_host"):
        yield found(
            "FW735",
            f"{at.spelling} {at.text} lets other machines read and clear everybody's KV, since "
            "neither port asks for a key; listen on 127.0.0.1.",
            at,
            confidence=Confidence.SUSPECTED,
        )
    yield from _published(tier, keyed=False)


def _scripts(tier: Process) -> Found:
    setting = tier.last("run_script_api_enabled")
    if setting is not None and tier.on("run_script_api_enabled"):
        yield found(
            "FW736",
            "Whoever reaches the tier's HTTP port may run any Python in it, which holds the keys "
            "of all KV; leave --run-script-api-enabled out.",
            setting,
        )


def _redis_reach(redis: Process) -> Found:
    if redis.text("requirepass") or redis.last("aclfile") or redis.last("user"):
        return
    yield from _published(redis, keyed=False)
    if redis.text("protected_mode", "yes") == "yes" or redis.container is not None:
        return
    bound = redis.last("bind")
    addresses = bound.values if bound is not None else ("*",)
    if all(is_loopback(address.lstrip("-")) for address in addresses):
        return
    setting = bound or redis.last("protected_mode")
    yield found(
        "FW735",
        "Other machines reach this Redis without a password; bind it to 127.0.0.1, or set "
        "requirepass in its configuration file.",
        setting or redis.at,
        severity=Severity.ERROR,
    )


def _adapter_secrets(tier: Process) -> Found:
    for adapter in adapters(tier):
        named = [name for name in _SECRETS if adapter.fields.get(name)]
        if named:
            instead = (
                "set LMCACHE_RESP_USERNAME and LMCACHE_RESP_PASSWORD in the tier's environment"
                if adapter.kind == "resp"
                else "give it by the environment"
            )
            message = (
                f"Every user of the machine reads the {named[0]} of this adapter in its list of "
                f"processes; leave it out, and {instead}."
            )
            yield found("FW725", message, adapter.setting)


def _redis_secrets(redis: Process) -> Found:
    for name in _REDIS_SECRETS:
        setting = redis.last(name)
        if setting is not None and setting.spelling.startswith("--") and setting.text:
            message = (
                f"Every user of the machine reads {setting.spelling} in its list of processes; put "
                "it into Redis' configuration file."
            )
            yield found("FW725", message, setting)
