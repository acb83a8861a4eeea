"""The pages that are made from the code are as the code is now."""

import pytest

from app.references.pages import PAGES
from app.references.rule_index import with_rule_index
from cache.causes import VERDICT_OF, Cause
from cache.verdicts import Verdict
from prompts.lint.registry import RULES
from tests.docs.blocks import ROOT

_HEAD = "\n## By verdict\n"
_TAIL = "\n## By rule code\n"


@pytest.mark.parametrize("path", sorted(PAGES))
def test_a_page_is_current(path: str) -> None:
    written = (ROOT / path).read_text("utf-8")
    assert written == PAGES[path](written), "run `python -m app.references`"


def test_the_table_of_verdicts_has_each_verdict_and_each_cause_once() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    table = page.partition(_HEAD)[2].partition(_TAIL)[0]
    rows = [
        [cell.strip().replace("`", "") for cell in line.split("|")[1:3]]
        for line in table.splitlines()
        if line.startswith("| `")
    ]
    assert {verdict for verdict, _ in rows} == {verdict.value for verdict in Verdict}
    pairs = [(cause, verdict) for verdict, causes in rows for cause in causes.split(", ") if causes]
    assert sorted(pairs) == sorted((cause.value, VERDICT_OF[cause].value) for cause in Cause)


def test_the_index_of_rules_has_each_rule() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    index = page.partition(_TAIL)[2]
    for rule in RULES:
        assert f"[{rule.code}]" in index


def test_a_page_without_a_place_for_the_index_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        with_rule_index("# Troubleshooting\n")
