"""A usual request that was found to be one, ready to be sent: prompt, limits and account."""

import os

from app.accounts import Account
from app.aside import LONG_CHARACTERS
from app.body_limit import HeldBodies
from app.errors import EngineError, InvalidRequestError
from app.hot.stems import StemKey, stem_json
from app.lane.desk import Desk, desk_for
from app.lane.heads import KnownHead
from app.lane.usual import LONGEST_BYTES, Usual, usual_request
from app.prepared import Prepared
from app.sampling_limits import check_sampling
from app.schemas import FORWARDED_FIELDS
from app.services import Services
from prompts import TokenizedPrompt

_BYTES_A_TOKEN = 4
_USUAL_ANSWER = 256
_ASSISTANT = "assistant"


class Asked:
    """A request that is in: its ticket is to be closed, and its bytes are no more held then.

    Attributes:
        received: bytes of its body.
        wants_usage: whether a stream ends with usage; None where the answer is no stream.
    """

    __slots__ = ("account", "desk", "head", "received", "wants_usage")

    def __init__(
        self, head: KnownHead, desk: Desk, account: Account, received: int, wants_usage: bool | None
    ) -> None:
        self.head = head
        self.desk = desk
        self.account = account
        self.received = received
        self.wants_usage = wants_usage


class Taker:
    """Finds out whether a request is a usual one, and lets it in."""

    def __init__(self, services: Services, held: HeldBodies) -> None:
        settings = services.settings
        self._services = services
        self._held = held
        self._most_held = settings.wire.held_bytes
        self._longest = min(
            LONGEST_BYTES, settings.wire.json_bytes, settings.gateway.max_body_bytes
        )
        # A usual request has no more containers in it than messages, and a few.
        self._most_texts = 2 * max(0, settings.wire.json_containers - len(FORWARDED_FIELDS) - 4)
        self._tiers = settings.engine.tiers
        self._keeps_text = settings.ledger.prompt_text
        self._forwarded = FORWARDED_FIELDS.union(settings.gateway.extra_fields)

    def take(self, head: KnownHead, body: bytes) -> Asked | None:
        """None: the request isn't sure to be a usual one, and nothing was done for it."""
        received = len(body)
        if received > self._longest or self._held.bytes + received > self._most_held:
            return None
        usual = usual_request(body)
        if usual is None or len(usual.given) > self._most_texts:
            return None
        services, caller = self._services, head.caller
        try:
            view = services.fleet.view()
        except EngineError:
            return None
        desk = head.desk
        if desk is None or desk.view is not view:
            desk = head.desk = desk_for(services, caller, view)
        if desk is None or usual.model not in desk.names or len(usual.content) >= LONG_CHARACTERS:
            return None
        if not usual.is_checked and not _is_sound(usual, desk):
            return None
        limit = usual.limit
        if limit is None:
            limit = desk.usual_output
        elif desk.most_output is not None and limit > desk.most_output:
            return None
        salt = services.salts.of(desk.tenant)
        key = StemKey(desk.reference, desk.tokenizer.identity, salt, (), usual.given)
        if not services.stems.knows(key):
            return None
        if services.tool_lists.knows(desk.tenant) and _ASSISTANT in usual.given[::2]:
            return None  # what was told of tools may have to be told again
        cost = received // _BYTES_A_TOKEN + (limit or _USUAL_ANSWER)
        if not services.admission.takes_at_once(caller, cost):
            return None
        prompt = None
        try:
            prompt = self._prompt(desk, key, usual.content, limit or 1)
        finally:  # whatever happens, nobody's place is taken for ever
            if prompt is None:
                services.admission.take_back(caller, cost)
        if prompt is None:
            return None
        account = Account(
            request_id="chatcmpl-" + os.urandom(16).hex(),
            tenant=desk.tenant,
            tiers=self._tiers,
            keeps_text=self._keeps_text,
        )
        account.ticket = services.admission.entered(caller, cost)
        account.max_prompt_tokens = desk.most_prompt
        account.prepared = self._prepared(account.request_id, usual, limit, desk, salt, prompt)
        self._held.bytes += received
        return Asked(head, desk, account, received, usual.wants_usage if usual.stream else None)

    def _prompt(
        self, desk: Desk, key: StemKey, content: str, reserved: int
    ) -> TokenizedPrompt | None:
        """The prompt, where the stem it grows out of is known, and there is room for it; None: only
        the whole way can tell."""
        services, template = self._services, desk.template
        tokenized = services.stems.prompt(key, template, content)
        if tokenized is None:
            turn = services.stems.turn(key, template, content)
            if turn is None:
                return None
            tokenized = services.stems.gone_on(key, turn, services.conversations)
            if tokenized is None:
                return None
        tokens = tokenized.tokens
        if tokens + reserved > desk.context_tokens:
            return None
        if desk.most_prompt is not None and tokens > desk.most_prompt:
            return None
        said = services.conversations.said(
            key.salt, tokenized.prompt, desk.tokenizer, tokenized.stem
        )
        if said is None or said.is_begun_by(tokenized):
            return tokenized
        return None

    def _prepared(
        self,
        request_id: str,
        usual: Usual,
        limit: int | None,
        desk: Desk,
        salt: str,
        prompt: TokenizedPrompt,
    ) -> Prepared:
        assert prompt.stem is not None
        messages, ids = stem_json(prompt, prompt.stem)
        body: dict[str, object] = {
            "model": desk.served,
            "messages": messages,
            "return_cached_tokens_details": True,
            "stream": usual.stream,
            "input_ids": ids,
            "return_output_ids_in_sglext": True,
        }
        if usual.stream:
            body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if desk.knows_priorities:
            body["priority"] = self._services.corpora.request_priority()
        if limit is not None:
            body["max_tokens"] = limit
        for name, value in usual.extras.items():
            if name in self._forwarded:
                body[name] = value
        body["rid"] = request_id
        body["cache_salt"] = salt
        return Prepared(
            request_id=request_id,
            tenant=desk.tenant,
            salt=salt,
            model=desk.public,
            template=desk.reference,
            body=body,
            labels=desk.labels,
            rendered=prompt.prompt,
            prompt=prompt,
            tokenizer=desk.tokenizer,
        )


def _is_sound(usual: Usual, desk: Desk) -> bool:
    """Whether the engine may be asked for all that the request does."""
    try:
        check_sampling(usual.extras, desk.tokenizer)
    except InvalidRequestError:
        return False
    return True
