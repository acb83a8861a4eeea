"""All pages that are made from the code, by their paths from the repository's root."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from app.references.command_line import command_line_page
from app.references.http_routes import http_page
from app.references.metric_names import metrics_page
from app.references.rule_index import with_rule_index
from app.settings_reference import settings_reference
from prompts.lint.docs import rules_page

# What makes a page as it has to be now, from what is written there.
PAGES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "docs/cli.md": lambda _: command_line_page(),
        "docs/http-reference.md": lambda _: http_page(),
        "docs/metrics.md": lambda _: metrics_page(),
        "docs/settings.md": lambda _: settings_reference(),
        "docs/troubleshooting.md": with_rule_index,
        "prompts/RULES.md": lambda _: rules_page(),
    }
)
