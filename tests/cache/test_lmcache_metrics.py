from datetime import UTC, datetime
from pathlib import Path

import pytest

from cache.errors import MetricsFormatError
from cache.lmcache_metrics import parse_lmcache_metrics

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_the_real_servers_page_is_read(captured: Path) -> None:
    page = parse_lmcache_metrics((captured / "lmcache_after.prom").read_text(), at=NOON)
    assert page.lookup_requested_tokens == 9344 + 2304
    assert page.lookup_hit_ram_tokens == 8064 + 1152
    assert page.lookup_hit_l2_tokens == 0
    assert page.ram_used_bytes == 24117248
    assert page.ram_usage_ratio == pytest.approx(0.0449, abs=1e-4)
    assert page.l2_used_bytes == {"fs_native": 24117248}
    assert page.started_unix_s == pytest.approx(1795977146.19)


def test_a_figure_that_the_page_lacks_is_unknown(captured: Path) -> None:
    page = parse_lmcache_metrics((captured / "lmcache_idle.prom").read_text(), at=NOON)
    assert page.lookup_requested_tokens is None
    assert page.lookup_hit_l2_tokens is None


def test_another_page_is_refused(captured: Path) -> None:
    with pytest.raises(MetricsFormatError, match="metrics of LMCache can't be read"):
        parse_lmcache_metrics((captured / "sglang_after.prom").read_text(), at=NOON)
