"""What was re-used, from which tier, and what the engine's own counters say about it."""

from cache.alerts import BudgetCheck, Budgets, BudgetStatus, VersionFell
from cache.crosscheck import CrossCheck, CrossCheckLine, SourceTokens, cross_check
from cache.engine_metrics import (
    CachedTokens,
    CacheSource,
    CounterTrack,
    EngineDelta,
    EngineSnapshot,
    combine,
    delta,
    parse_engine_metrics,
)
from cache.errors import (
    CacheError,
    LedgerRowError,
    LedgerUnavailableError,
    MetricsFormatError,
    ReportBudgetError,
    ReportGroupError,
    ReportPageError,
    TierSettingsError,
)
from cache.ledger import Ledger, LedgerStatus
from cache.lmcache_metrics import LmcacheSnapshot, parse_lmcache_metrics
from cache.pages import page_floor, page_hashes
from cache.report import Prices, Report, load_report
from cache.report_html import render_html
from cache.report_json import to_json
from cache.report_markdown import render_markdown
from cache.report_text import render_text
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.savings import Savings
from cache.summary import GROUPS, HitRate, Percentiles, Summary, TierSums, TokenSum, summaries
from cache.tables import metadata
from cache.tiers import (
    RedisTier,
    TierSettings,
    engine_config,
    guard_environment,
    server_arguments,
    server_environment,
)
from cache.usage import CacheUsage, Tier, TierTokens, parse_usage

__all__ = [
    "GROUPS",
    "BudgetCheck",
    "BudgetStatus",
    "Budgets",
    "CacheError",
    "CacheSource",
    "CacheUsage",
    "CachedTokens",
    "CounterTrack",
    "CrossCheck",
    "CrossCheckLine",
    "EngineDelta",
    "EngineSnapshot",
    "HitRate",
    "Ledger",
    "LedgerRow",
    "LedgerRowError",
    "LedgerStatus",
    "LedgerUnavailableError",
    "LmcacheSnapshot",
    "MetricsFormatError",
    "Percentiles",
    "Prices",
    "RedisTier",
    "Report",
    "ReportBudgetError",
    "ReportGroupError",
    "ReportPageError",
    "RequestStatus",
    "Savings",
    "SourceTokens",
    "Summary",
    "Tier",
    "TierSettings",
    "TierSettingsError",
    "TierSums",
    "TierTokens",
    "TokenSum",
    "VersionFell",
    "combine",
    "cross_check",
    "delta",
    "engine_config",
    "guard_environment",
    "insert_rows",
    "load_report",
    "metadata",
    "page_floor",
    "page_hashes",
    "parse_engine_metrics",
    "parse_lmcache_metrics",
    "parse_usage",
    "render_html",
    "render_markdown",
    "render_text",
    "server_arguments",
    "server_environment",
    "summaries",
    "to_json",
]
