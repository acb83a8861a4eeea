"""`/foreword/templates`: a template as an operator looks at it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from bench.engine_sim import SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

_TEMPLATE = """\
name: support
version: 3
variables:
  today: {type: text, volatility: turn}
  question: {type: text, volatility: turn}
segments:
  - id: rules
    role: system
    volatility: static
    text: Answer in two sentences.
  - id: day
    role: system
    volatility: turn
    text: " Today is {{ today }}."
  - id: tone
    role: system
    volatility: static
    text: " Be kind, whatever is asked, and say which rule of the shop you rest on when you refuse
      something. If you don't know the answer, say so, and name the team that does. Prices are in
      euros. Deliveries take three working days, five to islands. Goods that were opened can be sent
      back within fourteen days; those that were worn can't. Never promise anything else."
  - id: question
    role: user
    volatility: turn
    text: "{{ question }}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("templates")
    (made / "support.yaml").write_text(_TEMPLATE)
    (made / "gone.yaml").write_text(_TEMPLATE.replace("name: support", "name: gone"))
    return made


@pytest.fixture(scope="module")
def url(
    simulator: SimulatorThread, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    settings = gateway_settings(tmp_path_factory.mktemp("home"), simulator.url)
    with running_gateway(settings.model_copy(update={"templates": folder})) as made:
        wait_until_ready(made)
        yield made


def get(url: str, path: str, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return httpx.get(f"{url}/foreword/templates{path}", headers=headers, trust_env=False)


def test_templates_are_listed_in_order(url: str) -> None:
    listed = get(url, "").json()["data"]
    assert {"name": "support", "version": 3} in listed
    assert listed == sorted(listed, key=lambda each: (each["name"], each["version"]))


def test_a_template_shows_its_segments_and_their_tokens(url: str) -> None:
    shown = get(url, "/support@3").json()
    assert (shown["reference"], shown["changed_on_disk"]) == ("support@3", False)
    assert [segment["id"] for segment in shown["segments"]] == ["rules", "day", "tone", "question"]
    rules, day, *_ = shown["segments"]
    assert (rules["volatility"], rules["text"]) == ("static", "Answer in two sentences.")
    assert rules["tokens"] > 0
    assert (day["uses"], day["tokens"]) == (["today"], None)
    assert shown["scaffold_tokens"] >= rules["tokens"]


def test_what_lint_finds_says_what_it_costs_on_this_engine(url: str, folder: Path) -> None:
    shown = get(url, "/support")
    lint = shown.json()["lint"]
    found = {finding["code"]: finding for finding in lint["findings"]}
    assert found["FW102"]["segment"] == "day"
    assert found["FW102"]["line"] == 14
    assert found["FW102"]["cost"]["token"] > 0
    assert lint["skipped_rules"] == []
    assert "Why it costs" in lint["rules"]["FW102"]["text"]
    assert str(folder) not in shown.text


def test_templates_that_ship_have_no_findings(url: str) -> None:
    assert get(url, "/docqa").json()["lint"]["findings"] == []


def test_a_template_that_is_not_there_is_a_404(url: str) -> None:
    answer = get(url, "/nothing@1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "template_not_found")


def test_a_file_that_changed_or_went_is_said(url: str, folder: Path) -> None:
    """What was loaded is served; what lint says is of the file."""
    file = folder / "gone.yaml"
    file.write_text(file.read_text().replace("Be kind", "Be brief"))
    changed = get(url, "/gone").json()
    assert changed["changed_on_disk"] is True
    assert "Be kind" in changed["segments"][2]["text"]
    file.write_text("name: [")
    broken = get(url, "/gone").json()
    assert broken["changed_on_disk"] is True
    assert broken["lint"]["findings"][0]["code"].startswith("FW9")
    file.unlink()
    gone = get(url, "/gone").json()
    assert (gone["changed_on_disk"], gone["lint"]) == (None, None)


def test_without_an_engine_tokens_are_not_known(folder: Path, tmp_path: Path) -> None:
    settings = gateway_settings(tmp_path, "http://127.0.0.1:9")
    with running_gateway(settings.model_copy(update={"templates": folder})) as url:
        shown = get(url, "/support").json()
    assert (shown["segments"][0]["tokens"], shown["scaffold_tokens"]) == (None, None)
    assert "FW301" in shown["lint"]["skipped_rules"]


def test_only_an_admin_reads_what_all_tenants_prompts_begin_with(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    with open_store(tmp_path, None) as store:
        store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR)
        user = store.create(NewKey(tenant="acme"), by=OPERATOR).key
    with running_gateway(gateway_settings(tmp_path, simulator.url)) as url:
        assert get(url, "", user).status_code == 200
        assert get(url, "/docqa", user).status_code == 403
