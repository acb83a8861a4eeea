"""What a hostile client sends ends soon, is told why, and never becomes another request."""

import time
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest

from tests.app.wire.guarded import HASTY, PATIENT, Guarded
from tests.app.wire.raw_client import ask, connected, get, post, request


def until(true: Callable[[], bool], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


HIDDEN = get("/ok")
SMUGGLED = {
    "both lengths": request(b"POST", "/echo", b"transfer-encoding: chunked", b"content-length: 4")
    + b"0\r\n\r\n"
    + HIDDEN,
    "both lengths, turned": request(
        b"POST", "/echo", b"content-length: 4", b"transfer-encoding: chunked"
    )
    + b"0\r\n\r\n"
    + HIDDEN,
    "another coding": request(b"POST", "/echo", b"transfer-encoding: xchunked") + b"0\r\n\r\n",
    "chunked not last": request(b"POST", "/echo", b"transfer-encoding: chunked, gzip") + HIDDEN,
    "coding behind a space": request(b"POST", "/echo", b"transfer-encoding : chunked") + HIDDEN,
    "two lengths": request(b"POST", "/echo", b"content-length: 1", b"content-length: 2") + b"ab",
    "a list of lengths": request(b"POST", "/echo", b"content-length: 1, 2") + b"ab",
    "a length with a sign": request(b"POST", "/echo", b"content-length: +1") + b"a",
    "a length beyond all": request(b"POST", "/echo", b"content-length: 99999999999999999999"),
    "a chunk beyond all": request(b"POST", "/echo", b"transfer-encoding: chunked")
    + b"fffffffffffffffff\r\n",
    "a line feed alone": b"GET /ok HTTP/1.1\nhost: a\n\n",
    "a folded header": b"GET /ok HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n",
    "a NUL in a header": get("/ok", b"x: a\0b"),
    "a carriage return in a header": get("/ok", b"x: a\rb"),
    "no host": b"GET /ok HTTP/1.1\r\n\r\n",
    "two hosts": get("/ok", b"host: another"),
    "two keys": get("/ok", b"authorization: Bearer a", b"authorization: Bearer b"),
    "a tunnel": b"CONNECT 127.0.0.1:30000 HTTP/1.1\r\nhost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_what_two_readers_could_read_differently_is_refused(guarded: Guarded, name: str) -> None:
    heard = ask(guarded.url, SMUGGLED[name])
    assert heard.status == 400
    assert heard.answers == 1
    assert heard.closed
    assert b'"code":"malformed_http"' in heard.data


def test_old_versions_without_headers_are_refused(guarded: Guarded) -> None:
    assert ask(guarded.url, b"GET /ok\r\n\r\n").status == 505
    assert ask(guarded.url, b"GET /ok HTTP/1.0\r\n\r\n").status == 200


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize(
    "length", [b"content-length: %d" % len(HIDDEN), b"transfer-encoding: chunked"]
)
def test_a_body_behind_an_upgrade_is_never_read_as_a_request(
    guarded: Guarded, in_parts: bool, length: bytes
) -> None:
    guarded.bodies.clear()
    with connected(guarded.url) as client:
        client.send(request(b"POST", "/echo", b"connection: upgrade", b"upgrade: h2c", length))
        if in_parts:
            time.sleep(0.05)
        client.send(HIDDEN + HIDDEN)
        heard = client.hear()
    assert (heard.status, heard.answers, heard.closed) == (400, 1, True)
    assert b'"code":"upgrade_refused"' in heard.data
    assert guarded.bodies == []


def test_an_offer_to_upgrade_is_passed_over(guarded: Guarded) -> None:
    offer = request(b"GET", "/ok", b"connection: upgrade", b"upgrade: websocket")
    heard = ask(guarded.url, offer + HIDDEN)
    assert (heard.status, heard.answers, heard.closed) == (200, 1, True)


def test_nothing_follows_a_connection_s_last_request(guarded: Guarded) -> None:
    heard = ask(guarded.url, get("/ok") + get("/ok"))
    assert heard.answers == 1
    assert heard.closed


def test_ordinary_requests_go_on_as_ever(guarded: Guarded) -> None:
    with httpx.Client(base_url=guarded.url, trust_env=False) as client:
        for size in (0, 1, 70_000, 3_000_000):
            assert client.post("/echo", content=b"a" * size).content == b"a" * size
        assert client.post("/echo", content=iter([b"ab", b"cd"])).content == b"abcd"
        assert client.post("/echo", content=b"a", headers={"expect": "100-continue"}).text == "a"
    two = request(b"GET", "/ok") + get("/ok")
    assert ask(guarded.url, two).answers == 2


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (get("/" + "a" * 2000), 414),
        (get("/" + "a" * 2_000_000), 414),
        (get("/ok", b"x: " + b"a" * 5000), 431),
        (get("/ok", b"x: " + b"a" * 2_000_000), 431),
        (get("/ok", *(b"x%d: a" % n for n in range(30))), 431),
        (get("/ok", *(b"x%d: a" % n for n in range(100_000))), 431),
        (b"GET /ok HTTP/1.1\r\nx: " + b"a" * 10_000, 431),
    ],
)
def test_heads_are_bounded(guarded: Guarded, data: bytes, status: int) -> None:
    with connected(guarded.url) as client:
        with suppress(ConnectionError):  # it may be told before it has sent all
            client.send(data)
        heard = client.hear()
    assert heard.status == status
    assert heard.closed


def test_a_large_body_in_one_piece_with_its_head_is_no_large_head(guarded: Guarded) -> None:
    assert ask(guarded.url, post("/echo", b"a" * 50_000)).status == 200


@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"GET /ok HTTP/1.1\r\nhost: a\r\n", b"GET /o"], ids=repr
)
def test_a_head_that_never_ends_is_told_so(hasty: Guarded, data: bytes) -> None:
    heard = ask(hasty.url, data)
    assert heard.status == 408
    assert heard.closed


def test_who_says_nothing_is_told_nothing(hasty: Guarded) -> None:
    heard = ask(hasty.url, b"")
    assert heard.closed
    assert heard.data == b""


def test_a_head_byte_by_byte_is_cut_off(hasty: Guarded) -> None:
    with connected(hasty.url) as client:
        began = time.monotonic()
        client.drip(get("/ok", b"x: " + b"a" * 500), every_s=0.06)
        assert time.monotonic() - began < 20, "all of it takes half a minute"
        assert client.hear().status in (408, None)  # a reset may have taken the answer


def test_a_kept_connection_s_next_head_has_the_same_time(hasty: Guarded) -> None:
    with connected(hasty.url) as client:
        client.send(request(b"GET", "/ok") + b"GET /ok HTT")
        time.sleep(0.1)
        client.send(b"P/1.1\r\n")
        heard = client.hear()
    assert heard.answers == 2
    assert b"408 Request Timeout" in heard.data


def test_line_ends_do_not_keep_a_connection(hasty: Guarded) -> None:
    with connected(hasty.url) as client:
        client.send(request(b"GET", "/ok"))
        time.sleep(0.1)
        began = time.monotonic()
        client.drip(b"\r\n" * 300, every_s=0.05)
        assert time.monotonic() - began < 20, "all of them take half a minute"
        assert client.hear().closed


@pytest.mark.slow
def test_an_idle_connection_is_closed(hasty: Guarded) -> None:
    began = time.monotonic()
    heard = ask(hasty.url, request(b"GET", "/ok"))
    assert heard.answers == 1
    assert HASTY.keep_alive_s - 0.1 < time.monotonic() - began < HASTY.keep_alive_s + 20


def test_a_body_that_stalls_is_told_so(hasty: Guarded) -> None:
    heard = ask(hasty.url, request(b"POST", "/echo", b"content-length: 100") + b"a")
    assert heard.status == 408
    assert heard.answers == 1
    assert b'"code":"body_too_slow"' in heard.data


def test_a_body_byte_by_byte_is_cut_off(hasty: Guarded) -> None:
    with connected(hasty.url) as client:
        client.send(request(b"POST", "/echo", b"content-length: 1000"))
        began = time.monotonic()
        client.drip(b"a" * 1000, every_s=0.02)
        assert time.monotonic() - began < 15, "all of it takes twenty seconds"


def test_a_body_that_goes_on_is_taken(hasty: Guarded) -> None:
    with connected(hasty.url) as client:
        client.send(request(b"POST", "/echo", b"content-length: 80000", b"connection: close"))
        for _ in range(20):  # over more than a window, and one piece is enough for a window
            time.sleep(0.2)
            client.send(b"a" * 4000)
        assert client.hear().status == 200


@pytest.mark.slow
def test_a_body_that_goes_on_for_ever_is_cut_off(hasty: Guarded) -> None:
    with connected(hasty.url) as client:
        client.send(request(b"POST", "/echo", b"transfer-encoding: chunked"))
        began = time.monotonic()
        try:
            while time.monotonic() - began < 40:
                client.send(b"3e8\r\n" + b"a" * 1000 + b"\r\n")
                time.sleep(0.1)
        except ConnectionError:
            pass
        assert time.monotonic() - began < 30


def test_a_malformed_body_gets_its_answer_once(guarded: Guarded) -> None:
    with connected(guarded.url) as client:
        client.send(request(b"POST", "/echo", b"transfer-encoding: chunked") + b"1\r\na\r\n")
        time.sleep(0.05)
        client.send(b"no size\r\n")
        heard = client.hear()
    assert (heard.status, heard.answers, heard.closed) == (400, 1, True)


def test_an_answer_before_the_body_is_read_by_who_still_sends(guarded: Guarded) -> None:
    with connected(guarded.url) as client:
        client.send(request(b"POST", "/early", b"content-length: 100000000"))
        with suppress(ConnectionError):
            for _ in range(30):
                client.send(b"a" * 100_000)
                time.sleep(0.01)
        heard = client.hear()
    assert (heard.status, heard.answers, heard.closed) == (401, 1, True)


@pytest.mark.slow
def test_the_little_that_is_left_after_an_early_answer_keeps_the_connection(
    guarded: Guarded,
) -> None:
    with connected(guarded.url) as client:
        client.send(request(b"POST", "/early", b"content-length: 100000"))
        time.sleep(0.05)
        client.send(b"a" * 100_000 + get("/ok"))
        heard = client.hear()
    assert heard.answers == 2
    assert heard.data.endswith(b"ok")


def test_garbage_never_lands_within_an_answer(guarded: Guarded) -> None:
    with connected(guarded.url) as client:
        client.send(request(b"GET", "/slow"))
        time.sleep(0.1)
        client.send(b"\x00garbage\r\n\r\n")
        heard = client.hear()
    assert heard.answers == 1
    assert heard.closed
    assert heard.data.endswith(b"0\r\n\r\n")


def test_who_leaves_behind_a_second_request_is_missed_in_the_first(guarded: Guarded) -> None:
    before = guarded.left
    with connected(guarded.url) as client:
        client.send(request(b"GET", "/slow") + request(b"GET", "/ok"))
        time.sleep(0.1)
    until(lambda: guarded.left == before + 1)


@pytest.mark.slow
def test_only_so_many_requests_wait_for_another(guarded: Guarded) -> None:
    heard = ask(guarded.url, request(b"GET", "/slow") + request(b"GET", "/ok") * 1000)
    assert heard.answers == 33
    assert heard.data.count(b"connection: close") == 1
    assert heard.data.endswith(b"\r\nconnection: close\r\n\r\nok")
    assert heard.closed


def test_http_1_0_is_never_sent_chunks(guarded: Guarded) -> None:
    heard = ask(guarded.url, b"GET /slow HTTP/1.0\r\n\r\n")
    head, _, said = heard.data.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert said == b"." * 50
    assert heard.closed


def test_who_reads_nothing_is_dropped(hasty: Guarded) -> None:
    until(lambda: hasty.connections == 0)
    with connected(hasty.url) as client:
        client.send(request(b"GET", "/large"))
        assert client.socket.recv(1)
        until(lambda: hasty.connections == 0)


def test_one_connection_too_many_is_told_so(guarded: Guarded) -> None:
    until(lambda: guarded.connections == 0)
    clients = [connected(guarded.url) for _ in range(PATIENT.connections)]
    opened = [client.__enter__() for client in clients]
    try:
        for client in opened:
            client.send(b"GET /ok HTTP/1.1\r\n")
        until(lambda: guarded.connections == PATIENT.connections)
        heard = ask(guarded.url, get("/ok"))
        assert heard.status == 503
        assert b"retry-after: 1" in heard.data
    finally:
        for entered in clients:
            entered.__exit__(None, None, None)
    until(lambda: guarded.connections == 0)
    assert ask(guarded.url, get("/ok")).status == 200


def test_refusals_are_counted_by_reason(guarded: Guarded) -> None:
    before = guarded.refused.get("malformed_http", 0)
    ask(guarded.url, b"nonsense\r\n\r\n")
    assert guarded.refused["malformed_http"] == before + 1
