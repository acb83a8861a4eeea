"""Four gateways before one engine: one that knows all, and three whose evidence is taken away."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from app.settings import Settings, TiersSettings
from bench.verdicts import Bench, Site
from bench.verdicts.forwarders import event_line, keeping_quiet
from bench.verdicts.texts import TEMPLATES
from tests.contracts.client import StartedEngine
from tests.engines import wait_until_heard
from tests.gateways import gateway_settings, running_gateway, wait_until_ready


@contextmanager
def verdict_bench(
    engine: str, home: Path, model: Path, tiers: TiersSettings, *, store_s: float
) -> Iterator[Bench]:
    """All gateways, ready and following the engine's KV events as far as they may."""
    info = httpx.get(f"{engine}/server_info", trust_env=False).json()
    events = info["kv_events"]
    source = f"tcp://{events['endpoint_host']}:{events['endpoint_port_base']}"
    with ExitStack() as stack:
        line = stack.enter_context(event_line(source, topic=events["topic"]))
        silent = stack.enter_context(keeping_quiet(engine, hidden=["cache_report"]))
        eventless = stack.enter_context(keeping_quiet(engine, hidden=["kv_events"]))
        engines = {
            Site.PLAIN: (engine, {}),
            Site.DEAF: (engine, {"kv_events": line.address}),
            Site.SILENT: (silent, {}),
            Site.EVENTLESS: (eventless, {}),
        }
        sites = {
            site: stack.enter_context(
                running_gateway(_settings(home / site, url, model, tiers, **given))
            )
            for site, (url, given) in engines.items()
        }
        for url in sites.values():
            wait_until_ready(url)
        heard = [url for site, url in sites.items() if site is not Site.EVENTLESS]
        wait_until_heard(StartedEngine(url=engine, model_path=model), *heard)
        yield Bench(
            sites=sites,
            engine=engine,
            pool_tokens=int(info["max_total_num_tokens"]),
            drop_events=line.drop,
            store_s=store_s,
        )


def _settings(
    home: Path, engine: str, model: Path, tiers: TiersSettings, **given: object
) -> Settings:
    made = gateway_settings(home, engine, tokenizer=model, **given)
    return made.model_copy(update={"tiers": tiers, "templates": TEMPLATES})
