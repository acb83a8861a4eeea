"""Server-sent events: bytes to events and back. Pure."""

DONE = b"[DONE]"


class EventReader:
    """Cuts a byte stream into the data of its events, wherever the stream was split.

    Only `data:` lines matter to OpenAI's protocol; comments and other fields are passed over.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that `chunk` completes, in order."""
        text = self._rest + chunk
        # A trailing CR may be half of a CRLF: it waits for the next chunk.
        held = b"\r" if text.endswith(b"\r") else b""
        text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *events, rest = text.split(b"\n\n")
        self._rest = rest + held
        return [data for event in events if (data := _data(event)) is not None]


def event(data: bytes) -> bytes:
    """One event; `data` holds no line feed."""
    return b"data: " + data + b"\n\n"


def named_event(name: str, data: bytes) -> bytes:
    """One event with its name in a line of its own, as the Responses API has it."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def _data(event_text: bytes) -> bytes | None:
    lines = [
        line[5:].removeprefix(b" ") for line in event_text.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None
