"""Where replicas are found: a list, a DNS name, a Kubernetes service's API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import InvalidSettingError
from app.fleet.discovery import StaticDiscovery
from app.fleet.dns import DnsDiscovery
from app.fleet.kubernetes import ClusterApi, KubernetesDiscovery
from app.fleet.sources import open_discovery
from tests.app.fleet.cluster_api import ClusterApiServer, endpoint_slice

pytestmark = pytest.mark.anyio


class Names:
    """A name service whose answers change."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self._answers = list(answers)

    async def __call__(self, _host: str, _port: int) -> list[str]:
        answer = self._answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


async def test_a_list_stays_as_it_is() -> None:
    found = await StaticDiscovery(["http://a:1/", "http://b:1"]).look()
    assert found == {"http://a:1", "http://b:1"}


async def test_dns_finds_all_addresses_of_a_name() -> None:
    names = Names(["10.0.0.1", "10.0.0.2", "10.0.0.1", "fd00::1"])
    found = await DnsDiscovery("engines", 30000, resolve=names).look()
    assert found == {"http://10.0.0.1:30000", "http://10.0.0.2:30000", "http://[fd00::1]:30000"}


async def test_dns_asks_the_systems_resolver() -> None:
    source = DnsDiscovery.parse("localhost:30000")
    assert "http://127.0.0.1:30000" in await source.look()
    assert source.problem is None


async def test_an_address_that_a_capped_answer_leaves_out_once_stays() -> None:
    names = Names(["10.0.0.1", "10.0.0.2"], ["10.0.0.1"], ["10.0.0.2"], ["10.0.0.1"])
    source = DnsDiscovery("engines", 1, resolve=names, looks_missed=2)
    for _ in range(4):
        assert await source.look() == {"http://10.0.0.1:1", "http://10.0.0.2:1"}


async def test_an_address_goes_when_some_answers_in_a_row_left_it_out() -> None:
    names = Names(["10.0.0.1", "10.0.0.2"], *[["10.0.0.1"]] * 3)
    source = DnsDiscovery("engines", 1, resolve=names, looks_missed=3)
    sizes = [len(await source.look()) for _ in range(4)]
    assert sizes == [2, 2, 2, 1]


async def test_a_look_up_that_fails_keeps_the_last_answer_and_says_why() -> None:
    gone = OSError(-2, "Name or service not known")
    names = Names(["10.0.0.1"], gone, gone, gone, gone, ["10.0.0.1"])
    source = DnsDiscovery("engines", 1, resolve=names)
    await source.look()
    for _ in range(4):
        assert await source.look() == {"http://10.0.0.1:1"}
        assert source.problem == "engines can't be looked up: Name or service not known"
    await source.look()
    assert source.problem is None


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 300, "."])
async def test_a_name_that_there_is_not_is_told(host: str) -> None:
    source = DnsDiscovery(host, 1)
    assert await source.look() == frozenset()
    assert source.problem is not None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterApiServer]:
    with ClusterApiServer(tmp_path_factory.mktemp("account")) as server:
        yield server


@pytest.fixture
def account(cluster: ClusterApiServer) -> ClusterApi:
    cluster.slices = []
    cluster.status = 200
    cluster.token_file.write_text(cluster.token)
    return ClusterApi.in_cluster(cluster.environment, cluster.folder)


async def look(api: ClusterApi, text: str = "serving/engines:30000") -> frozenset[str]:
    source = KubernetesDiscovery.parse(text, api)
    try:
        found = await source.look()
        assert source.problem is None
        return found
    finally:
        await source.aclose()


async def test_kubernetes_lists_the_endpoints_of_one_service(
    cluster: ClusterApiServer, account: ClusterApi
) -> None:
    cluster.slices = [
        endpoint_slice("engines", "10.1.0.1", "10.1.0.2"),
        endpoint_slice("engines", "fd00::3", kind="IPv6"),
        endpoint_slice("something-else", "10.1.0.9"),
    ]
    assert await look(account) == {
        "http://10.1.0.1:30000",
        "http://10.1.0.2:30000",
        "http://[fd00::3]:30000",
    }
    assert cluster.paths[-1] == "/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices"


async def test_a_terminating_endpoint_is_gone_and_one_that_is_not_ready_is_not(
    cluster: ClusterApiServer, account: ClusterApi
) -> None:
    cluster.slices = [
        endpoint_slice("engines", "10.1.0.1", conditions={"ready": False, "terminating": True}),
        endpoint_slice("engines", "10.1.0.2", conditions={"ready": False, "serving": False}),
    ]
    assert await look(account) == {"http://10.1.0.2:30000"}


async def test_a_port_may_be_named_as_the_service_names_it(
    cluster: ClusterApiServer, account: ClusterApi
) -> None:
    cluster.slices = [endpoint_slice("engines", "10.1.0.1", port=31337)]
    assert await look(account, "serving/engines:http") == {"http://10.1.0.1:31337"}


async def test_a_service_scaled_to_nothing_has_no_replicas(account: ClusterApi) -> None:
    assert await look(account) == frozenset()


async def test_a_renewed_token_is_used_at_once(
    cluster: ClusterApiServer, account: ClusterApi
) -> None:
    cluster.slices = [endpoint_slice("engines", "10.1.0.1")]
    source = KubernetesDiscovery.parse("serving/engines:1", account)
    account.token_file.write_text("expired")
    await source.look()
    assert source.problem is not None
    assert "service account needs the right to list endpointslices" in source.problem
    account.token_file.write_text(cluster.token)
    assert await source.look() == {"http://10.1.0.1:1"}
    assert source.problem is None
    await source.aclose()


async def test_an_api_in_trouble_keeps_the_last_answer(
    cluster: ClusterApiServer, account: ClusterApi
) -> None:
    cluster.slices = [endpoint_slice("engines", "10.1.0.1")]
    source = KubernetesDiscovery.parse("serving/engines:1", account)
    await source.look()
    cluster.status = 500
    assert await source.look() == {"http://10.1.0.1:1"}
    assert source.problem == (
        "the endpoints of serving/engines can't be listed: the cluster answered 500"
    )
    cluster.status, cluster.slices = 200, [{"addressType": 7}]
    assert await source.look() == {"http://10.1.0.1:1"}
    assert "can't be understood" in (source.problem or "")
    await source.aclose()


async def test_an_api_with_a_certificate_of_somebody_else_is_not_believed(
    cluster: ClusterApiServer, account: ClusterApi
) -> None:
    stranger = ClusterApi(url=account.url, token_file=account.token_file, ca_file=None)
    source = KubernetesDiscovery.parse("serving/engines:1", stranger)
    seen = len(cluster.paths)
    assert await source.look() == frozenset()
    assert "certificate" in (source.problem or "").lower()
    assert len(cluster.paths) == seen, "it was sent the token"
    await source.aclose()


def test_outside_a_cluster_kubernetes_is_a_fault_of_the_settings() -> None:
    with pytest.raises(InvalidSettingError, match="FOREWORD_REPLICAS__DISCOVERY"):
        ClusterApi.in_cluster({}, Path("/nowhere"))


@pytest.mark.parametrize("text", ["", "engines", "engines:", ":1", "e:0", "e:70000", "http://e:1"])
def test_a_malformed_dns_setting_says_what_it_should_be(text: str) -> None:
    with pytest.raises(InvalidSettingError, match="HOST:PORT"):
        open_discovery("dns", urls=(), dns=text, kubernetes=None)


@pytest.mark.parametrize("text", ["", "engines:1", "a/b", "a/b:", "/b:1", "a/b/c:1"])
def test_a_malformed_kubernetes_setting_says_what_it_should_be(text: str) -> None:
    api = ClusterApi(url="https://k", token_file=Path("t"), ca_file=None)
    with pytest.raises(InvalidSettingError, match="NAMESPACE/SERVICE:PORT"):
        KubernetesDiscovery.parse(text, api)


def test_a_source_without_its_setting_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="FOREWORD_REPLICAS__DNS: is not set"):
        open_discovery("dns", urls=(), dns=None, kubernetes=None)
