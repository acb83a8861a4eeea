"""Every prompt token of every request: re-used, lost for a reason, or new.

The accountant is asked before a request is sent what of it earlier requests have left, and told
after it what the engine re-used. It decides what became of the rest, and teaches the prefix index
and the lineages what the request has left in its turn. Pure: time is given, nothing waits.
"""

from array import array
from collections import defaultdict

from cache.accounting_losses import EngineRules, Evidence, is_contradicted, predicted_tokens
from cache.accounting_pieces import Piece, pieces_of
from cache.accounting_result import accounting_of, for_client, unknown_accounting
from cache.accounting_values import Expectation, Outcome, PrefixIndex, SentPrompt
from cache.divergence import ComparedPrompt, compare
from cache.lineage import EarlierPrompt, LineageKey, Lineages
from cache.page_keys import PageKeys
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

    def expect(self, prompt: SentPrompt, rules: EngineRules) -> Expectation:
        """What should be re-used of a prompt that is sent now."""
        packed = prompt.packed or array("I", prompt.token_ids).tobytes()
        ids = array("I")
        ids.frombytes(packed)
        keys = self._index.keys(ids)
        match = self._index.match(keys, salt=prompt.salt, sent_at=prompt.sent_at)
        self._index.sent(keys, salt=prompt.salt, replica=prompt.replica, at=prompt.sent_at)
        tokens = len(prompt.token_ids)
        rivals = self._rivals(prompt.salt, keys) if match.racing > match.left else []
        expectation = Expectation(
            prompt=prompt,
            rules=rules,
            packed=packed,
            keys=keys,
            match=match,
            recollection=self._lineages.recall(_lineage(prompt), prompt.pieces, packed),
            ideal_tokens=min(match.left * rules.page_tokens, rules.limit(tokens)),
            predicted_tokens=predicted_tokens(match, rules, replica=prompt.replica, tokens=tokens),
            rivals=rivals,
        )
        self._flying[prompt.salt][expectation] = None
        _be_a_rival(expectation)
        return expectation

    def first_token(self, expectation: Expectation, at: float) -> None:
        """The answer has begun: the prompt's whole pages are computed and stay."""
        if expectation.computed:
            return
        expectation.computed = True
        prompt = expectation.prompt
        expectation.lost_races = tuple(
            [(rival.prompt.replica, pages) for rival, pages in expectation.rivals if rival.computed]
        )
        self._index.computed(expectation.keys, salt=prompt.salt, replica=prompt.replica, at=at)
        self._learn(expectation)

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
        began_at = outcome.first_token_at
        if began_at is None and outcome.completed:
            began_at = outcome.ended_at
        if began_at is not None:
            self.first_token(expectation, began_at)
        self._landed(expectation)
        self._compare(expectation)
        accounting = self._account(expectation, outcome)
        self._teach(expectation, outcome)
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
        flying = self._flying.get(salt, {})
        flying.pop(expectation, None)
        if not flying:
            self._flying.pop(salt, None)

    def _compare(self, expectation: Expectation) -> None:
        prompt = expectation.prompt
        new = ComparedPrompt(prompt.template, expectation.packed, prompt.pieces, prompt.session)
        expectation.comparison = compare(new, expectation.recollection)
        if expectation.comparison is not None:
            self._lineages.compared(expectation.comparison.earlier, expectation.learnt)

    def _learn(self, expectation: Expectation) -> None:
        prompt = expectation.prompt
        expectation.learnt = EarlierPrompt(
            request_id=prompt.request_id,
            template=prompt.template,
            packed=expectation.packed,
            pieces=prompt.pieces,
            tails=expectation.recollection.tails,
            session=prompt.session,
        )
        self._lineages.learn(_lineage(prompt), expectation.learnt)

    def _account(self, expectation: Expectation, outcome: Outcome) -> Accounting:
        cached = outcome.cached_tokens
        if cached is None or cached > expectation.tokens:
            return unknown_accounting(expectation, outcome)
        return accounting_of(expectation, self._evidence(expectation, outcome, cached))

    def _evidence(self, expectation: Expectation, outcome: Outcome, cached: int) -> Evidence:
        prompt = expectation.prompt
        late = None
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

    def _teach(self, expectation: Expectation, outcome: Outcome) -> None:
        """Tell the index what the request has left, and the lineage its answer."""
        prompt, keys = expectation.prompt, expectation.keys
        if not expectation.computed:
            self._index.gave_up(keys, salt=prompt.salt, replica=prompt.replica)
        elif outcome.completed:
            self._left(expectation, outcome)
        self._index.served(
            keys,
            salt=prompt.salt,
            prompt_tokens=expectation.tokens,
            cached_tokens=outcome.cached_tokens,
            labels=_labels(prompt),
        )

    def _left(self, expectation: Expectation, outcome: Outcome) -> None:
        """A whole answer: prompt and output, but for the last token, are in the engine's cache."""
        prompt, keys, rules = expectation.prompt, expectation.keys, expectation.rules
        output = array("I", outcome.output_ids or ())
        if (expectation.tokens + len(output) - 1) // rules.page_tokens > len(keys):
            ids = array("I")
            ids.frombytes(expectation.packed)
            ids.extend(output[:-1])
            keys = self._index.keys(ids)
            self._index.computed(
                keys, salt=prompt.salt, replica=prompt.replica, at=outcome.ended_at
            )
        if rules.chunk_tokens is not None and outcome.tiers_known and not outcome.tiers_skipped:
            self._index.tiered(keys, salt=prompt.salt, at=outcome.ended_at)
        if expectation.learnt is not None and output:
            self._lineages.answered(expectation.learnt, output.tobytes())


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


def _lineage(prompt: SentPrompt) -> LineageKey:
    return LineageKey(prompt.salt, prompt.template.partition("@")[0], prompt.collection)


def _labels(prompt: SentPrompt) -> list[tuple[int, str]]:
    """What the prefix flame calls the parts of a prompt, by the token at which they start."""
    labels = [(0, prompt.template)]
    last: str | None = None
    for piece in prompt.pieces:
        if piece.document is not None and not piece.message:
            labels.append((piece.start, piece.document))
        elif piece.segment != last:
            labels.append((piece.start, piece.segment))
        last = piece.segment
    return labels
