"""A name that isn't one is told, with where it stands and which is meant; nothing is dropped."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.setting_names import all_settings, strays, variable
from app.settings import Settings

ROOT = Path(__file__).parent.parent.parent
_READ = re.compile(r"FOREWORD_[A-Z0-9_]*[A-Z0-9]\b(?!…)")


def served(command: str = "serve") -> Result:
    """A start that ends at its settings: nobody listens to that address."""
    host = [] if command == "up" else ["--host", "203.0.113.7"]
    return CliRunner().invoke(main, [command, *host])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREWORD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOREWORD_GATEWAY__ALLOW_WITHOUT_KEYS", "true")
    return tmp_path


@pytest.mark.parametrize("command", ["serve", "up"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("GATWAY__PORT", "did you mean FOREWORD_GATEWAY__PORT?"),
        ("LIMIT__TOKENS_PER_MIN", "did you mean FOREWORD_LIMITS__TOKENS_PER_MIN?"),
        ("LIMIT__TOKENS_PER_MINUTE", "did you mean FOREWORD_LIMITS__TOKENS_PER_MIN?"),
        ("_GATEWAY__PORT", "did you mean FOREWORD_GATEWAY__PORT?"),
        ("CORS__ORIGINS", "did you mean FOREWORD_WIRE__ORIGINS?"),
        ("GATEWAY__ORIGINS", "did you mean FOREWORD_WIRE__ORIGINS?"),
        ("ENGINE__URLS", "did you mean FOREWORD_ENGINE__URL?"),
        ("DATABASE__ULR_FILE", "did you mean FOREWORD_DATABASE__URL?"),
        ("MCP__SERVERS__MINE__COMAND", "did you mean FOREWORD_MCP__SERVERS__MINE__COMMAND?"),
        ("HOME__PATH", "docs/settings.md has all names"),
        ("QUITE__OTHER", "docs/settings.md has all names"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, command: str, name: str, meant: str
) -> None:
    monkeypatch.setenv(f"FOREWORD_{name}", "/etc/hostname" if name.endswith("FILE") else "1")
    done = served(command)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"FOREWORD_{name}: there is no ")
    assert done.stderr.endswith(f"{meant}\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ('[engin]\nurl = "http://a"', "[engin]: there is no such section; did you mean [engine]?"),
        ('hom = "x"', "`hom`: there is no such setting; did you mean `home`?"),
        (
            '[engine]\nurls = "http://a"',
            "`urls` under [engine]: there is no such setting; did you mean `url`?",
        ),
        (
            "[gateway]\norigins = []",
            "`origins` under [gateway]: there is no such setting; "
            "did you mean `origins` under [wire]?",
        ),
        (
            '[mcp.servers.mine]\ncomand = "x"',
            "`comand` under [mcp.servers.mine]: there is no such setting; did you mean `command`?",
        ),
        (
            '[[webhooks.endpoints]]\nulr = "https://a"',
            "`endpoints` under [webhooks]: item 1, `ulr`: there is no such setting; "
            "did you mean `url`?",
        ),
        (
            '[replicas]\nurls = "http://a"',
            '`urls` under [replicas]: it must be a list, written as ["http://a"]',
        ),
        (
            '[replicas]\nurls = ["engine-1:30000"]',
            "`urls` under [replicas]: this URL can't be a replica: it must start with http:// or "
            "https:// and name a host",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_told_as_it_stands_there(
    here: Path, written: str, says: str
) -> None:
    (here / "foreword.toml").write_text(written)
    done = CliRunner().invoke(main, ["serve", "--port", "0"])
    assert (done.exit_code, done.stderr) == (2, f"foreword.toml, {says}\n")


def test_the_environment_is_named_where_it_wins(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "foreword.toml").write_text("[gateway]\nport = 9000\n")
    monkeypatch.setenv("FOREWORD_GATEWAY__PORT", "many")
    assert served().stderr.startswith("FOREWORD_GATEWAY__PORT: ")


def test_what_was_given_as_an_option_is_not_sought_in_the_file(here: Path) -> None:
    (here / "foreword.toml").write_text("[gateway]\ndrain_s = 9\n")
    assert served().stderr.startswith("FOREWORD_GATEWAY__HOST: can't listen on 203.0.113.7")


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("REPLICAS__URLS", "http://a, http://b", '["http://a", "http://b"]'),
        ("REPLICAS__URLS", "[http://a]", '["http://a"]'),
        ("REPLICAS__URLS", "http://u:secret@a", '["a", "b"]'),
        ("ENGINE__TIERS", "gpu", '["gpu"]'),
        ("WEBHOOKS__ENDPOINTS", "https://a", '[{"url": …, "secret": …}]'),
        ("MCP__SERVERS__MINE__ARGS", "-m", '["-m"]'),
        ("GATEWAY", "8400", '{"host": …}'),
        ("REPLICAS__URLS", '"http://a"', '["http://a"]'),
    ],
)
def test_a_list_that_is_none_is_named_and_shown_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, written: str
) -> None:
    monkeypatch.setenv(f"FOREWORD_{name}", value)
    done = served()
    assert done.exit_code == 2
    assert done.stderr.startswith(f"FOREWORD_{name}: it must be ")
    assert written in done.stderr
    assert "secret@" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_another_program_may_read_is_only_told() -> None:
    given = {
        "FOREWORD_GATEWAY_PORT": "8400",
        "FOREWORD_APIKEY": "fw-a",
        "FOREWORD_COLOUR": "blue",
        "ELSEWHERE": "1",
    }
    ends = "is set and is no setting of Foreword, so nothing reads it"
    assert list(strays(Settings, given)) == [
        f"FOREWORD_APIKEY {ends}; did you mean FOREWORD_API_KEY?",
        f"FOREWORD_COLOUR {ends}",
        f"FOREWORD_GATEWAY_PORT {ends}; did you mean FOREWORD_GATEWAY__PORT?",
    ]


def test_nothing_that_foreword_reads_is_strange_to_it() -> None:
    read = set[str]()
    for folder in ("app", "cache", "prompts", "deploy/engine-guard/src", "tests", "deploy/images"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".Dockerfile"} and file != Path(__file__):
                read |= set(_READ.findall(file.read_text()))
    read = {name for name in read if "__" not in name}
    assert {"FOREWORD_HOME", "FOREWORD_URL", "FOREWORD_KV_KEY_FILE"} <= read
    sections = {variable(path[:1]) for path, _ in all_settings(Settings)}
    told = list(strays(Settings, dict.fromkeys(read - sections, "1")))
    assert not told


def test_what_kubernetes_sets_for_services_called_foreword_is_not_told() -> None:
    links = {
        "FOREWORD_PORT": "tcp://10.0.0.1:8400",
        "FOREWORD_SERVICE_HOST": "10.0.0.1",
        "FOREWORD_SERVICE_PORT_HTTP": "8400",
        "FOREWORD_PORT_8400_TCP": "tcp://10.0.0.1:8400",
        "FOREWORD_PORT_8400_TCP_ADDR": "10.0.0.1",
        "FOREWORD_GATEWAY_PORT": "tcp://10.0.0.1:8400",
        "FOREWORD_GATEWAY_SERVICE_PORT": "8400",
    }
    assert list(strays(Settings, links)) == []


def test_a_key_file_of_the_tiers_is_no_setting(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds random bytes, and may stand in the environment of all parts."""
    key = here / "kv.key"
    key.write_bytes(b"\xff" * 32)
    monkeypatch.setenv("FOREWORD_KV_KEY_FILE", str(key))
    assert Settings().home == here / "home"


def test_lints_part_of_the_file_is_lints(here: Path) -> None:
    (here / "foreword.toml").write_text('[lint]\nfail-on = "never"\n')
    assert "can't listen on" in served().stderr
