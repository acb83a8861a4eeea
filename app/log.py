"""Logging: facts as structured lines on stderr; never the text of a prompt, a document or a key.

Lines are written by a thread of their own: whoever reads stderr may stop reading, and then requests
must not wait. What doesn't fit the buffer meanwhile is counted and dropped.
"""

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from app.observation import OBSERVED
from app.settings import LogSettings

_MAX_WAITING = 10_000
_AT_ONCE = 500
_FLUSH_S = 0.1
_CLOSE_S = 2.0
# Even their errors have in them what an MCP server sent: the SDK's, and one that it calls so.
_QUOTING = ("mcp", "client")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LineWriter:
    """Writes lines to a file descriptor, in order, without ever making a caller wait.

    Args:
        max_waiting: lines that may wait to be written; further ones are dropped.
    """

    def __init__(self, descriptor: int, *, max_waiting: int = _MAX_WAITING) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._max_waiting = max_waiting
        self._waiting: deque[bytes | dict[str, object]] = deque()
        self._told = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: bytes | dict[str, object]) -> None:
        """Take a line, without its newline, or the facts that it is made of, which are given away.

        `timestamp` among them is in seconds, since that is quicker to take.
        """
        if len(self._waiting) < self._max_waiting:
            self._waiting.append(line)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Write what waits; gives up after seconds where nobody reads."""
        self._stopping.set()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        # Looks up at times instead of being woken: waking a thread costs more than the line.
        while not self._stopping.wait(_FLUSH_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), _AT_ONCE)
            some = [_rendered(self._waiting.popleft()) for _ in range(count)]
            left = memoryview(b"\n".join(some) + b"\n")
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:  # nobody will ever read it
                self.dropped += len(some)
        if self.dropped > self._told:
            told: dict[str, object] = {"event": "log_lines_dropped", "level": "warning"}
            self.write(told | {"timestamp": time.time(), "so_far": self.dropped})
            self._told = self.dropped


def _rendered(line: bytes | dict[str, object]) -> bytes:
    """A line of JSON."""
    if isinstance(line, bytes):
        return line
    seconds = line["timestamp"]
    assert isinstance(seconds, float)
    line["timestamp"] = datetime.fromtimestamp(seconds, UTC)
    return orjson.dumps(line, default=repr, option=orjson.OPT_UTC_Z)


class _Logger:
    """What structlog hands rendered lines to."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer

    def msg(self, message: bytes | str) -> None:
        line = message if isinstance(message, bytes) else message.encode("utf-8", "replace")
        self._writer.write(line)

    log = debug = info = warning = warn = error = critical = exception = fatal = failure = msg


class _Forwarder(logging.Handler):
    """Libraries' own log lines, in our form."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        log.log(
            record.levelno,
            "library_message",
            library=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info,
        )


def configure_logging(settings: LogSettings) -> LineWriter | None:
    """JSON lines, or coloured text where stderr is a terminal.

    Returns:
        What takes lines of JSON without a logger's detour; None where there is to be no such line.
    """
    writer = LineWriter(sys.stderr.fileno())
    atexit.register(writer.close)
    level = _LEVELS[settings.level]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_request_id,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Plain: what stands in a frame's variables may be a prompt, or a key.
            structlog.processors.format_exc_info,
            _renderer(settings),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Logger(writer),
        cache_logger_on_first_use=True,
    )
    # Of libraries only what is wrong: their chatter may quote what passes through them.
    logging.basicConfig(handlers=[_Forwarder()], level=logging.WARNING, force=True)
    for quotes in _QUOTING:
        logging.getLogger(quotes).setLevel(logging.CRITICAL)
    return writer if level <= logging.INFO and not _is_text(settings) else None


def _add_request_id(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Lines that are written for a request tell which one."""
    observation = OBSERVED.get()
    if observation is not None and observation.request_id is not None:
        event.setdefault("request_id", observation.request_id)
    return event


def _is_text(settings: LogSettings) -> bool:
    return settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())


def _renderer(settings: LogSettings) -> structlog.typing.Processor:
    if _is_text(settings):
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(event: dict[str, Any], **_: object) -> bytes:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS)
