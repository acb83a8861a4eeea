"""What is remembered of conversations' tools, within bounds."""

from app.tool_memory import ToolLists, tool_key
from prompts import Message, canonical_tools
from prompts.tool_changes import ToolHistory

ONE = ToolHistory.begin(canonical_tools([{"type": "function", "function": {"name": "one"}}]))
SAID = [Message(role="user", content="Hi"), Message(role="assistant", content="Hello")]


def test_a_conversation_is_known_by_all_that_was_said_and_to_whom() -> None:
    key = tool_key(("acme", "chat@1", ""), SAID)
    assert key == tool_key(("acme", "chat@1", ""), list(SAID))
    assert key != tool_key(("other", "chat@1", ""), SAID)
    assert key != tool_key(("acme", "chat@1", ""), SAID[:1])


def test_what_was_used_least_lately_is_forgotten_first() -> None:
    probe = ToolLists()
    probe.keep(b"x", "acme", ONE)
    lists = ToolLists(max_bytes=2 * probe.held_bytes)
    for key, tenant in ((b"a", "acme"), (b"b", "other")):
        lists.keep(key, tenant, ONE)
    assert lists.find(b"a") is ONE
    lists.keep(b"c", "acme", ONE)
    assert (lists.find(b"a"), lists.find(b"b"), lists.find(b"c")) == (ONE, None, ONE)
    assert lists.knows("acme")
    assert not lists.knows("other")
    assert lists.held_bytes == 2 * probe.held_bytes


def test_the_same_conversation_is_kept_once() -> None:
    lists = ToolLists()
    lists.keep(b"a", "acme", ONE)
    held = lists.held_bytes
    lists.keep(b"a", "acme", ToolHistory.begin(ONE.base))
    assert lists.held_bytes == held
    lists.keep(b"a", "acme", ToolHistory.begin(()))
    assert lists.held_bytes < held
