"""Server-sent events: bytes to events and back. Pure."""

DONE = b"[DONE]"


class EventReader:
    """Cuts a byte stream into the data of its events, wherever the stream was split.

    Only `data:` lines matter to OpenAI's protocol; comments and other fields are passed over.
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def has_rest(self) -> bool:
        """Whether there are bytes of an event that isn't complete."""
        return bool(self._rest)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that `chunk` completes, in order."""
        text = self._rest + chunk if self._rest else chunk
        if b"\r" in text:
            return self._feed_any(text)
        *events, self._rest = text.split(b"\n\n")
        return [data for event in events if (data := _data(event)) is not None]

    def _feed_any(self, text: bytes) -> list[bytes]:
        """With line ends of all kinds."""
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
    if event_text.startswith(b"data: ") and b"\n" not in event_text:
        return event_text[6:]  # as engines write all of theirs
    lines = [
        line[5:].removeprefix(b" ") for line in event_text.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None
