"""Whether an engine keeps tenants' KV apart, tried when the gateway meets it.

Four tiny prompts of the same random ids: cold under one salt, again under it (re-used, or nothing
is shown), under another salt, and under none (re-used by neither). An engine that leaks is refused;
one that can't be tried is served, and said to be unproven.
"""

from dataclasses import dataclass
from enum import StrEnum

import anyio

from app.engine import EngineClient, EngineInfo
from app.errors import EngineError, EngineUnreachableError
from app.probes import CHANCE_TOKENS, ask, fresh_salt, low_priority, random_prompt

_LONGEST_S = 10.0
_PAGES = 2
_LEAST_TOKENS = 32


class IsolationVerdict(StrEnum):
    """What the trial showed."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    LEAKS = "leaks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The verdict; `problem` says why it isn't `PROVEN`."""

    verdict: IsolationVerdict
    problem: str | None = None


async def check_isolation(client: EngineClient, info: EngineInfo) -> Isolation:
    """Try the engine; takes 10 s at most, and a few milliseconds of an idle one.

    Raises:
        EngineUnreachableError: it went away.
    """
    try:
        with anyio.fail_after(_LONGEST_S):
            return await _try(client, info)
    except TimeoutError:
        return _unproven(f"the engine didn't answer four tiny prompts within {_LONGEST_S:g} s")
    except EngineUnreachableError:
        raise
    except EngineError as error:
        return _unproven(str(error))


async def _try(client: EngineClient, info: EngineInfo) -> Isolation:
    # The last token is always computed, so that one more is needed for whole pages.
    tokens = max(_PAGES * info.page_tokens, _LEAST_TOKENS) + 1
    ids = await random_prompt(client, tokens)
    priority = low_priority(info.settings)
    mine, other = fresh_salt(), fresh_salt()
    cached = [
        (await ask(client, ids, salt=salt, priority=priority)).cached_tokens
        for salt in (mine, mine, other, None)
    ]
    return judge(same_salt=cached[1], other_salt=cached[2], no_salt=cached[3])


def judge(*, same_salt: int | None, other_salt: int | None, no_salt: int | None) -> Isolation:
    """What the cached tokens of the second, third and fourth prompt show; None is not told."""
    for cached, whose in ((other_salt, "another salt"), (no_salt, "no salt")):
        if cached is not None and cached > CHANCE_TOKENS:
            evidence = f"a prompt with {whose} re-used {cached} tokens of a salted one"
            return Isolation(verdict=IsolationVerdict.LEAKS, problem=evidence)
    if same_salt is None or other_salt is None or no_salt is None:
        return _unproven("the engine doesn't say how many tokens it re-used")
    if same_salt <= CHANCE_TOKENS:
        return _unproven("the engine re-used nothing of a prompt that it had just computed")
    return Isolation(verdict=IsolationVerdict.PROVEN)


def _unproven(problem: str) -> Isolation:
    return Isolation(verdict=IsolationVerdict.UNPROVEN, problem=problem)
