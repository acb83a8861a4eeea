"""Every prompt token of every request: re-used, lost for a reason, or new.

The accountant is asked before a request is sent what of it earlier requests have left, and told
after it what the engine re-used. It decides what became of the rest, and teaches the prefix index
and the lineages what the request has left in its turn. Pure: time is given, nothing waits.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from cache.accounting_losses import EngineRules, Evidence, is_contradicted, predicted_tokens
from cache.accounting_pieces import Piece, pieces_of
from cache.accounting_result import (
    accounting_of,
    for_client,
    is_whole,
    nothing_lost,
    unknown_accounting,
)
from cache.accounting_values import Expectation, Outcome, PrefixIndex, SentPrompt
from cache.divergence import ComparedPrompt, compare
from cache.lineage import EarlierPrompt, LineageKey, Lineages
from cache.page_keys import KEY_BYTES, PageKeys
from cache.prefix_match import Match
from cache.verdicts import Accounting

__all__ = [
    "Accountant",
    "EngineRules",
    "Expectation",
    "Outcome",
    "Piece",
    "SentPrompt",
    "for_client",
    "pieces_of",
]

_MOST_RIVALS = 128


class Accountant:
    """Accounts for the requests of one gateway. One event loop owns it."""

    def __init__(self, index: PrefixIndex, *, max_lineages: int = 10_000) -> None:
        self._index = index
        self._lineages = Lineages(max_prompts=max_lineages)
        # By salt, in the order in which they were sent.
        self._flying: defaultdict[str, dict[Expectation, None]] = defaultdict(dict)

    @property
    def lineages(self) -> Lineages:
        """The earlier prompts that are kept."""
        return self._lineages

    def expect(
        self,
        prompt: SentPrompt,
        rules: EngineRules,
        *,
        keys: PageKeys | None = None,
        match: Match | None = None,
    ) -> Expectation:
        """What should be re-used of a prompt that is sent now.

        `keys` and `match` are the index's own of this prompt at `sent_at`, where they are known.
        """
        if keys is None:
            keys = self._index.keys(prompt.packed)
        if match is None:
            match = self._index.match(keys, salt=prompt.salt, sent_at=prompt.sent_at)
        self._index.sent(keys, salt=prompt.salt, replica=prompt.replica, at=prompt.sent_at)
        tokens, whole = prompt.tokens, match.left * rules.page_tokens
        rivals = self._rivals(prompt.salt, keys) if match.racing > match.left else []
        lineage = LineageKey(prompt.salt, prompt.template.partition("@")[0], prompt.collection)
        expectation = Expectation(
            prompt=prompt,
            lineage=lineage,
            tokens=tokens,
            rules=rules,
            keys=keys,
            match=match,
            recollection=self._lineages.recall(lineage, prompt.pieces, prompt.packed),
            ideal_tokens=whole if whole < tokens else rules.limit(tokens),
            predicted_tokens=predicted_tokens(match, rules, replica=prompt.replica, tokens=tokens),
            rivals=rivals,
        )
        self._flying[prompt.salt][expectation] = None
        if rivals:
            _be_a_rival(expectation)
        return expectation

    def first_token(self, expectation: Expectation, at: float) -> None:
        """The answer has begun: the prompt's whole pages are computed and stay."""
        if not expectation.computed:
            self._computed(expectation, expectation.keys, at)

    def _computed(self, expectation: Expectation, keys: PageKeys, at: float) -> None:
        """The pages that `keys` name are there; the prompt's own, or with the answer's."""
        expectation.computed = True
        prompt = expectation.prompt
        if expectation.rivals:
            expectation.lost_races = tuple(
                [
                    (other.prompt.replica, pages)
                    for other, pages in expectation.rivals
                    if other.computed
                ]
            )
        self._index.computed(keys, salt=prompt.salt, replica=prompt.replica, at=at)
        expectation.learnt = EarlierPrompt(
            request_id=prompt.request_id,
            template=prompt.template,
            opening=prompt.opening,
            rest=prompt.packed[len(prompt.opening) :],
            pieces=prompt.pieces,
            tails=expectation.recollection.tails,
            session=prompt.session,
        )
        self._lineages.learn(expectation.lineage, expectation.learnt)

    def withdraw(self, expectation: Expectation) -> None:
        """The replica didn't take the request: nothing of it was computed there."""
        prompt = expectation.prompt
        self._landed(expectation)
        expectation.rivals = []
        self._index.gave_up(expectation.keys, salt=prompt.salt, replica=prompt.replica)

    def awaits_events(self, expectation: Expectation, cached_tokens: int) -> bool:
        """Whether KV events on their way may yet tell why so little was re-used.

        So it is where more was resident when the request was sent, and nothing is known to have
        happened to it since.
        """
        prompt, rules = expectation.prompt, expectation.rules
        here = expectation.match.replicas.get(prompt.replica)
        if not rules.kv_events or here is None or here.resident is None:
            return False
        held = min(here.left, here.resident) * rules.page_tokens
        if cached_tokens >= min(held, expectation.ideal_tokens):
            return False
        late = self._index.match(expectation.keys, salt=prompt.salt, sent_at=prompt.sent_at)
        return not is_contradicted(late.replicas[prompt.replica], prompt.sent_at)

    def settle(self, expectation: Expectation, outcome: Outcome) -> Accounting:
        """What became of the prompt's tokens; call it once, when the request has ended."""
        prompt, rules, output = expectation.prompt, expectation.rules, outcome.output_ids
        left = None
        if outcome.completed:
            # Prompt and output, but for the last token, are in the engine's cache now.
            left, tokens = expectation.keys, expectation.tokens + len(output or ()) - 1
            if output and tokens // rules.page_tokens > len(left.packed) // KEY_BYTES:
                ids = prompt.packed + array("I", output[:-1]).tobytes()
                left = self._index.extended(left, ids)
        is_told = False
        if outcome.first_token_at is not None:
            self.first_token(expectation, outcome.first_token_at)
        elif left is not None and not expectation.computed:
            # It came in one piece, so that all of it is told at once; but not where the index will
            # be asked again what became of the prompt.
            is_told = (outcome.cached_tokens or 0) >= expectation.ideal_tokens
            keys = left if is_told else expectation.keys
            self._computed(expectation, keys, outcome.ended_at)
        self._landed(expectation)
        recollection, learnt = expectation.recollection, expectation.learnt
        if recollection.candidates:
            new = ComparedPrompt(
                prompt.template, prompt.packed, prompt.pieces, prompt.session, prompt.opening
            )
            comparison = expectation.comparison = compare(new, recollection)
            if comparison is not None:
                self._lineages.compared(comparison.earlier, learnt)
        cached = outcome.cached_tokens
        if cached is None or cached > expectation.tokens:
            accounting = unknown_accounting(expectation, outcome)
        elif is_whole(expectation, cached):
            accounting = nothing_lost(expectation, cached)
        else:
            accounting = accounting_of(expectation, self._evidence(expectation, outcome, cached))
        self._teach(expectation, outcome, None if is_told else left)
        if left is not None:
            # A whole answer leaves something beside the engine's own cache too.
            if rules.chunk_tokens is not None and outcome.tiers_known and not outcome.tiers_skipped:
                self._index.tiered(left, salt=prompt.salt, at=outcome.ended_at, tier=rules.tier)
            if learnt is not None and output:
                self._lineages.answered(learnt, array("I", output).tobytes())
        expectation.rivals = []
        return accounting

    def forget_salt(self, salt: str) -> None:
        """Drop the earlier prompts of a salt."""
        self._flying.pop(salt, None)
        self._lineages.forget_salt(salt)

    def _rivals(self, salt: str, keys: PageKeys) -> list[tuple[Expectation, int]]:
        """The latest requests under way that compute the same pages, and how many of them."""
        latest = list(self._flying[salt])[-_MOST_RIVALS:]
        flying = [other for other in latest if not other.computed]
        shared = [(other, keys.shared(other.keys)) for other in flying]
        return [(other, pages) for other, pages in shared if pages]

    def _landed(self, expectation: Expectation) -> None:
        salt = expectation.prompt.salt
        flying = self._flying.get(salt)
        if flying is not None:
            flying.pop(expectation, None)
            if not flying:
                del self._flying[salt]

    def _evidence(self, expectation: Expectation, outcome: Outcome, cached: int) -> Evidence:
        prompt, late = expectation.prompt, None
        if cached < expectation.ideal_tokens:
            late = self._index.match(expectation.keys, salt=prompt.salt, sent_at=prompt.sent_at)
        return Evidence(
            tokens=expectation.tokens,
            cached=cached,
            storage=_from_tiers(expectation, outcome, cached),
            rules=expectation.rules,
            replica=prompt.replica,
            sent_at=prompt.sent_at,
            match=expectation.match,
            late=late,
            lost_races=expectation.lost_races,
            tiers_skipped=bool(outcome.tiers_skipped),
            events_heard=outcome.events_heard,
        )

    def _teach(self, expectation: Expectation, outcome: Outcome, left: PageKeys | None) -> None:
        """Tell the index what the request has left, as far as it doesn't know."""
        prompt, keys = expectation.prompt, expectation.keys
        if not expectation.computed:
            self._index.gave_up(keys, salt=prompt.salt, replica=prompt.replica)
        elif left is not None and len(left.packed) > len(keys.packed):
            self._index.computed(
                left, salt=prompt.salt, replica=prompt.replica, at=outcome.ended_at
            )
        self._index.served(
            keys,
            salt=prompt.salt,
            prompt_tokens=expectation.tokens,
            cached_tokens=outcome.cached_tokens,
            labels=partial(_labels, prompt.template, prompt.pieces),
        )


def _from_tiers(expectation: Expectation, outcome: Outcome, cached: int) -> int:
    """Tokens that the tiers served; of an aborted stream, at least what the GPU didn't have."""
    if outcome.cached_storage is not None:
        return outcome.cached_storage
    had = expectation.match.replicas.get(expectation.prompt.replica)
    if had is None or had.resident is None:
        return 0
    return max(0, cached - had.resident * expectation.rules.page_tokens)


def _be_a_rival(expectation: Expectation) -> None:
    """To those who compute the same on this replica: it may be ready before they are.

    Of two that compute the same, the one whose first token comes last did it again, be it the one
    that was sent first.
    """
    for rival, pages in expectation.rivals:
        here = rival.prompt.replica == expectation.prompt.replica
        if here and len(rival.rivals) < 2 * _MOST_RIVALS:
            rival.rivals.append((expectation, pages))


def _labels(template: str, pieces: Sequence[Piece]) -> list[tuple[int, str]]:
    """What the prefix flame calls the parts of a prompt, by the token at which they start."""
    labels = [(0, template)]
    last: str | None = None
    for piece in pieces:
        if piece.document is not None and not piece.message:
            labels.append((piece.start, piece.document))
        elif piece.segment != last:
            labels.append((piece.start, piece.segment))
        last = piece.segment
    return labels
