"""What a trial of one tier shows. Pure: answers in, lines for the doctor out."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.probes import CHANCE_TOKENS, ProbeAnswer
from app.stack.check import Check, note, ok, problem
from cache.pages import page_floor
from cache.usage import Tier

TOLERANCE = 1e-3
"""Of a log-probability: what sums in another order may change."""
LARGEST_ROUNDING = 0.1
"""Half-precision kernels for other batch shapes stay below it; wrong KV doesn't."""

_INNER = re.compile(r"'inner': '(\w+)'")
_LEAK_ADVICE = "serve one tenant alone until this is mended: docs/doctor.md, isolation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A trial's prompt.

    Attributes:
        chunk_tokens: None where there are no tiers below the GPU.
    """

    tokens: int
    page_tokens: int
    chunk_tokens: int | None

    def expected(self, tier: Tier) -> int:
        """Tokens that come back: whole pages or chunks, without the last token."""
        if tier is Tier.GPU or self.chunk_tokens is None:
            return page_floor(self.tokens - 1, page_size=self.page_tokens)
        return page_floor(self.tokens - 1, page_size=self.chunk_tokens)

    @property
    def chunks(self) -> int:
        return 0 if self.chunk_tokens is None else self.tokens // self.chunk_tokens


def choose_size(*, page_tokens: int, chunk_tokens: int | None, room_tokens: int) -> Size | None:
    """A few chunks and a half, so that chunks and pages count differently; None: no room for one.

    Args:
        room_tokens: the window, or half of the engine's pool where that is less.
    """
    unit = chunk_tokens or max(4 * page_tokens, 64)
    for chunks in (3, 2, 1):
        tokens = chunks * unit + unit // 2
        if tokens + 16 <= room_tokens:
            return Size(tokens=tokens, page_tokens=page_tokens, chunk_tokens=chunk_tokens)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One prompt at one tier: computed under a salt, then asked for under others and again.

    Attributes:
        served: tokens of `same` by tier; None where that isn't known.
        stored_bytes: of one chunk as it lies in the tier; None where that isn't known.
        ram_bytes: of one chunk as the engine has it; None likewise.
        load_s: seconds that one chunk's load took; None likewise.
    """

    tier: Tier
    size: Size
    cold: ProbeAnswer
    other: ProbeAnswer
    unsalted: ProbeAnswer
    same: ProbeAnswer
    served: Mapping[Tier, int] | None = None
    stored_bytes: int | None = None
    ram_bytes: int | None = None
    load_s: float | None = None

    @property
    def is_hit(self) -> bool:
        """Whether the same salt got all back."""
        return (self.same.cached_tokens or 0) >= self.size.expected(self.tier)

    @property
    def leaked(self) -> tuple[int, str] | None:
        """Tokens, and under which salt they were had."""
        for answer, whose in ((self.other, "another salt"), (self.unsalted, "no salt")):
            if (answer.cached_tokens or 0) > CHANCE_TOKENS:
                return answer.cached_tokens or 0, whose
        return None


def isolation(trial: Trial) -> Check:
    """Whether the tier gave KV to its own salt, and to no other."""
    name, expected = f"isolation {trial.tier}", trial.size.expected(trial.tier)
    if trial.leaked is not None:
        tokens, whose = trial.leaked
        found = f"a request with {whose} was given {tokens} tokens of another tenant's KV"
        return problem(name, found, _LEAK_ADVICE)
    cached = (trial.same.cached_tokens, trial.other.cached_tokens, trial.unsalted.cached_tokens)
    if None in cached:
        return note(name, "not proven: the engine doesn't say how many tokens it re-used")
    if not trial.is_hit:
        found = f"not proven: the same salt got {cached[0]} of {expected} tokens back"
        return problem(name, found, "try again when nothing else runs; else look at the tier's log")
    elsewhere = _elsewhere(trial)
    if elsewhere is not None:
        return note(name, f"not proven: the same salt's {cached[0]} tokens came {elsewhere}")
    return ok(
        name,
        f"{cached[0]} of {trial.size.tokens} tokens for the same salt, 0 for another, 0 without",
    )


def _elsewhere(trial: Trial) -> str | None:
    """Where the hit came from, if not from the tier that was tried."""
    cached, held = trial.same.cached_tokens or 0, trial.same.gpu_tokens
    if trial.tier is Tier.GPU:
        # Without tiers there is no other place.
        return None if held is None or held == cached else f"from below the GPU ({cached - held})"
    if trial.served is None:
        return "from a tier that isn't known"
    others = {tier.value: n for tier, n in trial.served.items() if n and tier is not trial.tier}
    if held:
        others[Tier.GPU.value] = held
    if not others:
        return None
    return "from " + ", ".join(f"{tier} ({tokens})" for tier, tokens in others.items())


def drift(cold: ProbeAnswer, again: ProbeAnswer) -> float | None:
    """Largest difference of the log-probabilities, up to the first token that differs.

    After that the two answers are different texts. None where the engine gives none.
    """
    if not cold.logprobs or not again.logprobs:
        return None
    pairs = zip(cold.output_ids, again.output_ids, strict=False)
    equal = next((i for i, (a, b) in enumerate(pairs) if a != b), len(cold.output_ids))
    compared = zip(cold.logprobs[: equal + 1], again.logprobs[: equal + 1], strict=False)
    return max(abs(a - b) for a, b in compared)


def lossless(trial: Trial, *, serde: str | None) -> Check | None:
    """Whether the re-used KV gave the cold run's answer; None where there was no hit to compare.

    Args:
        serde: what makes KV smaller in that tier.
    """
    if not trial.is_hit:
        return None
    name = f"{'lossless' if serde is None else 'serde'} {trial.tier}"
    off = drift(trial.cold, trial.same)
    if off is None:
        return note(name, "not compared: the engine gives no log-probabilities")
    same_text = trial.cold.output_ids == trial.same.output_ids
    if serde is not None:
        text = "same" if same_text else "another"
        found = f"{serde}: {_costs(trial)}logprob drift {off:.2g}, {text} greedy answer"
        return ok(name, found)
    if off <= TOLERANCE and same_text:
        equal = f"within {off:.1g}" if off else "equal"
        return ok(name, f"the cold run's answer, logprobs {equal}")
    if off <= LARGEST_ROUNDING:
        return note(name, f"logprobs differ by {off:.2g} from the cold run's (rounding)")
    return problem(
        name,
        f"logprobs differ by {off:.2g} from the cold run's: the KV that came back is wrong",
        "switch the tier off and look at docs/doctor.md, lossless",
    )


def _costs(trial: Trial) -> str:
    parts = []
    if trial.stored_bytes is not None:
        whole = "" if trial.ram_bytes is None else f" ({trial.ram_bytes:,} in RAM)"
        parts.append(f"{trial.stored_bytes:,} bytes a chunk{whole}, ")
    if trial.load_s is not None:
        parts.append(f"{trial.load_s * 1000:.2g} ms to load one, ")
    return "".join(parts)


def destroyed(trial: Trial, after: ProbeAnswer) -> Check:
    """Whether a destroyed salt's KV, which had just been served, is gone."""
    name = "destroyed salt"
    if after.cached_tokens is None:
        return note(name, "not proven: the engine doesn't say how many tokens it re-used")
    if after.cached_tokens > CHANCE_TOKENS:
        found = f"{after.cached_tokens} tokens of a destroyed salt were served again"
        return problem(name, found, _LEAK_ADVICE)
    served = trial.same.cached_tokens
    return ok(name, f"nothing of the {served} tokens that {trial.tier} had just served can be read")


def parse_serdes(configuration: bytes) -> tuple[str | None, ...]:
    """The lossy serde of each adapter, in LMCache's order; empty where that isn't told.

    Args:
        configuration: LMCache's `/config`.

    Source: lmcache 0.5.6 v1/multiprocess/http_apis/config_api.py; `inner` is the guard's.
    """
    try:
        adapters = json.loads(configuration)["storage_manager"]["l2_adapter_config"]["adapters"]
        return tuple(_inner(adapter) for adapter in adapters)
    except (ValueError, KeyError, TypeError):
        return ()


def _inner(adapter: Mapping[str, object]) -> str | None:
    """Most adapters' settings are no dataclasses, and LMCache then gives their Python spelling."""
    match adapter.get("serde_config"):
        case {"kwargs": {"inner": str() as inner}}:
            return inner
        case str() as spelling:
            found = _INNER.search(spelling)
            return found.group(1) if found else None
        case _:
            return None
