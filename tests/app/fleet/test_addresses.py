"""Which URLs an operator may name as a replica."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.fleet.addresses import Listening, problem_of_literal, replica_url, require_reachable_kind

pytestmark = pytest.mark.anyio

HERE = Listening("127.0.0.1", 8400)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("http://10.0.0.7:30000", "http://10.0.0.7:30000"),
        ("http://10.0.0.7:30000/", "http://10.0.0.7:30000"),
        ("https://Engine-1.Internal", "https://engine-1.internal"),
        ("http://[FD00::7]:30000", "http://[fd00::7]:30000"),
        ("https://gpu.internal/engines/3/", "https://gpu.internal/engines/3"),
    ],
)
def test_a_base_url_is_brought_into_one_form(given: str, taken: str) -> None:
    assert replica_url(given) == taken


@pytest.mark.parametrize(
    "url",
    [
        "",
        "engine-1:30000",
        "ftp://engine-1",
        "file:///etc/passwd",
        "gopher://engine-1:70",
        "unix:///run/docker.sock",
        "http://",
        "http://:30000",
        "http://user@engine-1",
        "http://user:secret@engine-1",
        "http://engine-1?x=1",
        "http://engine-1/?",
        "http://engine-1#part",
        "http://engine-1:0",
        "http://engine-1:99999",
        "http://engine-1:port",
        "http://engine-1/../admin",
        "http://engine-1/%2e%2e/admin",
        "http://engine-1\\@other",
        "http://engine-1\r\nHost: other",
        "http://engine 1",
        "http://[::1",
        "http://engine-1/" + "a" * 3000,
        "http://\u0435ngine-1",
    ],
)
def test_anything_else_is_refused_with_a_reason(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="this URL can't be a replica: ") as refused:
        replica_url(url)
    assert refused.value.param == "url"


@given(st.text() | st.text().map("http://{}".format))
def test_no_text_makes_it_fail_otherwise_and_what_is_taken_stays_as_it_is(text: str) -> None:
    try:
        url = replica_url(text)
    except InvalidRequestError:
        return
    assert replica_url(url) == url
    assert url.startswith(("http://", "https://"))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254",
        "http://[fe80::1]:30000",
        "http://[::ffff:169.254.169.254]",
        "http://224.0.0.1",
    ],
)
async def test_link_local_addresses_are_refused(url: str) -> None:
    """Where clouds keep their machines' credentials."""
    with pytest.raises(InvalidRequestError, match="link-local or multicast"):
        await require_reachable_kind(url, own=HERE)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8400", "http://localhost:8400", "http://0.0.0.0:8400"]
)
async def test_the_gateway_is_no_replica_of_itself(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="this gateway itself"):
        await require_reachable_kind(url, own=HERE)


async def test_a_neighbour_on_the_same_machine_is_fine() -> None:
    await require_reachable_kind("http://127.0.0.1:30000", own=HERE)


async def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"nowhere\.invalid has no address"):
        await require_reachable_kind("http://nowhere.invalid:30000", own=HERE)


@pytest.mark.parametrize(
    ("host", "url", "is_own"),
    [
        ("127.0.0.1", "http://127.0.0.1:8400", True),
        ("127.0.0.1", "http://localhost:8400/v1", True),
        ("localhost", "http://[::1]:8400", True),
        ("0.0.0.0", "http://127.0.0.1:8400", True),
        ("::", "http://[::ffff:127.0.0.1]:8400", True),
        ("127.0.0.1", "http://0.0.0.0:8400", True),
        # An engine on loopback behind a gateway that takes the same port of another address.
        ("10.0.0.5", "http://127.0.0.1:8400", False),
        ("10.0.0.5", "http://10.0.0.5:8400", True),
        ("0.0.0.0", "http://192.0.2.1:8400", False),
        ("127.0.0.1", "http://127.0.0.1:8401", False),
        ("127.0.0.1", "http://gateway:8400", False),  # nobody was asked who that is
    ],
)
def test_where_it_listens_is_itself(host: str, url: str, is_own: bool) -> None:
    problem = problem_of_literal(url, own=Listening(host, 8400))
    assert problem == ("it is this gateway itself" if is_own else None)
