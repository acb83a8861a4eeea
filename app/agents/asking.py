"""One step of a run at the engine: sent as any request is, and written down when it is answered."""

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
from starlette.requests import HTTPConnection

from app.accounts import Account
from app.admission.admitting import admit
from app.agents.loop import Ask, Step
from app.agents.records import StepRecord, calls_of
from app.agents.totals import step_report
from app.pipeline import begin, open_account, open_stream
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.schemas import ChatCompletionRequest
from app.stored.records import packed
from app.stored.tool_marks import marked
from app.upstream import UpstreamResponse

if TYPE_CHECKING:
    from app.agents.run import AgentRun


async def opened(
    run: "AgentRun", move: Ask
) -> tuple[ChatCompletionRequest, Account, UpstreamResponse]:
    """The step's request, which the engine has taken.

    Raises:
        GatewayError, PromptError, RetrievalError: it couldn't be sent.
    """
    account = open_account(run.services, tenant=run.caller.tenant, prefix="step_")
    try:
        messages, account.resumption = run.history.messages()
        request = step_request(run.request, move)
        allowed = frozenset(run.services.settings.gateway.extra_fields)
        chat = chat_request(request, allowed, messages)
        chat = await _admitted(run, chat, account)
        await begin(run.services, chat, account)
        if not run.steps and account.prepared is not None:
            run.history.asked = marked(
                run.history.asked, account.prepared.listed, run.history.before
            )
        return chat, account, await open_stream(run.services, account)
    except BaseException:
        if account.ticket is not None:
            account.ticket.close()
        raise


def step_request(request: ResponsesRequest, move: Ask) -> ResponsesRequest:
    """Where no call would be made any more none is demanded: the model is to answer now."""
    fields: dict[str, object] = {"max_output_tokens": move.max_tokens}
    match request.tool_choice:
        case _ if move.can_call:
            pass
        case {"type": "allowed_tools", **allowed}:
            fields["tool_choice"] = {"type": "allowed_tools", **allowed, "mode": "auto"}
        case "required" | {"type": "function"}:
            fields["tool_choice"] = "auto"
    return request.model_copy(update=fields)


async def _admitted(
    run: "AgentRun", chat: ChatCompletionRequest, account: Account
) -> ChatCompletionRequest:
    app = SimpleNamespace(state=SimpleNamespace(services=run.services))
    scope = {"type": "http", "app": app, "headers": [], "state": {"caller": run.caller}}
    said = sum(len(message.text) for message in chat.messages)
    return await admit(HTTPConnection(scope), chat, account, received_bytes=said)


async def keep_step(run: "AgentRun", account: Account) -> None:
    """Write a step down: its answer is durable before anything comes of it.

    Raises:
        RunLostError: the run is another's now.
    """
    writer, prepared = run.writer, account.prepared
    items = writer.step_items
    ids = account.output_ids
    tokenizer = prepared.tokenizer.identity if prepared and prepared.tokenizer else None
    tokens = writer.usage.get("completion_tokens")
    step = StepRecord(
        number=len(run.steps),
        items=items,
        step=Step(
            finish=writer.finish,
            tokens=len(ids or ()) if tokens is None else tokens,
            calls=tuple(calls_of(items, run.toolbox.idempotent(run.agent.name))),
        ),
        report=step_report(writer.usage, writer.block),
        output_ids=packed(ids) if ids and tokenizer else None,
        tokenizer=tokenizer,
    )
    keep = partial(
        run.agents.store.keep_step,
        run.record.id,
        step,
        seconds=run.seconds,
        asked=run.history.asked,
    )
    await anyio.to_thread.run_sync(keep)
    run.steps.append(step)
    run.services.metrics.agents.stepped(run.agent.name)
