"""The benchmarks of RAG and CAG, run small before the simulated engine."""

from pathlib import Path

from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread, TierConfig
from bench.rag_cag import tenants
from bench.rag_cag.score import is_good, tenant_scores
from bench.rag_cag.stacks import Stack
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import write_tokenizer

POOL = 4096


def test_tenants_in_rotation_find_their_corpora_in_the_tiers(tmp_path: Path) -> None:
    """What keeps corpora in the engine's memory doesn't fight those that take turns in it."""
    config = SimulatorConfig(
        model_path=write_tokenizer(tmp_path / "tiny"),
        capacity_tokens=POOL,
        context_tokens=POOL,
        tier=TierConfig(),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
        clock=ClockConfig(speedup=20),
    )
    with SimulatorThread(config) as engine:
        settings = gateway_settings(tmp_path / "home", engine.url)
        with running_gateway(settings) as url:
            wait_until_ready(url)
            options = tenants.TenantOptions(visits=2, share=0.8)
            stack = Stack(url=url, engine_url=engine.url)
            records = list(tenants.measure(stack, options, pool_tokens=POOL))
    assert len(records) == 12
    scores = tenant_scores(records)
    assert all(0.6 * POOL < score.corpus_tokens < POOL for score in scores)
    assert is_good("tenants", records), scores
