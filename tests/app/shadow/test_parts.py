"""The pure parts: drawing, salts, the queue, comparison, figures."""

import random
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidSettingError
from app.metrics import Metrics
from app.salts import Salts
from app.schemas import ChatMessage
from app.settings import Settings, ShadowSettings
from app.shadow.backlog import Backlog
from app.shadow.copies import (
    LiveAnswer,
    ShadowCopy,
    common_share,
    conversation_key,
    is_drawn,
    shadow_salt,
)
from app.shadow.hearing import Heard, ShadowFailure
from app.shadow.opening import open_shadow
from app.shadow.rows import ShadowRow, ShadowRows, Side
from app.shadow.summary import summarise

SECRET = bytes(range(32))
AT = datetime(2026, 11, 30, tzinfo=UTC)
LIVE = LiveAnswer(
    request_id="r", tenant="t", template="chat@1", ttft_s=0.1, e2e_s=0.2, prompt_tokens=100,
    cached_tokens=50, output_tokens=5, said="yes",
)  # fmt: skip
ROW = ShadowRow(
    at=AT, target="http://s", request_id="r", conversation="c0", tenant="t", template="chat@1",
    whole=True, live=Side(ttft_s=0.1, e2e_s=0.2, prompt_tokens=100, cached_tokens=50),
    shadow=Side(ttft_s=0.2, e2e_s=0.2, prompt_tokens=100, cached_tokens=75), equal=True, common=1.0,
)  # fmt: skip


def copy(conversation: str, *, first: bool = False, size: int = 10) -> ShadowCopy:
    return ShadowCopy(
        conversation=conversation, is_first=first, streams=False, greedy=True,
        live=replace(LIVE, said=""), body=b"x" * size,
    )  # fmt: skip


def says(role: str, text: str) -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "content": text})


def test_a_conversation_has_one_key_for_all_turns() -> None:
    opening = [says("system", "Be brief."), says("user", "Hi")]
    later = [*opening, says("assistant", "Hello"), says("user", "And?")]
    key = conversation_key("salt", "chat@1", opening)
    assert key == conversation_key("salt", "chat@1", later)
    others = [
        conversation_key("other", "chat@1", opening),
        conversation_key("salt", "chat@2", opening),
        conversation_key("salt", "chat@1", [says("system", "Be brief"), says("user", ".Hi")]),
        conversation_key("salt", "chat@1", [says("user", "Be brief."), says("user", "Hi")]),
    ]
    assert len({key, *others}) == 5


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 1.0])
def test_the_drawn_share_is_the_one_asked_for(fraction: float) -> None:
    keys = [conversation_key("s", "chat@1", [says("user", str(n))]) for n in range(4000)]
    share = sum(is_drawn(key, fraction) for key in keys) / len(keys)
    assert share == pytest.approx(fraction, abs=0.03)
    assert all(is_drawn(key, 1.0) for key in keys)
    # Who is drawn at a smaller share is drawn at a greater one.
    assert all(is_drawn(key, fraction) for key in keys if is_drawn(key, fraction / 2))


@given(st.lists(st.tuples(st.text(), st.none() | st.text()), min_size=2, unique=True))
def test_a_copys_salt_is_no_tenants_and_another_for_each(
    whose: list[tuple[str, str | None]],
) -> None:
    salts = Salts(SECRET)
    live = {salts.of(tenant, collection) for tenant, collection in whose}
    shadows = {shadow_salt(SECRET, salt) for salt in live}
    assert len(shadows) == len(live)
    assert not shadows & live
    assert all(len(salt) == 32 and set(salt) <= set("0123456789abcdef") for salt in shadows)


def test_turns_of_a_conversation_go_one_after_the_other() -> None:
    backlog = Backlog(most=10, most_bytes=1000)
    one, two, other = copy("a", first=True), copy("a"), copy("b", first=True)
    assert backlog.put(one)
    assert backlog.put(two)
    assert backlog.put(other)
    assert backlog.take() is one
    assert backlog.take() is other
    assert backlog.take() is None
    assert (len(backlog), backlog.under_way) == (1, 2)
    backlog.done(one)
    assert backlog.take() is two
    assert backlog.is_whole(two)


def test_a_lost_turn_spoils_those_after_it() -> None:
    backlog = Backlog(most=1, most_bytes=1000)
    first, second, third = copy("a", first=True), copy("a"), copy("a")
    assert backlog.put(first)
    assert not backlog.put(second)
    assert backlog.take() is first
    assert backlog.is_whole(first)
    backlog.done(first)
    assert backlog.put(third)
    assert not backlog.is_whole(third)
    # Asked anew from its beginning, it is whole again.
    assert backlog.take() is third
    backlog.done(third)
    assert backlog.put(copy("a", first=True))
    assert backlog.is_whole(third)


def test_one_that_was_under_way_before_the_start_is_not_whole() -> None:
    backlog = Backlog(most=1, most_bytes=1000)
    assert not backlog.is_whole(copy("a"))


def test_the_queue_is_bounded_in_bytes_and_gives_them_back() -> None:
    backlog = Backlog(most=10, most_bytes=100)
    assert backlog.put(copy("a", size=60))
    assert not backlog.put(copy("b", size=60))
    assert backlog.take() is not None
    assert backlog.put(copy("b", size=60))
    assert backlog.clear() == 1
    assert backlog.put(copy("c", size=100))


@given(st.text(alphabet="ab", max_size=12), st.text(alphabet="ab", max_size=12))
def test_the_common_share_is_that_of_a_plain_count(ours: str, theirs: str) -> None:
    count = 0
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            break
        count += 1
    longer = max(len(ours), len(theirs))
    assert common_share(ours, theirs) == (count / longer if longer else 1.0)
    assert (common_share(ours, theirs) == 1.0) is (ours == theirs)


def test_an_answer_is_read_in_any_pieces_and_in_both_forms() -> None:
    usage = b'{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}'
    stream = (
        b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
        b'data: {"choices":[{"index":1,"delta":{"content":"other"}}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{"content":"lo"}}]}\n\n'
        b'data: {"choices":[],"usage":%b}\n\ndata: [DONE]\n\n' % usage
    )
    whole = b'{"choices":[{"index":0,"message":{"content":"Hello"}}],"usage":%b}' % usage
    for text, streams in ((stream, True), (whole, False)):
        for step in (1, 7, len(text)):
            heard = Heard(streams=streams)
            for place in range(0, len(text), step):
                heard.feed(text[place : place + step])
            heard.end()
            assert heard.message().content == "Hello"
            told = heard.usage()
            assert (told.prompt_tokens, told.cached_tokens, told.completion_tokens) == (9, 4, 2)


@given(st.binary(max_size=200), st.booleans())
def test_whatever_is_answered_is_an_answer_or_a_failure(data: bytes, streams: bool) -> None:
    heard = Heard(streams=streams)
    with suppress(ShadowFailure):
        heard.feed(b"data: " + data + b"\n\n" if streams else data)
        heard.end()


def test_rows_come_back_and_the_oldest_go(tmp_path: Path) -> None:
    rows = ShadowRows(tmp_path / "shadow", keep_bytes=20_000)
    for number in range(200):
        rows.add(replaced(request_id=f"r{number}"))
        rows.flush()
    kept = [row.request_id for row in ShadowRows(tmp_path / "shadow", keep_bytes=20_000).read()]
    assert kept == [f"r{n}" for n in range(200 - len(kept), 200)]
    assert 20 < len(kept) < 100
    assert sum(p.stat().st_size for p in (tmp_path / "shadow").iterdir()) < 21_000
    assert (tmp_path / "shadow" / "rows.jsonl").stat().st_mode & 0o077 == 0
    assert rows.read()[-1] == replaced(request_id="r199")


def test_a_line_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    rows = ShadowRows(tmp_path, keep_bytes=10_000)
    rows.add(ROW)
    rows.flush()
    with (tmp_path / "rows.jsonl").open("ab") as file:
        file.write(b'{"at": "2026-11\n')
    rows.add(ROW)
    assert rows.read() == [ROW, ROW]


def replaced(**changes: object) -> ShadowRow:
    fields = {name: getattr(ROW, name) for name in ROW.__struct_fields__}
    return ShadowRow(**(fields | changes))  # type: ignore[arg-type]


def test_the_figures_are_those_of_the_pairs() -> None:
    rows = [replaced(conversation=f"c{n % 10}", at=AT + timedelta(seconds=n)) for n in range(40)]
    rows += [replaced(conversation="c0", equal=False, common=0.5)] * 10
    rows.append(replaced(error="timeout", shadow=Side(), equal=None, common=None))
    told = summarise(rows)
    assert told["requests"] == 51
    assert told["compared"] == 50
    assert told["conversations"] == 10
    assert told["errors"] == {"timeout": 1}
    assert told["ttft"]["ratio"] == pytest.approx(2.0)
    assert told["ttft"]["ratio_interval"] == pytest.approx([2.0, 2.0])
    assert told["e2e"]["ratio"] == pytest.approx(1.0)
    assert told["hit_rate"]["difference"] == pytest.approx(0.25)
    assert told["answers"] == {
        "pairs": 50, "equal": 40, "equal_share": 0.8, "common_share": pytest.approx(0.9),
    }  # fmt: skip


def test_re_use_is_compared_only_where_both_could_know_as_much() -> None:
    told = summarise([ROW, replaced(whole=False), replaced(shadow=Side(prompt_tokens=100))])
    assert told["hit_rate"]["pairs"] == 1
    assert told["hit_rate"]["difference_interval"] is None  # one conversation alone
    assert told["ttft"]["pairs"] == 2


def test_the_interval_covers_the_true_ratio_and_goes_by_conversations() -> None:
    """Of 40 samples whose true ratio is 1.5, nearly all intervals hold it."""
    draw, covered = random.Random(7), 0
    for _ in range(40):
        rows = []
        for number in range(60):
            shift = draw.lognormvariate(0, 0.3)
            rows += [
                replaced(
                    conversation=f"c{number}",
                    shadow=Side(ttft_s=0.15 * shift * draw.lognormvariate(0, 0.1)),
                )
                for _ in range(4)
            ]
        low, high = summarise(rows)["ttft"]["ratio_interval"]
        covered += low <= 1.5 <= high
    assert covered >= 34


def test_no_rows_are_no_figures() -> None:
    told = summarise([])
    assert told["requests"] == told["compared"] == 0
    assert told["ttft"] is told["e2e"] is told["hit_rate"] is told["answers"] is None


@pytest.mark.parametrize(
    ("url", "key", "setting"),
    [
        ("ftp://somewhere", None, "FOREWORD_SHADOW__URL"),
        ("http://", None, "FOREWORD_SHADOW__URL"),
        ("http://user:pw@host", None, "FOREWORD_SHADOW__URL"),
        ("http://host/?a=b", None, "FOREWORD_SHADOW__URL"),
        ("http://host\r\nx: y", None, "FOREWORD_SHADOW__URL"),
        ("http://host:99999", None, "FOREWORD_SHADOW__URL"),
        ("http://host", "a\r\nx: y", "FOREWORD_SHADOW__API_KEY"),
        ("http://host", "two words", "FOREWORD_SHADOW__API_KEY"),
    ],
)
def test_what_cannot_be_a_target_is_refused_at_the_start(
    tmp_path: Path, url: str, key: str | None, setting: str
) -> None:
    chosen = ShadowSettings.model_validate({"url": url, "api_key": key})
    settings = Settings(home=tmp_path, shadow=chosen)
    with ExitStack() as stack, pytest.raises(InvalidSettingError, match=setting):
        open_shadow(settings, stack, secret=SECRET, counts=Metrics().shadow)


def test_it_is_off_unless_a_target_is_named(tmp_path: Path) -> None:
    with ExitStack() as stack:
        counts = Metrics().shadow
        for chosen in (ShadowSettings(), ShadowSettings(url="http://host", fraction=0)):
            settings = Settings(home=tmp_path, shadow=chosen)
            assert open_shadow(settings, stack, secret=SECRET, counts=counts) is None


def test_the_key_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    monkeypatch.setenv("FOREWORD_SHADOW__API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("FOREWORD_SHADOW__URL", "https://models.example/v1")
    chosen = Settings().shadow
    assert chosen.api_key is not None
    assert chosen.api_key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(chosen)
