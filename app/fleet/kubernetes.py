"""Replicas by Kubernetes: the endpoints of a service, from the cluster's own API.

An endpoint counts unless it is terminating. Whether its pod is ready is not asked: the gateway
looks at each engine itself, and a pod that misses one probe under load would lose its place and
its cache.
"""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec

from app.errors import InvalidSettingError
from app.fleet.dns import address_url

_LOOK_S = 5.0
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterApi:
    """How the cluster's API is reached.

    Attributes:
        token_file: read again for each look, since the cluster renews it.
        ca_file: None trusts what the system trusts.
    """

    url: str
    token_file: Path
    ca_file: Path | None

    @classmethod
    def in_cluster(cls, environment: Mapping[str, str], account: Path = _ACCOUNT) -> "ClusterApi":
        """As every pod is told.

        Raises:
            InvalidSettingError: this is no pod.
        """
        host = environment.get("KUBERNETES_SERVICE_HOST")
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise InvalidSettingError(
                "replicas.discovery",
                "kubernetes works only in a pod of the cluster (KUBERNETES_SERVICE_HOST is not "
                "set); use dns or static elsewhere",
            )
        authority = f"[{host}]" if ":" in host else host
        return cls(
            url=f"https://{authority}:{port}",
            token_file=account / "token",
            ca_file=account / "ca.crt",
        )


# Source: https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/
class _Conditions(msgspec.Struct):
    terminating: bool | None = None


class _Endpoint(msgspec.Struct):
    addresses: list[str] = []
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class _Port(msgspec.Struct):
    name: str | None = None
    port: int | None = None


class _Slice(msgspec.Struct):
    addressType: str = "IPv4"  # noqa: N815 - the API's own name
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


class _Slices(msgspec.Struct):
    items: list[_Slice]


class KubernetesDiscovery:
    """Lists a service's EndpointSlices; needs the right to `list` them, and nothing else.

    Args:
        port: a number, or the name that the service gives it.
    """

    def __init__(self, api: ClusterApi, *, namespace: str, service: str, port: str) -> None:
        self._api = api
        self._service = f"{namespace}/{service}"
        self._port = port
        self._path = (
            f"/apis/discovery.k8s.io/v1/namespaces/{quote(namespace, safe='')}/endpointslices"
        )
        self._query = {"labelSelector": f"kubernetes.io/service-name={service}"}
        self._client: httpx.AsyncClient | None = None
        self._urls: frozenset[str] = frozenset()
        self._problem: str | None = None

    @classmethod
    def parse(cls, text: str, api: ClusterApi) -> "KubernetesDiscovery":
        """From `NAMESPACE/SERVICE:PORT`.

        Raises:
            InvalidSettingError: it isn't of that form.
        """
        path, _, port = text.rpartition(":")
        namespace, _, service = path.partition("/")
        if not (namespace and service and port) or "/" in service:
            raise InvalidSettingError(
                "replicas.kubernetes",
                f"{text!r} isn't NAMESPACE/SERVICE:PORT, as in serving/engines:30000",
            )
        return cls(api, namespace=namespace, service=service, port=port)

    @property
    def problem(self) -> str | None:
        """Why the last look failed."""
        return self._problem

    async def look(self) -> frozenset[str]:
        """The endpoints' URLs."""
        try:
            answer = await self._ask()
        except (OSError, httpx.HTTPError) as error:
            self._fail(str(error) or type(error).__name__)
            return self._urls
        if answer.status_code != httpx.codes.OK:
            self._fail(_refusal(answer.status_code))
            return self._urls
        try:
            slices = msgspec.json.decode(answer.content, type=_Slices).items
            self._urls = frozenset(url for part in slices for url in _urls(part, self._port))
        except ValueError as error:  # msgspec's own error too, and an address that is none
            self._fail(f"its answer can't be understood: {error}")
        else:
            self._problem = None
        return self._urls

    async def aclose(self) -> None:
        """Drop the connection."""
        if self._client is not None:
            await self._client.aclose()

    async def _ask(self) -> httpx.Response:
        if self._client is None:
            ca = self._api.ca_file
            tls = ssl.create_default_context(cafile=None if ca is None else str(ca))
            # The API is a neighbour: a proxy that the environment names is for the world outside.
            self._client = httpx.AsyncClient(verify=tls, timeout=_LOOK_S, trust_env=False)
        token = self._api.token_file.read_text().strip()
        return await self._client.get(
            self._api.url + self._path,
            params=self._query,
            headers={"authorization": f"Bearer {token}", "accept": "application/json"},
        )

    def _fail(self, problem: str) -> None:
        self._problem = f"the endpoints of {self._service} can't be listed: {problem}"


def _urls(part: _Slice, port: str) -> Iterator[str]:
    number = _number(part, port)
    if part.addressType == "FQDN" or number is None:
        return
    for endpoint in part.endpoints or ():
        # All addresses of an endpoint are the same pod; consumers take the first.
        if endpoint.addresses and not endpoint.conditions.terminating:
            yield address_url(endpoint.addresses[0], number)


def _number(part: _Slice, port: str) -> int | None:
    if port.isdecimal():
        return int(port)
    return next((p.port for p in part.ports or () if p.name == port), None)


def _refusal(status: int) -> str:
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return (
            f"the cluster answered {status}; the pod's service account needs the right to list "
            "endpointslices (discovery.k8s.io) in that namespace"
        )
    return f"the cluster answered {status}"
