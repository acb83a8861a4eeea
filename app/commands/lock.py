"""`foreword lock`: records what each template version is; with --check, says what has changed."""

import subprocess
import sys
from pathlib import Path

import click

from app.commands.lock_output import LockOutcome, Told, json_output, summary, text_output
from app.commands.lock_traffic import read_report, traffic_of
from app.commands.templates_option import open_library, templates_option
from app.commands.tokenizer import (
    NO_TOKENIZER_HINT,
    CommandInputError,
    open_tokenizer,
    tokenizer_options,
)
from app.stack.files import write_whole
from prompts import PromptTokenizer
from prompts.errors import LockFileError
from prompts.lock import Lock, lock_templates
from prompts.lock_check import LockProblem, check_lock, check_lock_against, next_lock
from prompts.lock_cost import Traffic
from prompts.lock_file import lock_text, parse_lock

_OTHER_TOKENIZER_HINT = (
    "token counts are left as they are: the lock was made with another tokenizer than the newest "
    "model's; name the one to count with by --tokenizer FOLDER"
)


@click.command()
@click.option("--check", is_flag=True, help="write nothing; exit 1 if the lock isn't current")
@click.option(
    "--lock",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("prompts.lock"),
    show_default=True,
    help="the lock file",
)
@click.option(
    "--against",
    metavar="REV",
    help="versions are final when the lock of this git revision has them, later ones are drafts",
)
@click.option("--force", is_flag=True, help="record changed bytes under an old version")
@click.option("--page-size", type=click.IntRange(1), default=64, show_default=True)
@click.option("--requests-per-s", type=click.FloatRange(0, min_open=True), help="for the cost")
@click.option("--prefill-tok-s", type=click.FloatRange(0, min_open=True), help="for the cost")
@click.option("--url", envvar="FOREWORD_URL", help="gateway whose ledger tells the cost")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="FOREWORD_HOME",
    default=Path("~/.local/share/foreword"),
    help="home of the stack whose ledger tells the cost",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@tokenizer_options
@templates_option
def lock(
    *,
    check: bool,
    path: Path,
    against: str | None,
    force: bool,
    page_size: int,
    requests_per_s: float | None,
    prefill_tok_s: float | None,
    url: str | None,
    home: Path,
    output: str,
    tokenizer: Path | None,
    cache: Path,
    templates: Path | None,
) -> None:
    """Record the templates in prompts.lock, or check them against it.

    A recorded version is final: other bytes under it would make every cached prompt of that
    template cold, so that they need a new version. Each change is told with what it costs, from
    the ledger of a running gateway or from --requests-per-s and --prefill-tok-s.
    """
    recorded = _read(path)
    opened = _tokenizer(tokenizer, cache, recorded)
    now = lock_templates(open_library(templates), opened)
    base = None if against is None else _read_at(path, against)
    problems = _problems(base, recorded, now, page_size=page_size)
    final = tuple(problem for problem in problems if problem.fault.needs_version)
    refused = bool(problems) if check else bool(final) and not force
    if not check and not refused:
        _write(path, next_lock(recorded, now))
    given = Traffic(requests_per_s=requests_per_s, prefill_tok_s=prefill_tok_s)
    report = read_report(url, home) if problems else None
    shown = final if refused and not check else problems
    outcome = LockOutcome(
        path=path,
        templates=len(now.templates),
        told=tuple(Told(problem, traffic_of(problem.since, report, given)) for problem in shown),
        check=check,
        refused=refused,
    )
    click.echo(json_output(outcome) if output == "json" else text_output(outcome), nl=False)
    click.echo(summary(outcome), err=True)
    sys.exit(1 if refused else 0)


def _problems(
    base: Lock | None, recorded: Lock, now: Lock, *, page_size: int
) -> tuple[LockProblem, ...]:
    if base is None:
        return check_lock(recorded, now, page_size=page_size)
    return check_lock_against(base, recorded, now, page_size=page_size)


def _tokenizer(folder: Path | None, cache: Path, recorded: Lock) -> PromptTokenizer | None:
    """What to count with: the one that is asked for, or the newest if it is the lock's own."""
    opened = open_tokenizer(folder, cache)
    if opened is None:
        click.echo(NO_TOKENIZER_HINT, err=True)
    elif folder is None and recorded.tokenizer not in (None, opened.identity):
        click.echo(_OTHER_TOKENIZER_HINT, err=True)
        return None
    return opened


def _write(path: Path, made: Lock) -> None:
    try:
        write_whole(path, lock_text(made).encode(), mode=0o666, durable=False)
    except OSError as error:
        raise CommandInputError(f"{path} can't be written: {error.strerror}") from error


def _read(path: Path) -> Lock:
    """The lock in a file; where there is no file, nothing is recorded."""
    try:
        return _parsed(path, path.read_bytes())
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise CommandInputError(f"{path} can't be read: {error.strerror}") from error


def _read_at(path: Path, revision: str) -> Lock:
    """The lock as a git revision has it; where that has none, nothing is recorded."""
    folder = path.absolute().parent
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    base = commit.decode().strip()
    listed = _git(folder, "ls-tree", "--name-only", base, "--", f"./{path.name}")
    return _parsed(path, _git(folder, "show", f"{base}:./{path.name}")) if listed else Lock()


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandInputError(f"--against needs git, which doesn't run: {error}") from error
    if done.returncode:
        problem = done.stderr.decode(errors="replace").strip() or "no such revision"
        raise CommandInputError(f"--against: git {arguments[0]} says: {problem}")
    return done.stdout


def _parsed(path: Path, data: bytes) -> Lock:
    try:
        return parse_lock(path, data)
    except LockFileError as error:
        raise CommandInputError(str(error)) from error
