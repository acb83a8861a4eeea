"""`foreword bench workload KIND`: a workload file from a seed, or from what really happened."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import orjson

from bench.errors import WorkloadError
from bench.workloads.agents import AgentLoops, agent_loops, recorded_loops
from bench.workloads.documents import (
    DocumentQuestions,
    Layout,
    document_questions,
    made_documents,
)
from bench.workloads.options import FILE, Common, common_options, input_name, write
from bench.workloads.prefix_repetition import PrefixRepetition, prefix_repetition
from bench.workloads.shared_prefix import SharedPrefix, shared_prefix
from bench.workloads.sharegpt import Conversations, sharegpt

_COUNT = click.IntRange(1)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_TEXTS = (".md", ".rst", ".txt")


@click.group(context_settings={"show_default": True})
def workload() -> None:
    """Make a list of requests: the same seed and inputs, the same bytes, on any machine."""


@workload.command("prefix-repetition")
@click.option("--prefix-repetition-prefix-len", "--prefix-len", "prefix_len",
              type=click.IntRange(0), default=256)  # fmt: skip
@click.option("--prefix-repetition-suffix-len", "--suffix-len", "suffix_len",
              type=_COUNT, default=256)  # fmt: skip
@click.option("--prefix-repetition-num-prefixes", "--num-prefixes", "num_prefixes",
              type=_COUNT, default=10)  # fmt: skip
@click.option("--prefix-repetition-output-len", "--output-len", "output_len",
              type=_COUNT, default=128)  # fmt: skip
@click.option("--num-prompts", type=_COUNT, default=1000)
@click.option("--skew", type=click.FloatRange(0), default=0.0, help="Zipf's; 0: all equally often")
@click.option("--role", type=click.Choice(["user", "system"]), default="user",
              help="message that the prefix stands in")  # fmt: skip
@click.option("--unique", is_flag=True, help="no two prefixes are the same: nothing to gain")
@common_options
def prefix_repetition_command(common: Common, **asked: Any) -> None:
    """A few long beginnings, each with many ends (vLLM's `prefix_repetition`)."""
    spec = PrefixRepetition(**asked)
    write(
        common,
        "prefix-repetition",
        lambda words: prefix_repetition(spec, words, common.seed),
        asdict(spec),
    )


@workload.command("generated-shared-prefix")
@click.option("--gsp-num-groups", "num_groups", type=_COUNT, default=64)
@click.option("--gsp-prompts-per-group", "prompts_per_group", type=_COUNT, default=16)
@click.option("--gsp-system-prompt-len", "system_prompt_len", type=_COUNT, default=2048)
@click.option("--gsp-question-len", "question_len", type=_COUNT, default=128)
@click.option("--gsp-output-len", "output_len", type=_COUNT, default=256)
@click.option("--gsp-range-ratio", "range_ratio", type=click.FloatRange(0, 1), default=1.0)
@click.option("--gsp-num-turns", "num_turns", type=_COUNT, default=1)
@click.option("--gsp-group-distribution", type=click.Choice(["uniform", "zipf"]),
              default="uniform")  # fmt: skip
@click.option("--gsp-zipf-alpha", "zipf_alpha", type=click.FloatRange(0, min_open=True))
@click.option("--gsp-ordered", "ordered", is_flag=True)
@common_options
def shared_prefix_command(common: Common, gsp_group_distribution: str, **asked: Any) -> None:
    """Groups of prompts with a system prompt each (SGLang's `generated-shared-prefix`)."""
    if (gsp_group_distribution == "zipf") != (asked["zipf_alpha"] is not None):
        raise click.UsageError("--gsp-group-distribution zipf and --gsp-zipf-alpha go together")
    spec = SharedPrefix(**asked)
    write(
        common,
        "generated-shared-prefix",
        lambda words: shared_prefix(spec, words, common.seed),
        asdict(spec),
    )


@workload.command("sharegpt")
@click.argument("file", type=FILE)
@click.option("--num-conversations", type=_COUNT, help="chosen by chance  [default: all]")
@click.option("--max-turns", type=_COUNT)
@click.option("--max-output", type=_COUNT, default=1024)
@click.option("--recorded", is_flag=True, help="later turns hold the file's own answers")
@common_options
def sharegpt_command(common: Common, file: Path, **asked: Any) -> None:
    """Conversations of a file in ShareGPT's form, with the answers that really come."""
    spec = Conversations(**asked)
    rows = _json(file)
    write(
        common,
        "sharegpt",
        lambda words: sharegpt(rows, spec, words, common.seed),
        asdict(spec) | {"input": input_name(file)},
    )


@workload.command("docqa")
@click.argument("folder", type=_FOLDER, required=False)
@click.option("--num-documents", type=_COUNT, default=20, help="made ones, without a folder")
@click.option("--document-len", type=_COUNT, default=1000, help="of a made one")
@click.option("--questions", type=_COUNT, default=100)
@click.option("--documents-per-question", type=_COUNT, default=1)
@click.option("--skew", type=click.FloatRange(0), default=1.0, help="Zipf's, of the documents")
@click.option("--output-len", type=_COUNT, default=64)
@click.option("--layout", type=click.Choice([layout.value for layout in Layout]),
              default=Layout.SCAFFOLD_FIRST.value)  # fmt: skip
@click.option("--clock", is_flag=True, help="a time on top that moves on")
@click.option("--shuffled", is_flag=True, help="documents in another order each time")
@click.option("--word", default="Document", help="what a document is called")
@click.option("--collection", help="of the gateway: it puts the documents into the prompt")
@click.option("--mode", type=click.Choice(["rag", "cag", "auto"]), help="with --collection")
@common_options
def docqa_command(
    common: Common,
    folder: Path | None,
    num_documents: int,
    document_len: int,
    layout: str,
    **asked: Any,
) -> None:
    """Questions about the documents of a folder, or of a collection, or made ones."""
    spec = DocumentQuestions(layout=Layout(layout), **asked)
    told: dict[str, Any] = asdict(spec)
    held = None if folder is None else _documents(folder)
    if folder is not None and held is not None:
        told["input"] = {"folder": folder.name, "documents": len(held)}
    else:
        told |= {"num_documents": num_documents, "document_len": document_len}
    write(
        common,
        "docqa",
        lambda words: document_questions(
            held or made_documents(num_documents, document_len, words, common.seed),
            spec,
            common.seed,
        ),
        told,
    )


@workload.command("agents")
@click.argument("file", type=FILE, required=False)
@click.option("--agents", type=_COUNT, default=20, help="loops; of a file the first ones")
@click.option("--turns", type=_COUNT, default=8)
@click.option("--tools", type=click.IntRange(0), default=12)
@click.option("--system-len", type=_COUNT, default=600)
@click.option("--task-len", type=_COUNT, default=60)
@click.option("--result-len", type=_COUNT, default=150)
@click.option("--output-len", type=_COUNT, default=48, help="of a file: the longest")
@click.option("--shuffled-tools", is_flag=True, help="tools in another order each time")
@common_options
def agents_command(common: Common, file: Path | None, **asked: Any) -> None:
    """Agents with tools, whose transcripts grow; made ones, or a file of tau-bench's."""
    if file is None:
        spec = AgentLoops(**asked)
        write(common, "agents", lambda words: agent_loops(spec, words, common.seed), asdict(spec))
        return
    rows = _json(file)
    limits = {"agents": asked["agents"], "max_output": asked["output_len"]}
    write(
        common,
        "agents",
        lambda words: recorded_loops(rows, words, **limits),
        limits | {"input": input_name(file)},
    )


@workload.command("log")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--output-len", type=_COUNT, default=128, help="where the log doesn't tell it")
@common_options
def log_command(common: Common, file: Path, output_len: int) -> None:
    """Your own traffic from a log of requests, its texts replaced.

    Lengths and shared beginnings are kept. The texts can't be read back, but who knows the seed can
    test a guess of a whole beginning: choose one, and keep it.
    """
    from bench.workloads.request_log import log_requests
    from cache.errors import RequestLogError
    from cache.request_log.reader import open_log

    try:
        with open_log(file) as lines:
            write(
                common,
                "log",
                lambda words: log_requests(lines, words, common.seed, default_output=output_len),
                {"default_output": output_len, "input": input_name(file)},
            )
    except RequestLogError as error:
        raise WorkloadError(str(file), str(error)) from error


@workload.command("ledger")
@click.option("--home", type=click.Path(path_type=Path, file_okay=False), envvar="FOREWORD_HOME",
              default=Path("~/.local/share/foreword"))  # fmt: skip
@click.option("--database", envvar="FOREWORD_DATABASE__URL",
              help="URL of a PostgreSQL or SQLite database  [default: the home's]")  # fmt: skip
@click.option("--last", type=_COUNT, default=10_000, help="so many requests at most")
@click.option("--output-len", type=_COUNT, default=128, help="where the ledger doesn't have it")
@common_options
def ledger_command(
    common: Common, home: Path, database: str | None, last: int, output_len: int
) -> None:
    """Your own traffic from the gateway's ledger: its times, lengths and shared beginnings."""
    from bench.workloads.ledger import ledger_requests, read_ledger

    folder = home.expanduser()  # here, so that the command line's reference is the same for all
    if not folder.is_dir():
        raise click.BadParameter(f"Directory '{home}' does not exist.", param_hint="'--home'")
    url = database or f"sqlite:///file:{folder / 'foreword.db'}?mode=ro&uri=true"
    seen = read_ledger(url.replace("postgresql://", "postgresql+psycopg://", 1), last=last)
    unknown = sum(each.ideal_tokens is None for each in seen)
    write(
        common,
        "ledger",
        lambda words: ledger_requests(seen, words, common.seed, default_output=output_len),
        {"requests": len(seen), "unknown_ideal": unknown, "default_output": output_len},
    )


@workload.command("trace")
@click.argument("file", type=FILE)
@click.option("--num-requests", type=_COUNT)
@click.option("--skip", type=click.IntRange(0), default=0, help="so many at the beginning")
@click.option("--block-len", type=_COUNT,
              help="units for a block; all shrinks alike  [default: as many]")  # fmt: skip
@click.option("--keep-sessions", is_flag=True, help="a session's turns wait for each other")
@common_options
def trace_command(
    common: Common,
    file: Path,
    num_requests: int | None,
    skip: int,
    block_len: int | None,
    keep_sessions: bool,
) -> None:
    """A published trace: Mooncake's, Bailian's or Azure's."""
    from bench.traces import open_trace
    from bench.workloads.trace import TraceScale, trace_requests

    trace = open_trace(file)
    # Without blocks lengths are as they are, unless they are to shrink: then by 512, as Mooncake's.
    block_tokens = trace.block_tokens or 512
    scale = TraceScale(
        block_tokens=block_tokens,
        block_units=block_len or block_tokens,
        num_requests=num_requests,
        skip=skip,
        keep_sessions=keep_sessions,
    )
    write(
        common,
        "trace",
        lambda words: trace_requests(trace, scale, words, common.seed),
        asdict(scale) | {"trace": trace.name, "input": input_name(file)},
    )


def _json(path: Path) -> list[Any]:
    try:
        rows = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise WorkloadError(str(path), f"can't be read: {error}") from error
    if not isinstance(rows, list):
        raise WorkloadError(str(path), "isn't a JSON list")
    return rows


def _documents(folder: Path) -> dict[str, str]:
    """Texts by their paths within the folder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _TEXTS)
    if not files:
        raise WorkloadError(str(folder), f"has no document ({', '.join(_TEXTS)})")
    try:
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(str(folder), f"can't be read: {error}") from error
