"""Which source of replicas is used, from settings."""

import os
from collections.abc import Sequence
from typing import Literal

from app.errors import InvalidRequestError, InvalidSettingError
from app.fleet.addresses import replica_url
from app.fleet.discovery import Discovery, StaticDiscovery
from app.fleet.dns import DnsDiscovery
from app.settings import ReplicasSettings

DiscoveryKind = Literal["static", "dns", "kubernetes"]


def open_discovery(
    kind: DiscoveryKind, *, urls: Sequence[str], dns: str | None, kubernetes: str | None
) -> Discovery:
    """The source; nothing is asked yet.

    Raises:
        InvalidSettingError: its setting is missing or malformed.
    """
    match kind:
        case "static":
            return StaticDiscovery(urls)
        case "dns":
            return DnsDiscovery.parse(_required("replicas.dns", dns, "engines.internal:30000"))
        case "kubernetes":
            # Brings an HTTP client that nothing else in the gateway needs.
            from app.fleet.kubernetes import ClusterApi, KubernetesDiscovery

            service = _required("replicas.kubernetes", kubernetes, "serving/engines:30000")
            return KubernetesDiscovery.parse(service, ClusterApi.in_cluster(os.environ))


def check_sources(replicas: ReplicasSettings, *, engine_url: str) -> None:
    """Find what is wrong with the settings before anything is started.

    Raises:
        InvalidSettingError: a URL is none, or the source's setting is missing or malformed.
    """
    told = replicas
    setting = "replicas.urls" if told.urls else "engine.url"
    for url in told.urls or (engine_url,):
        try:
            replica_url(url)
        except InvalidRequestError as error:
            raise InvalidSettingError(setting, str(error)) from error
    open_discovery(told.discovery, urls=told.urls, dns=told.dns, kubernetes=told.kubernetes)


def _required(setting: str, value: str | None, example: str) -> str:
    if value is None:
        raise InvalidSettingError(setting, f"is not set; name the replicas, as in {example}")
    return value
