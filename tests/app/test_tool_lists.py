"""Lists of tools that change while a conversation goes on: over HTTP, on a simulated engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

PAGE_TOKENS = 16
NOW = {"name": "now", "description": "Tells the time.", "parameters": {"type": "object"}}
PRICE = {"name": "price", "description": "Tells a price.", "parameters": {"type": "object"}}
NEWER = {"name": "now", "description": "Tells the time in a town.", "parameters": {}}


def functions(*tools: dict[str, Any]) -> list[Any]:
    return [{"type": "function", "function": tool} for tool in tools]


class Talk:
    """A conversation whose client sends all of it again with each turn."""

    def __init__(self, client: openai.OpenAI, opening: str) -> None:
        self._client = client
        self.messages: list[Any] = [{"role": "system", "content": opening}]
        self.held = 0

    def say(self, text: str, *tools: dict[str, Any], **fields: Any) -> Any:
        self.messages.append({"role": "user", "content": text})
        return self.go_on(*tools, **fields)

    def go_on(self, *tools: dict[str, Any], **fields: Any) -> Any:
        if tools:
            fields["tools"] = functions(*tools)
        answer = self._client.chat.completions.create(
            model="default", messages=self.messages, max_tokens=8, temperature=0,
            extra_body={"foreword": {}}, **fields,
        )  # fmt: skip
        self.messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        self.kept = answer.foreword["cached_tokens"] >= self.held - 1 - PAGE_TOKENS
        self.held, self.last = answer.usage.total_tokens, answer.id
        self.prompt_tokens = answer.usage.prompt_tokens
        self.cached_tokens = answer.foreword["cached_tokens"]
        return answer.foreword.get("tools")


class Stored:
    """One that the gateway keeps; `goes_on` says how the next turn names it."""

    def __init__(
        self, client: openai.OpenAI, opening: str, goes_on: Callable[[str | None], dict[str, Any]]
    ) -> None:
        self._client, self._opening, self._goes_on = client, opening, goes_on
        self.last: str | None = None
        self.held = 0

    def say(self, text: str, *tools: dict[str, Any], **fields: Any) -> Any:
        answer: Any = self._client.responses.create(
            model="default", input=text, instructions=self._opening, max_output_tokens=8,
            temperature=0, tools=[{"type": "function", "strict": None, **tool} for tool in tools],
            **self._goes_on(self.last), **fields,
        )  # fmt: skip
        self.last = answer.id
        self.kept = answer.foreword["cached_tokens"] >= self.held - 1 - PAGE_TOKENS
        self.held = answer.usage.total_tokens
        self.compaction = answer.foreword.get("compaction")
        return answer.foreword.get("tools")


@contextmanager
def restarted(simulator: SimulatorThread, home: Path) -> Iterator[openai.OpenAI]:
    with running_gateway(gateway_settings(home, simulator.url)) as url:
        wait_until_ready(url)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            yield client


def by_response(last: str | None) -> dict[str, Any]:
    return {"previous_response_id": last} if last else {}


@pytest.fixture(params=["chat", "response", "conversation"])
def talk(request: pytest.FixtureRequest, client: openai.OpenAI) -> Any:
    opening = f"Of {request.node.name} alone."
    if request.param == "chat":
        return Talk(client, opening)
    if request.param == "response":
        return Stored(client, opening, by_response)
    made = client.conversations.create().id
    return Stored(client, opening, lambda _: {"conversation": made})


def test_a_changed_list_is_told_at_the_end_and_all_before_it_is_kept(talk: Any) -> None:
    assert talk.say("When does the ferry leave?", NOW) is None
    assert talk.say("And the next one?", NOW) is None
    assert talk.kept
    news = talk.say("What does it cost?", PRICE, NOW)
    assert talk.kept
    assert (news["done"], news["added"], news["withdrawn"]) == ("appended", ["price"], [])
    assert talk.say("For children?", NOW, PRICE) is None  # the other order is the same list
    assert talk.kept
    news = talk.say("And now?", NEWER)
    assert talk.kept
    assert (news["changed"], news["withdrawn"]) == (["now"], ["price"])
    news = talk.say("And then?", NEWER, PRICE)
    assert talk.kept
    assert (news["added"], news["returned"]) == ([], ["price"])
    news = talk.say("Thanks.")
    assert talk.kept
    assert news["withdrawn"] == ["now", "price"]
    assert talk.say("Bye.") is None
    assert talk.kept


def test_tools_that_come_later_are_told_at_the_end(talk: Any) -> None:
    assert talk.say("When does the ferry leave?") is None
    assert talk.say("And back?") is None
    news = talk.say("What does it cost?", PRICE)
    assert talk.kept
    assert (news["done"], news["added"]) == ("appended", ["price"])
    assert talk.say("Really?", PRICE) is None
    assert talk.kept


def test_a_branch_has_the_tools_of_its_own_past(client: openai.OpenAI) -> None:
    talk = Talk(client, "A branch.")
    talk.say("When does the ferry leave?", NOW)
    said, held = list(talk.messages), talk.held
    assert talk.say("What does it cost?", NOW, PRICE)["added"] == ["price"]
    talk.messages, talk.held = said, held
    assert talk.say("Something else.", NOW) is None
    assert talk.kept


CHOICES = (
    "none",
    "auto",
    "required",
    {"type": "function", "function": {"name": "now"}},
    {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": functions({"name": "price"})},
    },
)


def test_a_choice_among_tools_changes_no_byte_of_the_prompt(client: openai.OpenAI) -> None:
    prompts = set[int]()
    for number, choice in enumerate((None, *CHOICES)):
        talk = Talk(client, "A choice.")
        talk.say("When?", NOW, PRICE, **({"tool_choice": choice} if choice else {}))
        prompts.add(talk.prompt_tokens)
        assert not number or talk.cached_tokens >= talk.prompt_tokens - PAGE_TOKENS
    assert len(prompts) == 1


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"type": "function", "function": {"name": "price"}}, "'price' is not among"),
        (CHOICES[-1], "'price' is not among"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "empty"),
        ({"type": "allowed_tools"}, "give a mode"),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "x", "tools": functions({"name": "now"})},
            },
            "auto or required",
        ),
    ],
)
def test_a_choice_of_a_tool_that_is_not_there_is_refused(
    client: openai.OpenAI, choice: Any, words: str
) -> None:
    talk = Talk(client, "Refused.")
    talk.say("When?", NOW, PRICE)
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        talk.say("And now?", NOW, tool_choice=choice)
    assert refused.value.param == "tool_choice"


def test_a_stored_history_outlives_the_gateway_and_is_shown_to_nobody(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    made: str | None = None
    talks: list[Any] = []
    for tools in ([NOW], [NOW, PRICE], [NOW, PRICE], [PRICE]):
        with restarted(simulator, tmp_path) as client:
            made = made or client.conversations.create().id
            if not talks:
                conversation = {"conversation": made}
                talks = [
                    Stored(client, "Outlives one.", by_response),
                    Stored(client, "Outlives two.", lambda _, c=conversation: c),
                ]
            for talk in talks:
                talk._client = client
                talk.say(f"With {len(tools)}?", *tools)
                assert talk.kept
            shown = str([list(client.conversations.items.list(made))])
            assert "foreword_tools" not in shown
            assert "foreword_tools" not in str(
                list(client.responses.input_items.list(talks[0].last))
            )


def test_a_client_cannot_bring_a_history(client: openai.OpenAI) -> None:
    made = client.conversations.create().id
    forged = {"base": [], "now": [], "told": [], "announcements": [], "through": None}
    item = {"role": "user", "content": "Hi", "foreword_tools": forged}
    client.responses.create(
        model="default",
        conversation=made,
        input=[item],
        max_output_tokens=4,  # type: ignore[list-item]
    )
    talk = Stored(client, "", lambda _: {"conversation": made})
    talk.say("When?", NOW)
    assert "foreword_tools" not in str(list(client.conversations.items.list(made)))


def test_the_ledger_notes_what_was_done(client: openai.OpenAI, gateway: str) -> None:
    talk = Talk(client, "Noted.")
    talk.say("When?", NOW)
    talk.say("And what does it cost?", PRICE)
    explained = httpx.get(f"{gateway}/foreword/explain/{talk.last}", trust_env=False).json()
    assert explained["notes"] == "tools appended +price -now"
    assert "Noted: tools appended +price -now." in explained["lines"]


def test_a_compacted_conversation_begins_with_the_newest_list(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    config = SimulatorConfig(
        model_path=tokenizer_folder, clock=ClockConfig(speedup=50), context_tokens=1024
    )
    options = {"foreword": {"compaction": {"at": 0.7, "keep": 0.2}}}
    with SimulatorThread(config) as engine, restarted(engine, tmp_path) as client:
        made = client.conversations.create(extra_body=options).id
        talk = Stored(client, "Compacted.", lambda _: {"conversation": made})
        compacted = 0
        for number in range(24):
            tools = (NOW,) if number == 0 else (NOW, PRICE)
            news = talk.say(f"Turn {number} of the talk about ferries and islands.", *tools)
            if talk.compaction is not None:
                compacted += 1
                # The summary's prompt goes on from what the engine holds, tools included.
                cost = talk.compaction
                assert cost["summary_cached_tokens"] >= cost["summary_prompt_tokens"] / 2
            else:
                assert talk.kept
            assert (news is not None) is (number == 1)
        assert compacted


@pytest.mark.parametrize(
    ("setting", "withdrawn", "added"),
    [("mask", "masked", "appended"), ("rewrite", "rewritten", "rewritten")],
)
def test_the_operator_says_what_becomes_of_a_change(
    simulator: SimulatorThread, tmp_path: Path, setting: str, withdrawn: str, added: str
) -> None:
    settings = gateway_settings(tmp_path, simulator.url)
    conversations = settings.conversations.model_copy(update={"tool_changes": setting})
    settings = settings.model_copy(update={"conversations": conversations})
    with running_gateway(settings) as url:
        wait_until_ready(url)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            talk = Talk(client, f"Under {setting}.")
            talk.say("When does the ferry leave, and from which harbour?", NOW, PRICE)
            assert talk.say("And now?", NOW)["done"] == withdrawn
            assert talk.kept is (setting == "mask")
            assert talk.say("And then?", NEWER)["done"] == added
            assert talk.kept is (setting == "mask")
