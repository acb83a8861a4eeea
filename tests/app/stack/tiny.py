"""A tiny engine environment, made by the real installer with the real pip, without a network.

Its lock pins two wheels of a few bytes. Its plugins have the modules that the supervisor runs,
with small HTTP servers in the place of SGLang and LMCache.
"""

import base64
import hashlib
import json
import os
import zipfile
from pathlib import Path

from app.stack.deploy_files import DeployFiles
from app.stack.environment_plan import EnvironmentPlan, plan_environment

# A build backend in the plugin's own folder, so that nothing has to be installed to build it.
BACKEND = """
import pathlib, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = pathlib.Path("NAME").read_text().strip()
    info = f"{name}-1.0.dist-info"
    files = {p.as_posix().removeprefix("src/"): p.read_text() for p in
             sorted(pathlib.Path("src").rglob("*.py"))}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{info}/RECORD"] = "".join(f"{path},,\\n" for path in files)
    wheel = f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel
"""

SERVER = """
import argparse, http.server, os, signal, sys

def serve(port_option, good_paths):
    parser = argparse.ArgumentParser()
    parser.add_argument(port_option, type=int, dest="port")
    options, _ = parser.parse_known_args()
    fault = os.environ.get("TINY_FAULT", "")
    if fault == "no start":
        sys.exit("tiny: no start today")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            good = self.path in good_paths and fault != "never ready"
            self.send_response(200 if good else 503)
            self.end_headers()

        def log_message(self, *_):
            pass

    signal.signal(signal.SIGTERM, lambda *_: fault == "deaf" or os._exit(0))
    print("tiny: listening", flush=True)
    http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
"""

TIER = """
import argparse, pathlib
from foreword_guard import serve

parser = argparse.ArgumentParser()
parser.add_argument("--shm-name")
name = parser.parse_known_args()[0].shm_name
pathlib.Path(f"/dev/shm/lmcache_l1_pool_{name}").write_bytes(b"KV")
serve("--http-port", {"/healthcheck"})
"""

ENGINE = """
from foreword_guard import serve

serve("--port", {"/ready", "/health_generate"})
"""

CHECK = """
import importlib.metadata, sys

for name in ("tiny-one", "tiny-two"):
    if importlib.metadata.version(name) != "1.0":
        sys.exit(f"tiny: {name} is not 1.0")
print("tiny: good")
"""


def write_wheel(folder: Path, name: str, *, version: str = "1.0", payload_bytes: int = 100) -> str:
    """A wheel of one module; returns its SHA-256."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    contents = {
        f"{module}.py": b"#" * payload_bytes,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(_record(path, data) for path, data in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in contents.items():
            # With the constant date that ZipInfo has, so that equal wheels are equal bytes.
            archive.writestr(zipfile.ZipInfo(path), data)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def write_deploy(folder: Path, *, payload_bytes: int = 100) -> DeployFiles:
    """A deploy folder as in the repository, and the wheels of its lock in ``wheels``."""
    (folder / "wheels").mkdir(parents=True)
    (folder / "engine").mkdir()
    lock = folder / "engine" / "requirements-cpu.lock"
    lines = []
    for name in ("tiny-one", "tiny-two"):
        digest = write_wheel(folder / "wheels", name, payload_bytes=payload_bytes)
        lines.append(f"{name}==1.0 \\\n    --hash=sha256:{digest}\n")
    lock.write_text("".join(lines))
    guard = {"__init__.py": SERVER, "engine.py": ENGINE, "tier.py": TIER, "check.py": CHECK}
    plugins = (
        _plugin(folder / "engine-guard", "foreword_guard", guard),
        _plugin(folder / "engine-cpu", "foreword_cpu", {"__init__.py": "", "smollm2.py": ""}),
    )
    return DeployFiles(lock=lock, plugins=plugins)


def offline_env(deploy: DeployFiles) -> dict[str, str]:
    """The environment in which pip finds the tiny wheels and nothing else."""
    wheels = deploy.lock.parent.parent / "wheels"
    mine = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_NO_CACHE_DIR": "1"}
    return {**os.environ, **mine}


def tiny_plan(deploy: DeployFiles, engines: Path) -> EnvironmentPlan:
    return plan_environment(
        deploy, engines=engines, base_env=offline_env(deploy), needs_bytes=1_000_000
    )


def write_model(folder: Path) -> Path:
    """A folder that passes for a model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def _plugin(folder: Path, package: str, modules: dict[str, str]) -> Path:
    source = folder / "src" / package
    source.mkdir(parents=True)
    for name, text in modules.items():
        (source / name).write_text(text)
    (folder / "NAME").write_text(package)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{package}"\nversion = "1.0"\n'
    )
    return folder


def _record(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"
