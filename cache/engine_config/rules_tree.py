"""FW709, FW716 to FW720, FW723, FW749, FW750: what keeps the prefix tree from being used well.

Source: sglang 0.5.23, srt/managers/schedule_policy.py (policies), srt/managers/scheduler.py:3521
(priority), srt/arg_groups/validation_hook.py:281, srt/managers/schedule_batch.py:1552
(`owned_kv_len`).
"""

import re

from cache.engine_config.deployment import Deployment
from cache.engine_config.found import Found, found, missing
from cache.engine_config.view import Process, Program

_BLIND = frozenset({"random", "lof", "routing-key"})
_WITH_PRIORITY = ("fcfs", "lof")
_SUFFIXED = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_FACTORS = {
    None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def tree_findings(deployment: Deployment) -> Found:
    """What an engine's flags do to RadixAttention."""
    for engine in deployment.of(Program.ENGINE):
        yield from _radix(engine)
        yield from _priority(engine)
        yield from _policy(engine)
        yield from _answers(engine)
        yield from _pool(engine)
        yield from _kept(engine)
        yield from _prefetch(engine)
        yield from _templates(engine)


def _radix(engine: Process) -> Found:
    setting = engine.last("disable_radix_cache")
    if setting is not None and engine.on("disable_radix_cache"):
        yield found(
            "FW709",
            "The engine keeps no prefix: every prompt is computed from its first token; leave "
            "--disable-radix-cache out.",
            setting,
        )


def _priority(engine: Process) -> Found:
    setting = engine.last("abort_on_priority_when_disabled")
    refuses = setting is not None and engine.on("abort_on_priority_when_disabled")
    if setting is not None and refuses and engine.lacks("enable_priority_scheduling"):
        yield found(
            "FW716",
            "The engine aborts every request that has a priority, and warming a corpus needs one; "
            "add --enable-priority-scheduling or leave --abort-on-priority-when-disabled out.",
            setting,
        )


def _policy(engine: Process) -> Found:
    setting = engine.last("schedule_policy")
    if setting is None or not setting.known:
        return
    policy = setting.text
    if engine.on("enable_priority_scheduling") and policy not in _WITH_PRIORITY:
        yield found(
            "FW717",
            f"SGLang refuses to start with --enable-priority-scheduling and --schedule-policy "
            f"{policy}; use --schedule-policy fcfs.",
            setting,
        )
    elif policy in _BLIND:
        yield found(
            "FW718",
            f"--schedule-policy {policy} sends waiting requests in an order that has nothing to do "
            "with what is cached, so prefixes are evicted between requests that share them; use "
            "lpm, or fcfs with --enable-priority-scheduling.",
            setting,
        )


def _answers(engine: Process) -> Found:
    setting = engine.last("strip_thinking_cache")
    if setting is not None and engine.on("strip_thinking_cache"):
        yield found(
            "FW719",
            "Answers with thinking leave nothing in the prefix tree, so the next turn of a "
            "conversation computes them again; leave --strip-thinking-cache out unless the chat "
            "template drops thinking from the history anyway.",
            setting,
        )


def _pool(engine: Process) -> Found:
    pool, context = _count(engine, "max_total_tokens"), _count(engine, "context_length")
    setting = engine.last("max_total_tokens")
    if setting is None or pool is None or context is None or pool >= context:
        return
    yield found(
        "FW720",
        f"The KV pool holds {pool:,} tokens, fewer than one prompt of --context-length "
        f"{context:,}: long prompts are refused, and each evicts all others; raise "
        "--max-total-tokens or lower --context-length.",
        setting,
    )


def _kept(engine: Process) -> Found:
    policy = engine.last("radix_eviction_policy")
    if not engine.on("enable_priority_scheduling") or (policy is None and not engine.whole):
        return
    if policy is None or (policy.known and policy.text != "priority"):
        kept_by = policy.text if policy is not None else "lru"
        yield missing(
            "FW749",
            f"Priorities order the requests here, and under --radix-eviction-policy {kept_by} they "
            "keep nothing in the prefix tree: a corpus that was warmed is evicted like anything "
            "else; set --radix-eviction-policy priority.",
            engine,
            "radix_eviction_policy",
        )


def _prefetch(engine: Process) -> Found:
    policy = engine.last("hicache_storage_prefetch_policy")
    stored = engine.text("hicache_storage_backend")
    if policy is not None and policy.text == "wait_complete" and stored:
        yield found(
            "FW750",
            f"A request waits for {stored} however long it takes, also where computing its prefix "
            "would be quicker; use --hicache-storage-prefetch-policy timeout.",
            policy,
        )


def _count(engine: Process, name: str) -> int | None:
    """A number of tokens, with SGLang's suffixes (`64k`, `64Ki`)."""
    found_number = _SUFFIXED.fullmatch(engine.text(name).strip())
    if found_number is None:
        return None
    return int(float(found_number[1]) * _FACTORS[found_number[2]])


def _templates(engine: Process) -> Found:
    setting = engine.last("trust_request_chat_template")
    if setting is not None and engine.on("trust_request_chat_template"):
        yield found(
            "FW723",
            "A request may bring its own chat template, which runs in the engine and makes another "
            "prefix of the same messages; leave --trust-request-chat-template out.",
            setting,
        )
