"""The plots of a report, as plotly's figures in plain dicts. Pure.

plotly's own Python classes are not used: they take a second to import. Colours are names of the
page's colours (`--gpu`), which its script looks up, so that one figure fits a light and a dark
page. plotly reads a little HTML in texts; names from clients are escaped for it.
"""

from cache.plot_bars import reuse_figure, tier_figure, waterfall_figure
from cache.plot_flame import flame_figure
from cache.plot_layout import Figure
from cache.plot_time import time_figure
from cache.plot_ttft import ttft_figure
from cache.report_values import Report


def figures(report: Report) -> dict[str, Figure]:
    """Every plot that the report has figures for, by the name that its section gives."""
    if report.total is None:
        return {}
    found = {
        "groups": reuse_figure(report.groups),
        "tiers": tier_figure(report.groups),
        "modes": reuse_figure(report.modes),
        "tenants": reuse_figure(report.tenants),
        "collections": reuse_figure(report.collections),
        "replicas": reuse_figure(report.replicas),
    }
    if report.total.waterfall is not None:
        found["waterfall"] = waterfall_figure(report.total.waterfall)
    if report.over_time is not None:
        found["time"] = time_figure(report.over_time)
    if report.ttft is not None and (ttft := ttft_figure(report.ttft)) is not None:
        found["ttft"] = ttft
    if report.flame is not None:
        found["flame"] = flame_figure(report.flame)
    return found
