"""What is cut out of a read without a parser is what the parser would find there."""

import httptools
from hypothesis import given
from hypothesis import strategies as st

from app.callers import Caller
from app.lane.heads import KnownHeads, cut_request

CALLER = Caller(tenant="tenant")
START = b"POST /v1/chat/completions HTTP/1.1\r\n"


def request(body: bytes, *lines: bytes, length: bytes | None = None) -> bytes:
    declared = b"%d" % len(body) if length is None else length
    head = [b"Host: here", b"Content-Length: " + declared, *lines]
    return START + b"\r\n".join(head) + b"\r\n\r\n" + body


def digest_of(data: bytes) -> bytes:
    cut = cut_request(data)
    assert cut is not None
    return cut.digest


class Parsed:
    """What the parser makes of the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        self.messages = 0
        httptools.HttpRequestParser(self).feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.messages += 1


@given(body=st.binary(min_size=1, max_size=300), more=st.binary(max_size=20))
def test_a_whole_request_is_cut_where_the_parser_cuts_it(body: bytes, more: bytes) -> None:
    data = request(body, b"Authorization: Bearer fw-a")
    cut = cut_request(data)
    assert cut is not None
    parsed = Parsed(data)
    assert (parsed.messages, parsed.body) == (1, data[cut.body_at :])
    if more:
        assert cut_request(data + more) is None
    for stop in (len(data) - 1, cut.body_at):
        assert cut_request(data[:stop]) == cut
    for stop in (cut.body_at - 1, 10):
        assert cut_request(data[:stop]) is None


@given(one=st.binary(min_size=1, max_size=99), other=st.binary(min_size=1, max_size=99))
def test_heads_are_told_apart_by_all_but_the_bodys_length(one: bytes, other: bytes) -> None:
    key, no_key = b"Authorization: Bearer fw-a", b"Authorization: Bearer fw-b"
    assert digest_of(request(one, key)) == digest_of(request(other, key))
    assert digest_of(request(one, key)) != digest_of(request(other, no_key))
    assert digest_of(request(one, key)) != digest_of(request(other))
    # The digits are taken out: what stands on each side must not run together.
    assert digest_of(request(one, b"A: b")) != digest_of(request(one, b"A:  b"))


def test_a_length_that_isnt_plain_is_for_the_parser() -> None:
    body = b"0123456789"
    for length in (b"010", b"+10", b"10 ", b" 10", b"0xa", b"1e1", b"10, 10", b"9", b""):
        assert cut_request(request(body, length=length)) is None, length
    assert cut_request(request(body).replace(b"POST", b"GET")) is None
    assert cut_request(request(body).replace(b"completions ", b"completions?x ")) is None
    assert cut_request(request(body, b"X: " + b"y" * 9000)) is None


def test_only_what_is_usual_is_learnt() -> None:
    heads = KnownHeads()
    usual = [(b"host", b"here"), (b"content-type", b"application/json")]
    let_in = {"caller": CALLER, "keys_as_of": 3}
    odd = [
        (b"expect", b"100-continue"),
        (b"origin", b"https://app.example"),
        (b"transfer-encoding", b"chunked"),
        (b"x-foreword-deadline-s", b"2"),
        (b"content-type", b"multipart/form-data"),
    ]
    for header in odd:
        heads.learn(b"a", {"state": let_in, "headers": [*usual, header]})
    heads.learn(b"a", {"state": {}, "headers": usual})
    assert heads.find(b"a") is None
    heads.learn(b"a", {"state": let_in, "headers": [*usual, (b"x-client-request-id", b"mine")]})
    known = heads.find(b"a")
    assert known is not None
    assert (known.caller, known.keys_as_of) == (CALLER, 3)
    assert known.client_request_id == b"mine"
    heads.forget(known)
    assert heads.find(b"a") is None


def test_heads_that_never_repeat_take_bounded_memory() -> None:
    heads = KnownHeads()
    for number in range(3000):
        scope = {"state": {"caller": CALLER, "keys_as_of": 1}, "headers": []}
        heads.learn(b"%d" % number, scope)
    assert len(heads) <= 1024
