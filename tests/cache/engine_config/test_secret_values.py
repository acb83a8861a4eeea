"""No password, key or token of a configuration is shown with a finding."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from app.cli import main
from cache.engine_config import covered, lint_configs
from cache.errors import EngineConfigError
from prompts.lint.source_file import SourceFile

ENGINE = "python -m sglang.launch_server --model-path /m --disable-radix-cache"
TIER = "lmcache server --l1-size-gb 4 --eviction-policy LRU"
SHELL = [
    f"{ENGINE} --api-key SECRET-1 --admin-api-key=SECRET-2\n",
    f"{ENGINE} --api-key 'SECRET 1' --ssl-keyfile-password=\"SECRET, 2\"\n",
    f"{ENGINE} --api-key \\\n  SECRET-1 --page-size 16\n",
    f"K=SECRET-1; {ENGINE} --api-key $K\n",
    f"K=s1; {ENGINE} --api-key $K\n".replace("s1", "SEC"),
    f"{ENGINE} --api-key ${{KEY:-SECRET-1}}\n",
    f"HF_TOKEN=SECRET-1 {ENGINE} --api-key SECRET-2\n",
    f"{ENGINE} --api-key SECRET-ü🙂,x}}y --page-size 16\n",
    f"docker run -e HF_TOKEN=SECRET-1 --env LMCACHE_RESP_PASSWORD='SECRET 2' image {ENGINE}\n",
    f"LMCACHE_RESP_PASSWORD=SECRET-1 {TIER} "
    '--l2-adapter \'{"type":"resp","password":"SECRET-2","more":{"token":"SECRET-3"}}\'\n',
    f'{TIER} --l2-adapter "{{\\"type\\":\\"s3\\",\\"secret_key\\":\\"SECRET-1\\"}}"\n',
    f'{TIER} --l2-adapter \'{{"type":"resp","password":"SECRET\\"1"}}\'\n',
    "redis-server --requirepass SECRET-1 --masterauth 'SECRET 2' --maxmemory-policy volatile-lru\n",
    "redis-server --user default on '>SECRET-1' --maxmemory-policy volatile-lru\n",
    f"MORE=${{HF_TOKEN:-SECRET-1}} {ENGINE}\n",
    f"{ENGINE} --api-key x  # foreword: ignore[FW725] REDIS_URL=redis://:SECRET/1@2SECRET@h\n",
]
COMPOSE = """\
services:
  engine:
    image: lmsysorg/sglang
    environment:
      HF_TOKEN: SECRET-1
      OTHER_API_KEY: "SECRET 2"
    command: [python3, -m, sglang.launch_server, --model-path, /m, --api-key, SECRET-3]
  tier:
    environment: ["LMCACHE_RESP_PASSWORD=SECRET-4", A=1]
    command:
      - lmcache
      - server
      - --l1-size-gb=4
      - --l2-adapter={"type":"resp","host":"kv","password":"SECRET-5"}
      - "--l2-adapter={\\"type\\":\\"resp\\",\\"host\\":\\"kv\\",\\"password\\":\\"SECRET-6\\"}"
  kv:
    image: redis:7
    command: ["redis-server", "--requirepass", "SECRET-7"]
    ports: ["6379:6379"]
"""
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: engine}
spec:
  containers:
    - name: sglang
      image: lmsysorg/sglang
      command: [python3, -m, sglang.launch_server]
      args:
        - --model-path=/m
        - --api-key
        - SECRET-1
        - --disable-radix-cache
      env:
        - {name: HF_TOKEN, value: "SECRET-2"}
        - name: LMCACHE_RESP_PASSWORD
          value: SECRET-3
"""
FILES = [
    *((f"start{number}.sh", text) for number, text in enumerate(SHELL)),
    ("compose.yml", COMPOSE),
    ("pod.yaml", MANIFEST),
    ("info.json", '{"model_path": "/m", "api_key": "SECRET-1", "admin_api_key": null}'),
    ("engine.yaml", "model-path: /m\napi-key: SECRET-1\ndisable-radix-cache: true\n"),
    (
        "redis.conf",
        "port 6380\nrequirepass SECRET-1\nuser a on >SECRET-2 ~*\nmaxmemory-policy volatile-lru\n",
    ),
]


@pytest.mark.parametrize(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_secrets_are_covered_and_places_stay(name: str, text: str) -> None:
    source = SourceFile(Path(name), text.encode())
    hidden = covered(source)
    assert "SEC" not in hidden.text, hidden.text
    assert len(hidden.text) == len(text)
    assert len(hidden.data) == len(source.data)
    assert hidden.line_starts == source.line_starts


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
@pytest.mark.parametrize(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_no_output_shows_a_secret(
    name: str, text: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    done = CliRunner().invoke(main, ["lint", "--engine-config", name, "--format", form])
    assert done.exit_code == 1, done.output
    assert "SEC" not in done.output


def test_the_rest_of_a_line_stays_readable() -> None:
    text = f"{ENGINE} --api-key abcdef --max-total-tokens 4096 --tokenizer-path /t --tp 2\n"
    shown = covered(SourceFile(Path("a.sh"), text.encode())).text
    assert shown == text.replace("abcdef", "******")
    plain = (
        "services:\n  e:\n    secrets: [kv_key]\n"
        "    environment: {KV_KEY_FILE: /run/k, HF_TOKEN: '${T}'}\n"
    )
    assert covered(SourceFile(Path("c.yml"), plain.encode())).text == plain


def test_our_own_compose_file_has_nothing_to_cover() -> None:
    path = Path(__file__).parents[3] / "docker-compose.yml"
    source = SourceFile(path, path.read_bytes())
    assert covered(source).data == source.data


SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=6
)


@given(SECRETS.filter(lambda text: not text.startswith(("$", "--", "{"))))
def test_any_password_of_an_adapter_is_covered(password: str) -> None:
    adapter = json.dumps({"type": "resp", "password": password}, ensure_ascii=False)
    quoted = adapter.replace("'", "'\\''")
    source = SourceFile(Path("a.sh"), f"{TIER} --l2-adapter '{quoted}'\n".encode())
    try:
        found = lint_configs([source]).findings
    except EngineConfigError:
        return
    hidden = covered(source)
    assert len(hidden.data) == len(source.data)
    written = json.dumps(password, ensure_ascii=False)[1:-1].replace("'", "'\\''")
    if any(finding.code == "FW725" for finding in found) and written.strip("*·•🞄 "):
        assert written not in hidden.text.removeprefix(TIER)
