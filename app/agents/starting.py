"""Runs begun, picked up where they were left, and handed on to sub-agents."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING

import anyio

from app.accounts import JSONObject
from app.agents.builtin import built_in, shelf_of
from app.agents.checking import check_agent
from app.agents.children import child_of
from app.agents.deciding import decided
from app.agents.history import RunHistory
from app.agents.keeping import RootKeeper
from app.agents.loop import RunStatus
from app.agents.records import RunRecord, StepRecord
from app.agents.request import limits_of, step_request
from app.agents.run import AgentRun
from app.agents.store import RunLostError
from app.agents.toolbox import Toolbox, open_toolbox
from app.agents.tools import Tool
from app.agents.writer import RunWriter
from app.errors import EngineError
from app.hot.departure import shielded
from app.prepare import public_model
from app.responses.bodies import ResponsesRequest
from app.responses.objects import Frame
from app.services import Services
from app.stored.compaction import compact_if_due
from app.stored.items import input_items
from app.stored.records import Conversation, Said, SaidItem
from app.stored.turn import Turn
from prompts.agent import Agent, BuiltInTool

if TYPE_CHECKING:
    from app.responses.running import Asked


async def agent_events(asked: "Asked") -> AsyncGenerator[JSONObject]:
    """The events of a response that an agent makes; see `response_events`.

    The same response asked for again goes on where it was left.

    Raises:
        GatewayError, PromptError, RetrievalError: before the first event; it can't be begun.
        RunLostError: another gateway works on it.
    """
    services, agents = asked.services, asked.services.agents
    services.metrics.in_flight.inc()
    try:
        async with AsyncExitStack() as stack:
            run = await _run_of(asked, stack)
            agents.works_on(run)
            try:
                async with aclosing(run.events()) as events:
                    async for event in events:
                        yield event
            finally:
                agents.live.pop(run.record.id, None)
                with shielded(None):
                    await _left(asked, run)
                if run.status is RunStatus.IN_PROGRESS:
                    agents.changed()  # somebody may have to go on with it, or to give it up
        if run.status is RunStatus.INTERRUPTED and run.record.driven:
            await decided(agents, run.record.id)
            async with aclosing(agent_events(asked)) as events:
                async for event in events:
                    yield event
    finally:
        services.metrics.in_flight.dec()


async def _left(asked: "Asked", run: AgentRun) -> None:
    """A run that hasn't ended: whoever comes next may go on, unless its client has gone.

    Of a run that never began nothing is left.
    """
    agents, departure = run.agents, asked.account.departure
    if run.status is not RunStatus.IN_PROGRESS:
        return
    if run.has_begun:
        if departure is not None and departure.gone:
            await run.give_up()
        else:
            await anyio.to_thread.run_sync(agents.store.let_go, run.record.id)
        return
    conversation_id = run.record.conversation_id
    if conversation_id is not None:
        leave = partial(run.services.stored.leave_turn, conversation_id, run.record.id)
        await anyio.to_thread.run_sync(leave)
    await anyio.to_thread.run_sync(agents.store.forget, run.record.id)


async def _run_of(asked: "Asked", stack: AsyncExitStack) -> AgentRun:
    agents = asked.services.agents
    known = await anyio.to_thread.run_sync(agents.store.find, asked.response_id)
    if known is None:
        return await _fresh(asked, stack)
    if known.status is RunStatus.INTERRUPTED:
        await decided(agents, known.id)
    taken = await anyio.to_thread.run_sync(agents.store.take, asked.response_id)
    if taken is None:
        raise RunLostError(asked.response_id)
    try:
        return await _resumed(asked, taken, stack)
    except BaseException:
        with shielded(None):
            await anyio.to_thread.run_sync(agents.store.let_go, taken.id)
        agents.changed()
        raise


async def _fresh(asked: "Asked", stack: AsyncExitStack) -> AgentRun:
    services, agents, body = asked.services, asked.services.agents, asked.body
    agent = await check_agent(services, body, tenant=asked.caller.tenant)
    toolbox = await _toolbox(services, agent, body, stack)
    items = input_items(body.input)
    request = step_request(body, agent, toolbox.specs)
    turn = await Turn.begin(
        services,
        request.model_copy(update={"input": body.input}),
        asked.account,
        response_id=asked.response_id,
    )
    try:
        if turn.conversation is not None and turn.conversation.compaction is not None:
            async with services.admission.admit(asked.caller, cost_tokens=0) as ticket:
                asked.account.ticket = ticket
                turn.messages()  # the account learns what the summary's prompt goes on from
                await compact_if_due(turn)
        record = RunRecord(
            id=asked.response_id,
            tenant=asked.caller.tenant,
            agent=agent.name,
            created_at=asked.created_at,
            request=body.model_dump(mode="json", by_alias=True, exclude_none=True),
            input=[dict(item.item) for item in items],
            conversation_id=body.conversation_id,
            driven=bool(body.background),
            compacted=asked.account.compaction,
        )
        await anyio.to_thread.run_sync(agents.store.begin, record)
    except BaseException:
        with shielded(None):
            await turn.leave()
        raise
    # From now on the run has the conversation, whichever gateway works on it.
    services.turns_alive.ended(asked.response_id)
    history = RunHistory(before=turn.said, asked=items, own_salt=_own_salt(turn.conversation))
    return _made(asked, agent, record, request, toolbox, history)


async def _resumed(asked: "Asked", record: RunRecord, stack: AsyncExitStack) -> AgentRun:
    services, agents, body = asked.services, asked.services.agents, asked.body
    agent = agents.library.find(record.agent)
    toolbox = await _toolbox(services, agent, body, stack)

    def read() -> tuple[Said, Conversation | None, list[StepRecord]]:
        steps, tenant = agents.store.steps(record.id), record.tenant
        if body.conversation_id is not None:
            conversation, said = services.stored.read_said(body.conversation_id, tenant=tenant)
            return said, conversation, steps
        if body.previous_response_id is not None:
            previous = services.stored_responses.said(body.previous_response_id, tenant=tenant)
            return Said(items=previous), None, steps
        return Said(), None, steps

    said, conversation, steps = await anyio.to_thread.run_sync(read)
    history = RunHistory(
        before=said,
        asked=[SaidItem(item=item) for item in record.input],
        own_salt=_own_salt(conversation),
        steps=steps,
    )
    request = step_request(body, agent, toolbox.specs)
    return _made(asked, agent, record, request, toolbox, history, is_resumed=True)


def _made(
    asked: "Asked",
    agent: Agent,
    record: RunRecord,
    request: ResponsesRequest,
    toolbox: Toolbox,
    history: RunHistory,
    *,
    is_resumed: bool = False,
) -> AgentRun:
    services, body = asked.services, asked.body
    frame = Frame(
        id=record.id,
        model=_model(services, request),
        created_at=int(record.created_at),
        request=body.model_copy(update={"tools": request.tools}),
    )
    writer = RunWriter(frame, [dict(each.item) for each in history.own])
    writer.compacted = record.compacted
    return AgentRun(
        agents=services.agents,
        services=services,
        agent=agent,
        limits=limits_of(agent, body),
        record=record,
        caller=asked.caller,
        request=request,
        toolbox=toolbox,
        history=history,
        writer=writer,
        keeper=RootKeeper(asked),
        is_resumed=is_resumed,
        cancelled=record.cancelled,
        tells_sub_agents=body.foreword is not None and body.foreword.sub_agents,
        make_child=child_of,
    )


async def _toolbox(
    services: Services, agent: Agent, body: ResponsesRequest, stack: AsyncExitStack
) -> Toolbox:
    def builtin(entry: BuiltInTool) -> Tool:
        settings = services.settings.retrieval
        return built_in(entry, shelf_of(services.collections, settings, entry, body.foreword))

    agents = services.agents
    family = agents.library.family(agent)
    return await open_toolbox(family, stack, builtin=builtin, servers=agents.servers)


def _own_salt(conversation: Conversation | None) -> str | None:
    return conversation.id if conversation is not None and conversation.isolated else None


def _model(services: Services, request: ResponsesRequest) -> str:
    """As clients see it, where there is an engine to ask."""
    try:
        return public_model(services, services.fleet.view())
    except EngineError:
        return request.model
