"""Which causes of a group really cost something: its requests are replayed without them.

One cause at a time is left in, with all others repaired. What is then computed again is what that
cause costs; a difference that costs nothing is no finding.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cache.request_log.causes import FIRST, HEAD, HISTORY, TOOLS, Cause
from cache.request_log.conversations import Link
from cache.request_log.groups import Group
from cache.request_log.loose import LooseTexts
from cache.request_log.measure import Measure, PageChain
from cache.request_log.repairs import GroupRepair
from cache.request_log.replay import Replay, ReplayStep, replay
from cache.request_log.table import LogPrompt, RequestTable

_TRIAL_REQUESTS = 1_000
_LEAST_REQUESTS = 2
# Named by their spelling or by comparing lists, so a small loss is enough to believe them.
_PRECISE = frozenset(
    (
        *("FW102", "FW103", "FW201", "FW202", "FW203", "FW205", "FW206", "FW207", "FW208"),
        *("FW401", "FW402", "FW404", "FW405", "FW601", "FW602", "FW603", "FW604", "FW605"),
    )
)
# So many of the turns must show a rewrite; a conversation may be taken for another now and then.
_LEAST_SEEN = 0.02
_LEAST_PRECISE_SHARE = 0.0005
_LEAST_SHARE = 0.01
# Repairs move text, and with it where pages end: less than this on average is only rounding.
_LEAST_PAGES_EACH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What is known of a log when its causes are judged."""

    table: RequestTable
    loose: LooseTexts
    links: Sequence[Link | None]
    answers: Sequence[int | None]
    measure: Measure
    page_size: int

    def repair(self, group: Group, causes: Collection[Cause]) -> GroupRepair:
        """Repairs of a group's requests for those causes."""
        return GroupRepair(self.table, self.loose, group, self.links, causes)

    def step(self, request: int, repair: GroupRepair | None = None) -> ReplayStep:
        """A request for the replay, as sent or repaired."""
        prompt = self.table.prompt(request) if repair is None else repair.prompt(request)
        answer = self.answers[request]
        if repair is not None:
            answer = repair.answer(answer)
        return ReplayStep(
            self.table.salt(request), self.measure.chain(prompt), self._kept(prompt, answer)
        )

    def _kept(self, prompt: LogPrompt, answer: int | None) -> PageChain | None:
        return None if answer is None else self.measure.chain_with_answer(prompt, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A cause with its price: `lost` tokens computed again by `tried` requests.

    `affected` of them lose anything, on average `each` tokens; `full` of them a page or more.
    """

    cause: Cause
    lost: int
    affected: int
    each: int
    full: int
    tried: int


def judge(analysis: Analysis, group: Group, causes: Sequence[Cause]) -> list[Judged]:
    """The causes that cost something, with what they cost."""
    trial = Group(requests=group.requests[:_TRIAL_REQUESTS])
    while causes:
        repaired = _computed(analysis, trial, causes)
        judged = [_judged(analysis, trial, causes, cause, repaired) for cause in causes]
        kept = [one for one in judged if _counts(one, repaired, analysis)]
        if len(kept) == len(causes):
            return kept
        causes = [one.cause for one in kept]
    return []


def _judged(
    analysis: Analysis, trial: Group, causes: Sequence[Cause], cause: Cause, repaired: Replay
) -> Judged:
    if cause.code == "FW504":
        return _duplicates(analysis, trial, cause)
    together = [other for other in causes if _share_a_repair(cause, other)]
    share = cause.seen / sum(other.seen for other in together)
    without = _computed(analysis, trial, [other for other in causes if other not in together])
    lost = [
        (sent - sent_hit) - (mended - mended_hit)
        for sent, sent_hit, mended, mended_hit in zip(
            without.prompt, without.cached, repaired.prompt, repaired.cached, strict=True
        )
    ]
    losing = sum(1 for tokens in lost if tokens > 0)
    full = sum(1 for tokens in lost if tokens >= analysis.page_size)
    return Judged(
        cause=cause,
        lost=round(share * sum(lost)),
        affected=max(1, round(share * losing)),
        each=round(sum(lost) / max(1, losing)),
        full=round(share * full),
        tried=len(trial.requests),
    )


def _share_a_repair(cause: Cause, other: Cause) -> bool:
    """Whether two causes go away by one repair: a history that is kept has been kept from both."""
    if cause is other:
        return True
    return cause.part == other.part == HISTORY and "FW107" not in (cause.code, other.code)


def _computed(analysis: Analysis, trial: Group, causes: Sequence[Cause]) -> Replay:
    repair = analysis.repair(trial, causes) if causes else None
    steps = (analysis.step(request, repair) for request in trial.requests)
    return replay(steps, num_requests=len(trial.requests), page_size=analysis.page_size)


def _duplicates(analysis: Analysis, trial: Group, cause: Cause) -> Judged:
    """Text sent twice is computed twice, whatever is cached; estimated from its bytes."""
    tokens = len(cause.one.encode(errors="replace")) // 4
    affected = round(len(trial.requests) * cause.seen / cause.compared)
    return Judged(
        cause=cause,
        lost=tokens * affected,
        affected=affected,
        each=tokens,
        full=affected,
        tried=len(trial.requests),
    )


def _counts(judged: Judged, repaired: Replay, analysis: Analysis) -> bool:
    total = max(1, sum(repaired.prompt))
    if judged.lost < analysis.page_size or judged.tried < _LEAST_REQUESTS:
        return False
    if judged.cause.part == HISTORY and judged.cause.seen < _LEAST_SEEN * judged.cause.compared:
        return False
    if judged.cause.code in _PRECISE and judged.cause.part in (HEAD, TOOLS, HISTORY):
        return judged.lost >= _LEAST_PRECISE_SHARE * total
    if judged.cause.part == FIRST and judged.full < 2:
        return False
    each = judged.lost / judged.tried
    return each >= _LEAST_PAGES_EACH * analysis.page_size and judged.lost >= _LEAST_SHARE * total
