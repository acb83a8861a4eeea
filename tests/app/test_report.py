"""The report over HTTP and on the command line, from a running gateway."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.errors import InvalidRequestError
from app.routes.report import parse_moment
from bench.engine_sim import SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
BODY = {
    "model": "default",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "You answer in one word. " * 40 + "What is red?"}],
}


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway that has answered one question three times."""
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, simulator.url)) as url:
        wait_until_ready(url)
        for _ in range(3):
            answer = httpx.post(f"{url}/v1/chat/completions", json=BODY, trust_env=False)
            assert answer.status_code == 200, answer.text
        yield url


def get(gateway: str, **query: object) -> httpx.Response:
    url = f"{gateway}/foreword/report"
    return httpx.get(url, params=query, trust_env=False, timeout=60)  # type: ignore[arg-type]


def run(gateway: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments, "--url", gateway])


@pytest.mark.parametrize(
    ("form", "kind", "begins"),
    [
        ("text", "text/plain; charset=utf-8", "Foreword report, "),
        ("markdown", "text/markdown; charset=utf-8", "# Foreword report, "),
        ("html", "text/html; charset=utf-8", "<!doctype html>"),
        ("json", "application/json", "{"),
    ],
)
def test_each_form_has_its_type(gateway: str, form: str, kind: str, begins: str) -> None:
    answer = get(gateway, format=form)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.startswith(begins)
    assert "chat@1" in answer.text


def test_several_forms_are_of_one_moment(gateway: str) -> None:
    answer = get(gateway, forms="text,markdown").json()
    assert set(answer["forms"]) == {"text", "markdown"}
    made_at = datetime.fromisoformat(answer["report"]["made_at"]).strftime("%Y-%m-%d %H:%M:%S")
    assert all(made_at in text.splitlines()[0] for text in answer["forms"].values())


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"format": "pdf"}, "format"),
        ({"forms": "text,pdf"}, "'pdf' is none of text, json, markdown, html"),
        ({"since": "yesterday"}, "since: 'yesterday' is neither like 24h or 7d nor a date"),
        ({"until": "99999999999d"}, "until: "),
        ({"since": "1h", "until": "2h"}, "since: must be before until"),
        ({"by": "colour"}, "choose among template, tenant"),
        ({"fail_under": "2"}, "'2' is no hit rate to hold templates to"),
        ({"fail_under": ["0.5", "0.6"]}, "each only once"),
        ({"price_per_gpu_hour": "-1"}, "price_per_gpu_hour"),
        ({"price_per_gpu_hour": "inf"}, "price_per_gpu_hour"),
        ({"top": "0"}, "top"),
    ],
)
def test_bad_questions_are_answered_with_what_is_wrong(
    gateway: str, query: dict[str, object], words: str
) -> None:
    answer = get(gateway, **query)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("15m", NOW - timedelta(minutes=15)),
        ("24h", NOW - timedelta(hours=24)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-01-30", datetime(2026, 1, 30, tzinfo=UTC)),
        ("2026-01-30T10:00+02:00", datetime(2026, 1, 30, 8, tzinfo=UTC)),
        (None, None),
    ],
)
def test_a_moment_is_a_time_ago_or_a_date(text: str | None, moment: datetime | None) -> None:
    assert parse_moment(text, NOW, "since") == moment


@pytest.mark.parametrize("text", ["", "h", "²h", "-1h", "1w", "1.5h", "0001-01-01T00:00+10:00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^since: "):
        parse_moment(text, NOW, "since")


def test_the_command_prints_text_and_writes_the_page(gateway: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run(gateway, "--html", str(page))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Foreword report, ")
    assert "chat@1" in done.stdout
    assert f"wrote {page}" in done.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_json_can_be_read_by_programs(gateway: str) -> None:
    done = run(gateway, "--format", "json", "--by", "template,tenant", "--since", "1h")
    values = json.loads(done.stdout)
    assert values["schema_version"] == 2
    assert values["groups"][0]["group"] == {"template": "chat@1", "tenant": "local"}
    assert values["total"]["requests"] == 3


def test_a_template_under_its_budget_ends_with_1_and_a_line(gateway: str) -> None:
    done = run(gateway, "--fail-under", "chat=0.99")
    assert done.exit_code == 1
    assert done.stdout.startswith("Foreword report, ")
    assert done.stderr.startswith("fail: chat@1 is under its budget: hit rate ")
    assert done.stderr.rstrip().endswith("wanted 99 %")
    assert done.stderr.count("\n") == 1


def test_budgets_that_are_kept_end_with_0(gateway: str) -> None:
    done = run(gateway, "--fail-under", "0.01,chat@1=1%")
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_template_without_known_figures_fails_only_if_asked(gateway: str) -> None:
    done = run(gateway, "--fail-under", "docqa=0.5")
    assert done.exit_code == 0
    assert done.stderr == "note: docqa had no request in this time, wanted 50 %\n"
    done = run(gateway, "--fail-under", "docqa=0.5", "--fail-unknown")
    assert done.exit_code == 1
    assert done.stderr.startswith("fail: docqa had no request")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fail-under", "high"), "'high' is no hit rate"),
        (("--format", "pdf"), "'--format'"),
        (("--price-per-gpu-hour", "-1"), "price-per-gpu-hour"),
        (("--top", "0"), "--top"),
        (("--html", "/nowhere/report.html"), "the page can't be written: No such file"),
        (("--until", "soon"), "until: 'soon' is neither"),
    ],
)
def test_bad_usage_ends_with_2_and_one_sentence(
    gateway: str, arguments: tuple[str, ...], words: str
) -> None:
    done = run(gateway, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.output
