"""A request's tools beside what is known of its conversation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.replica_view import ReplicaView
from app.schemas import ChatCompletionRequest
from app.services import Services
from app.stored.records import Resumption
from app.tool_lists import Listed, last_answer, list_tools
from app.tool_memory import tool_key
from prompts import Message, Tool
from prompts.tool_changes import ToolHistory

TEMPLATE = "tools"
NO_TOOLS = ToolHistory.begin(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Lists the tools of one request; `about` is what else its conversation is known by."""

    services: Services
    view: ReplicaView
    request: ChatCompletionRequest
    tools: tuple[Tool, ...]
    tenant: str
    about: Sequence[str]
    resumption: Resumption | None = None

    def listed(self) -> Listed:
        """As the conversation goes on, from the stored one or from memory.

        Raises:
            InvalidRequestError: `tool_choice` names a tool that isn't in the list, or demands a
                call of an engine that reads none.
        """
        known = self._known()
        if not self.tools and known is None:
            return Listed(request=self.request)
        return self.after(known)

    def after(self, known: ToolHistory | None) -> Listed:
        """As a conversation with that history goes on."""
        return list_tools(
            self.request,
            self.tools,
            self.view,
            known=known,
            changes=self.services.settings.conversations.tool_changes,
            words=self.services.templates.find(TEMPLATE),
        )

    @property
    def goes_on(self) -> bool:
        """Whether the model has answered in the conversation before."""
        return last_answer(self.request.messages) is not None

    def remember(
        self, listed: Listed, then: Callable[[Message | None], None] | None
    ) -> Callable[[Message | None], None] | None:
        """What keeps the tools with the answer, and does what else is to be done then."""
        history = listed.history
        if history is None:
            return then

        def keep(answer: Message | None) -> None:
            if then is not None:
                then(answer)
            if answer is not None:
                said = [*(m.message() for m in self.request.messages), answer]
                key = tool_key((self.tenant, *self.about), said)
                self.services.tool_lists.keep(key, self.tenant, history)

        return keep

    def _known(self) -> ToolHistory | None:
        if self.resumption is not None and self.resumption.tools is not None:
            return self.resumption.tools
        lists = self.services.tool_lists
        if not lists.knows(self.tenant):
            return None
        place = last_answer(self.request.messages)
        if place is None:
            return None
        try:
            said = [message.message() for message in self.request.messages[: place + 1]]
        except ValueError:
            return None  # the request will be refused for it
        return lists.find(tool_key((self.tenant, *self.about), said))
