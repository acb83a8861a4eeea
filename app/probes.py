"""Small prompts that nobody has sent before, and what an engine re-used for them.

They go to `/generate`, which counts re-used tokens whether or not the engine makes a cache report,
and they carry no labels: nothing of them is counted for a template or a tenant.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.engine import EngineClient
from app.errors import EngineProtocolError

CHANCE_TOKENS = 4
"""With small pages so many first tokens of two random prompts may be equal by chance."""

_LOW_PRIORITY = 1000
_CHARACTERS_A_TOKEN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What one probe gave.

    Attributes:
        cached_tokens: None where the engine doesn't say.
        gpu_tokens: those of them that the engine held itself; None where it doesn't say.
        output_ids: the greedy answer.
        logprobs: of the answer's tokens; None where the engine gives none.
    """

    request_id: str
    cached_tokens: int | None
    gpu_tokens: int | None = None
    output_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    elapsed_s: float = 0.0


def fresh_salt() -> str:
    """A salt that nobody has used."""
    return f"foreword-probe-{secrets.token_hex(16)}"


def low_priority(settings: Mapping[str, object]) -> int | None:
    """The `priority` of a request that may wait; None where the engine schedules by none.

    Args:
        settings: the engine's `/server_info`.
    """
    if not settings.get("enable_priority_scheduling"):
        return None
    lower_first = bool(settings.get("schedule_low_priority_values_first"))
    return _LOW_PRIORITY if lower_first else -_LOW_PRIORITY


async def random_prompt(client: EngineClient, tokens: int) -> list[int]:
    """Random ids of the engine's own vocabulary: an id beyond it would kill a real engine.

    Raises:
        EngineError: the engine can't be asked.
    """
    text = secrets.token_hex(tokens * _CHARACTERS_A_TOKEN)
    ids = await client.token_ids(text)
    if len(ids) < tokens:
        raise EngineProtocolError(client.url, "a long random text has too few tokens")
    return ids[:tokens]


async def ask(
    client: EngineClient,
    ids: Sequence[int],
    *,
    salt: str | None,
    new_tokens: int = 1,
    priority: int | None = None,
    logprobs: bool = False,
) -> ProbeAnswer:
    """The greedy answer to ids under a salt.

    Raises:
        EngineError: the engine can't be asked, refuses, or isn't understood.
    """
    request_id = f"foreword-probe-{secrets.token_hex(8)}"
    sampling = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True}
    body: dict[str, object] = {"rid": request_id, "input_ids": ids, "sampling_params": sampling}
    if salt is not None:
        body["cache_salt"] = salt
    if priority is not None:
        body["priority"] = priority
    if logprobs:
        # From 0 on, the prompt's own would be computed too, and nothing of it re-used.
        body |= {"return_logprob": True, "logprob_start_len": -1}
    started_s = time.perf_counter()
    answer = await client.generate(body)
    elapsed_s = time.perf_counter() - started_s
    try:
        return _read(answer, request_id, elapsed_s)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise EngineProtocolError(client.url, f"/generate lacks {error}") from error


def _read(answer: Mapping[str, object], request_id: str, elapsed_s: float) -> ProbeAnswer:
    meta = answer["meta_info"]
    if not isinstance(meta, Mapping):
        raise TypeError("meta_info")
    cached = meta.get("cached_tokens")
    ids = answer.get("output_ids")
    logprobs = meta.get("output_token_logprobs")
    return ProbeAnswer(
        request_id=request_id,
        cached_tokens=None if cached is None else int(cached),
        gpu_tokens=_from_gpu(cached, meta.get("cached_tokens_details")),
        output_ids=tuple(int(token) for token in ids) if isinstance(ids, list) else (),
        logprobs=tuple(float(entry[0]) for entry in logprobs) if logprobs else None,
        elapsed_s=elapsed_s,
    )


def _from_gpu(cached: object, details: object) -> int | None:
    """The engine leaves the split out where nothing was re-used."""
    if isinstance(details, Mapping):
        return int(details.get("device") or 0)
    return 0 if cached == 0 else None
