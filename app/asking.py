"""A request with what was looked up for it, and the prompt that comes of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import anyio.from_thread

from app.aside import LONG_CHARACTERS
from app.context import Asked, Context, find_context
from app.conversations import note_own_ids
from app.errors import ContextLengthError, InvalidRequestError
from app.given_values import filled_values, own_values
from app.hot.stems import StemKey, messages_json, stem_key
from app.making import MadePrompt, gone_on, make_prompt, too_long
from app.messages import own_messages
from app.replica_view import ReplicaView
from app.salts import Salts
from app.schemas import ChatCompletionRequest, ForewordOptions, split_messages
from app.services import Services
from app.stored.records import Resumption
from app.turn_text import TurnWriter
from cache.prefix_index import PrefixIndex
from prompts import Message, Prompt, RenderedSegment, Template, Tool, render
from prompts.errors import ChatTemplateError, TooManyTokensError
from prompts.records import record
from prompts.render import Value

NO_CONTEXT = Context()


@record
class Asking:
    """A request with what was looked up for it."""

    services: Services
    view: ReplicaView
    request: ChatCompletionRequest
    options: ForewordOptions
    template: Template
    tools: tuple[Tool, ...]
    tenant: str
    salt_of: Callable[[str | None], str]
    resumption: Resumption | None = None

    def stem_key(self) -> StemKey | None:
        """What all but the last message is known by; None where more than messages goes in."""
        options = self.options
        if options.collection is not None or options.mode is not None or options.variables:
            return None
        return stem_key(
            self.view, self.template, self.request, salt=self.salt_of(None), tools=self.tools
        )

    async def from_stem(self, key: StemKey) -> MadePrompt | None:
        """The prompt, where one began like it lately, or like it but for a turn."""
        content = self.request.messages[-1].text
        if len(content) >= LONG_CHARACTERS:
            return None
        services = self.services
        tokenized = services.stems.prompt(key, self.template, content)
        if tokenized is None and (turn := services.stems.turn(key, self.template, content)):
            tokenized = services.stems.gone_on(key, turn, services.conversations)
        if tokenized is None:
            return None
        return await gone_on(
            services.aside,
            services.conversations,
            self.view,
            tokenized,
            salt=key.salt,
            characters=len(content),
            resumption=self.resumption,
        )

    def met(self, key: StemKey, made: MadePrompt) -> None:
        """The whole prompt was made: of a conversation that goes on, its beginning is kept."""
        tokenizer, stems = self.view.tokenizer, self.services.stems
        if made.tokenized is None or tokenizer is None:
            return
        content = self.request.messages[-1].text
        # Where the stem before it was no help, the next one wouldn't be either.
        at_once = "assistant" in key.given[::2] and not stems.turn(key, self.template, content)
        stem = stems.met(key, tokenizer, made.tokenized, content, at_once=at_once)
        if stem is not None and made.transcript is not None:
            note_own_ids(stem, made.transcript)


def salts_of(
    salts: Salts, resumption: Resumption | None, *, tenant: str, adapter: str | None
) -> Callable[[str | None], str]:
    """What gives the salt of a request that shows a collection, or none."""
    if resumption is None or resumption.own_salt is None:
        return partial(salts.of, tenant, adapter=adapter)
    own = salts.of(tenant, resumption.own_salt, adapter=adapter)

    def only_its_own(collection_id: str | None) -> str:
        if collection_id is None:
            return own
        raise InvalidRequestError(
            "an isolated conversation's KV is kept apart from all other, and a collection's is "
            "shared; ask about the collection in another conversation",
            param="foreword.collection",
        )

    return only_its_own


async def made_anew(asking: Asking) -> tuple[MadePrompt, Context, object]:
    """The prompt with what was found for it, and its messages as the engine takes them."""
    services, view, request = asking.services, asking.view, asking.request
    template, options, salt_of = asking.template, asking.options, asking.salt_of
    instructions, conversation = split_messages(request.messages)
    own = own_values(template, options, instructions)

    async def made_of(context: Context) -> MadePrompt:
        values = own | filled_values(template, conversation, context)
        salt = salt_of(context.collection_id)
        return await make_prompt(
            services.aside,
            services.conversations,
            view,
            request,
            template,
            values,
            tools=asking.tools,
            salt=salt,
            resumption=asking.resumption,
        )

    context = NO_CONTEXT
    if options.collection is not None or options.mode is not None:
        asked = Asked(
            tenant=asking.tenant,
            options=options,
            conversation=conversation,
            template=template.reference,
            writer=TurnWriter(template, own),
            room_tokens=request.completion_limit or 1,
            count=_count(view),
            cached=_cached(services, view, template, own, conversation, salt_of),
        )
        try:
            context = await find_context(services, asked)
        except TooManyTokensError as error:
            raise too_long(view, request) from error
    made = None
    try:
        made = await made_of(context)
    except ContextLengthError:
        if context.retrieved is None:
            raise
    if made is None or (context.retrieved is not None and _is_too_long(view, request, made)):
        assert context.retrieved is not None
        context = await context.retrieved()
        made = await made_of(context)
    if made.tokenized is not None:
        return made, context, messages_json(made.prompt, None)
    prompt = _without_controls(view, made.prompt, with_excerpts=context.history is not None)
    made = replace(made, prompt=prompt)
    return made, context, own_messages(view.tokenizer, request, prompt, len(conversation))


def _count(view: ReplicaView) -> Callable[[str], int] | None:
    """Tokens of a text that may be shown; None where only the engine can count."""
    if view.tokenizer is None:
        return None
    return partial(view.tokenizer.count, limit=view.info.context_tokens)


def _cached(
    services: Services,
    view: ReplicaView,
    template: Template,
    own: Mapping[str, Value],
    conversation: tuple[Message, ...],
    salt_of: Callable[[str | None], str],
) -> Callable[[Context], int] | None:
    """How many leading tokens are cached of the prompt that a context makes.

    To be called in a worker thread: the prefix index belongs to the event loop.
    """
    index, tokenizer = services.accounting.index, view.tokenizer
    limit = view.info.context_tokens
    if index is None or tokenizer is None or not view.parity.ok:
        return None

    def cached(context: Context) -> int:
        values = {**own, **filled_values(template, conversation, context)}
        try:
            packed = tokenizer.tokenize(render(template, values), limit=limit).packed
        except (ChatTemplateError, TooManyTokensError):
            return 0
        salt = salt_of(context.collection_id)
        return anyio.from_thread.run_sync(_matched, index, packed, salt)

    return cached


def _matched(index: PrefixIndex, packed: bytes, salt: str) -> int:
    """Leading tokens that requests of this salt left anywhere, as far as is known."""
    found = index.match(index.keys(packed), salt=salt, sent_at=time.monotonic())
    return found.racing * index.page_tokens


def _without_controls(view: ReplicaView, prompt: Prompt, *, with_excerpts: bool) -> Prompt:
    """For an engine that tokenizes itself: what documents spell of its control tokens is broken up.

    It would take them for its own; people's messages that spell one are refused instead, unless
    they are earlier ones `with_excerpts`.
    """
    tokenizer = view.tokenizer
    if tokenizer is None:
        return prompt
    broken_up = tokenizer.control.broken_up
    segments: list[RenderedSegment] = []
    for segment in prompt.segments:
        if segment.documents:
            segment = replace(segment, text=broken_up(segment.text))
        elif with_excerpts:
            shown = [
                replace(m, content=broken_up(m.content)) if m.role == "user" else m
                for m in segment.expanded
            ]
            segment = replace(segment, expanded=tuple(shown))
        segments.append(segment)
    return replace(prompt, segments=tuple(segments))


def _is_too_long(view: ReplicaView, request: ChatCompletionRequest, made: MadePrompt) -> bool:
    if made.tokenized is None:
        return False
    needed = made.tokenized.tokens + (request.completion_limit or 1)
    return needed > view.info.context_tokens
