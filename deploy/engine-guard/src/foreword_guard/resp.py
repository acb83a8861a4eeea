"""One connection to Redis, for values that are read straight into a buffer. No LMCache in here.

Everything that leaves the protocol in doubt (a timeout, an answer that isn't one) ends the
connection: what follows on it could be another key's value.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import BinaryIO, cast

# A value longer than this isn't read to its end just to be thrown away.
_MAX_SKIPPED_BYTES = 1 << 28


class Got(Enum):
    """What a GET found."""

    VALUE = auto()
    NOTHING = auto()
    OTHER_LENGTH = auto()


class RespError(Exception):
    """The connection can't be used any further; the next call needs a new one.

    RespError
    └── RespTimeoutError    Redis is there and says nothing
    """


class RespRefusedError(Exception):
    """Redis refused a value (it is full, or read-only); the connection is as good as before."""


class RespTimeoutError(RespError):
    """Nothing came, or nothing was taken, for as long as we wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """Where Redis is and how to log in; an empty password means no login."""

    host: str
    port: int
    username: str = ""
    password: str = ""


class RespConnection:
    """A logged-in connection.

    Args:
        address: where to connect.
        connect_s: longest wait for the connection.
        wait_s: longest silence while sending or receiving.

    Raises:
        RespError: Redis can't be reached or refuses the login.
    """

    def __init__(self, address: RedisAddress, *, connect_s: float, wait_s: float) -> None:
        try:
            self._socket = socket.create_connection((address.host, address.port), connect_s)
        except OSError as exc:
            raise RespError(f"Redis at {address.host}:{address.port}: {exc}") from exc
        self._socket.settimeout(wait_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = cast(BinaryIO, self._socket.makefile("rb", buffering=1 << 16))
        if address.password:
            login = [address.username, address.password] if address.username else [address.password]
            self.send(_command(b"AUTH", *(part.encode() for part in login)))
            if self.line() != b"+OK":
                self.close()
                raise RespError(f"Redis at {address.host}:{address.port} refuses the login")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, data: bytes | memoryview) -> None:
        try:
            self._socket.sendall(data)
        except OSError as exc:
            raise _broken("sending", exc) from exc

    def line(self) -> bytes:
        """The next line of an answer, without its end."""
        try:
            line = self._reader.readline(1 << 16)
        except OSError as exc:
            raise _broken("receiving", exc) from exc
        if not line.endswith(b"\r\n"):
            raise RespError("Redis closed the connection")
        return line[:-2]

    def value_into(self, buffer: memoryview) -> Got:
        """Read one GET's answer; into the buffer if it is exactly as long.

        Raises:
            RespError: an answer that isn't a value, or the connection broke.
        """
        header = self.line()
        if header == b"$-1":
            return Got.NOTHING
        if not header.startswith(b"$") or not header[1:].isdigit():
            raise RespError(f"{header[:32]!r} where a value was expected")
        length = int(header[1:])
        if length > max(len(buffer), _MAX_SKIPPED_BYTES):
            raise RespError(f"a value of {length} bytes where {len(buffer)} were expected")
        fits = length == len(buffer)
        self._fill(buffer if fits else memoryview(bytearray(length)))
        if self.line():
            raise RespError("a value was longer than announced")
        return Got.VALUE if fits else Got.OTHER_LENGTH

    def _fill(self, buffer: memoryview) -> None:
        read = 0
        try:
            while read < len(buffer):
                count = self._reader.readinto(buffer[read:])  # type: ignore[attr-defined]
                if not count:
                    raise RespError("Redis closed the connection within a value")
                read += count
        except OSError as exc:
            raise _broken("receiving", exc) from exc


def _broken(what: str, exc: OSError) -> RespError:
    kind = RespTimeoutError if isinstance(exc, TimeoutError) else RespError
    return kind(f"{what} failed: {exc}")


def get_into(
    connection: RespConnection,
    keys: Sequence[str],
    buffers: Sequence[memoryview],
    done: list[bool],
) -> None:
    """GET each key into its buffer; `done` gets which of them were read, as far as it went.

    Values of another length than their buffer are no chunks of ours: they are deleted.
    """
    connection.send(b"".join(_command(b"GET", key.encode()) for key in keys))
    unfit: list[str] = []
    for key, buffer in zip(keys, buffers, strict=True):
        got = connection.value_into(buffer)
        done.append(got is Got.VALUE)
        if got is Got.OTHER_LENGTH:
            unfit.append(key)
    if unfit:
        delete(connection, unfit, [])


def put(
    connection: RespConnection,
    keys: Sequence[str],
    values: Sequence[memoryview],
    done: list[bool],
) -> None:
    """SET each key; `done` gets which of them Redis took, as far as it went.

    Raises:
        RespError: the connection broke.
        RespRefusedError: Redis refused a value; all answers were read.
    """
    for key, value in zip(keys, values, strict=True):
        name = key.encode()
        connection.send(b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n" % (len(name), name, len(value)))
        connection.send(value)
        connection.send(b"\r\n")
    refusal: bytes | None = None
    for _ in keys:
        answer = connection.line()
        done.append(answer == b"+OK")
        if answer != b"+OK":
            refusal = answer
    if refusal is not None:
        raise RespRefusedError(f"Redis refused a value: {refusal[:80].decode(errors='replace')}")


def exists(connection: RespConnection, keys: Sequence[str], done: list[bool]) -> None:
    """`done` gets which keys there are, as far as it went."""
    _ones(connection, b"EXISTS", keys, done)


def delete(connection: RespConnection, keys: Sequence[str], done: list[bool]) -> None:
    """UNLINK each key; `done` gets which of them there were, as far as it went."""
    _ones(connection, b"UNLINK", keys, done)


def _ones(connection: RespConnection, name: bytes, keys: Sequence[str], done: list[bool]) -> None:
    connection.send(b"".join(_command(name, key.encode()) for key in keys))
    for _ in keys:
        done.append(connection.line() == b":1")


def _command(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)
