"""Where the pages' commands run: gateways before a simulated engine, a shell and a Python.

Addresses in the pages are those of a deployment with the defaults; here they are others, and are
put in their places before a block runs.
"""

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import openai

from app.gateway_file import announced
from bench.engine_sim import SimulatorThread
from tests.docs.blocks import ROOT, Block, Run
from tests.docs.console import fits, steps
from tests.docs.shell import Shell
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

FOLDERS = Path(__file__).parent / "folders"
_GATEWAY, _ENGINE = "127.0.0.1:8400", "localhost:30000"
# What the commands of a page find in the working folder, as in a clone. All are copies: a command
# may write.
_COPIED = (
    ".env.example",
    "deploy/kubernetes",
    "docker-compose.yml",
    "prompts.lock",
    "prompts/templates",
    "pyproject.toml",
    "samples",
)
# What a page calls a model's folder.
_MODELS = ("MODEL", "MODEL_FOLDER")
_CLONE = "clone"
_ANSWER_TOKENS = 24
_CURLRC = 'silent\nshow-error\nfail-with-body\nnoproxy = "*"\n'


class BlockFailedError(AssertionError):
    """A command of a page that doesn't do what the page says."""

    def __init__(self, block: Block, problem: str, output: str) -> None:
        super().__init__(f"{block.place}: {problem}\n{output}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One gateway and the home folder by which commands find it."""

    url: str
    home: Path

    @property
    def address(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc


@contextmanager
def started(simulator: SimulatorThread, home: Path) -> Iterator[Gateway]:
    """A gateway with an empty home."""
    settings = gateway_settings(home, simulator.url)
    # The simulated model ends no answer by itself.
    short = settings.gateway.model_copy(update={"default_max_tokens": _ANSWER_TOKENS})
    settings = settings.model_copy(update={"gateway": short})
    with running_gateway(settings) as url, announced(home, url):
        wait_until_ready(url)
        yield Gateway(url=url, home=home)


@dataclass(slots=True, kw_only=True)
class Page:
    """Runs the blocks of one page, one after the other.

    Attributes:
        shared: the gateway that pages share.
        model: a folder with a tokenizer, a chat template and a configuration.
        folder: an empty folder of the page's own.
    """

    shared: Gateway
    simulator: SimulatorThread
    model: Path
    folder: Path
    _closing: ExitStack = field(default_factory=ExitStack)
    _names: dict[str, object] = field(default_factory=dict)
    _gateway: Gateway | None = None
    _work: Path | None = None
    _shell: Shell = field(init=False)

    def __post_init__(self) -> None:
        self._shell = Shell(self.folder)
        self._closing.callback(self._shell.close)
        self._closing.callback(self._close_clients)

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def run(self, block: Block, run: Run) -> None:
        """One block.

        Raises:
            BlockFailedError: it ends with another status, or shows something else.
        """
        if run.own_gateway:
            home = self.folder / f"home-{block.line}"
            self._gateway = self._closing.enter_context(started(self.simulator, home))
            self._shell.close()  # with the variables, a key say, that were of the gateway before
        if run.folder is not None:
            self._work = self.folder / run.folder
        match block.language:
            case "python":
                self._python(block)
            case "bash":
                self._bash(block, block.text, run.status)
            case _:
                self._console(block, run)

    @property
    def gateway(self) -> Gateway:
        """The one that the page's commands reach."""
        return self._gateway or self.shared

    @property
    def work(self) -> Path:
        """The working folder; it is made when it is first asked for."""
        folder = self._work or self.folder / _CLONE
        if not folder.exists():
            if folder.name == _CLONE:
                self._make_clone(folder)
            else:
                shutil.copytree(FOLDERS / folder.name, folder)
        return folder

    def _make_clone(self, folder: Path) -> None:
        shutil.copytree(FOLDERS / "anywhere", folder)
        shutil.copytree(FOLDERS / "home", self.folder, dirs_exist_ok=True)
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name)
            else:
                shutil.copy(source, folder / name)
        (folder / ".venv").symlink_to(sys.prefix)
        for name in _MODELS:
            (folder / name).symlink_to(self.model)
        self._keep_model()

    def _keep_model(self) -> None:
        """As if `foreword up` had made the model: commands count tokens with it."""
        models = self.folder / "cache" / "models"
        models.mkdir(parents=True)
        (models / "made").symlink_to(self.model)
        (models / "made.json").write_text('{"folder": "made"}')

    def _placed(self, text: str) -> str:
        engine = urlsplit(self.simulator.url).netloc
        return text.replace(_GATEWAY, self.gateway.address).replace(_ENGINE, engine)

    def _python(self, block: Block) -> None:
        printed = io.StringIO()
        source = compile(self._placed(block.text), block.place, "exec")
        with contextlib.chdir(self.work), contextlib.redirect_stdout(printed):
            exec(source, self._names)

    def _close_clients(self) -> None:
        """Pages leave them open, as programs that end do."""
        for value in self._names.values():
            if isinstance(value, openai.OpenAI):
                value.close()

    def _console(self, block: Block, run: Run) -> None:
        every = list(steps(block.text))
        for step in every:
            status = run.status if step is every[-1] else 0
            came = self._bash(block, step.command, status)
            if step.output and run.compared and not fits(step.output, came):
                raise BlockFailedError(block, f"{step.command!r} shows something else", came)

    def _bash(self, block: Block, script: str, status: int) -> str:
        """Run a script behind those before, and give what it printed."""
        came = self._shell.run(
            self._placed(script), folder=self.work, environment=self._environment()
        )
        if came.status != status:
            problem = f"ended with {came.status}, not {status}"
            raise BlockFailedError(block, problem, f"{came.output}\n{came.errors}")
        return came.output

    def _environment(self) -> dict[str, str]:
        (self.folder / ".curlrc").write_text(_CURLRC)
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "CURL_HOME": str(self.folder),
            "NO_PROXY": "*",
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            "FOREWORD_HOME": str(self.gateway.home),
            "FOREWORD_CACHE": str(self.folder / "cache"),
        }
