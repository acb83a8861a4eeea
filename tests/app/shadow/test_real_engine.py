"""SGLang mirrored to itself: what no simulator can vouch for."""

from pathlib import Path

import httpx
import pytest

from app.settings import ShadowSettings
from tests.app.shadow.conftest import TEXT, Site
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine


def test_an_engine_mirrored_to_itself_re_uses_as_much_and_says_the_same(
    engine: RealEngine, tmp_path: Path
) -> None:
    """Copies find what copies left, never what clients did, and greedy answers are equal."""
    shadow = ShadowSettings(url=engine.url, fraction=1)
    settings = gateway_settings(tmp_path, engine.url, tokenizer=engine.model_path).model_copy(
        update={"shadow": shadow}
    )
    with running_gateway(settings) as url:
        wait_until_ready(url, within_s=120)
        site = Site(url=url)
        for number in range(2):
            blocks = site.converse(f"{number} {TEXT}", turns=2)
            assert blocks[-1]["cached_tokens"] > 0
        for _ in range(2):
            answer = site.post(f"streamed {TEXT}", stream=True)
            assert answer.status_code == 200
        told = site.settled(6, compared=6)
        assert told["hit_rate"]["pairs"] == 6
        # Warm-ups at the start are the live side's alone.
        assert told["hit_rate"]["live"] == pytest.approx(told["hit_rate"]["shadow"], abs=0.05)
        assert told["hit_rate"]["shadow"] > 0.2
        assert told["ttft"]["pairs"] == 2
        assert told["answers"]["equal_share"] == 1
        assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
