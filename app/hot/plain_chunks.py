"""Reads of a streamed answer that hold nothing but whole chunks with plain text in them.

After its first words nearly all of a stream comes like that: each HTTP chunk is one event, which
differs from the one before in its text alone. Such a read becomes the client's chunks in one loop,
without a parser, an event or a call for each of them. Any other is left to those who can take it
apart; nothing is taken of it here.
"""

from app.hot.usual_parts import USAGE, UsualParts

_FIELD = b"data: "
_EVENT_END = b"\n\n"
_LINE_END = b"\r\n"
_HEX = b"0123456789abcdefABCDEF"
_SIZE_DIGITS = 10  # and its line end; a longer size isn't one of ours


class PlainChunks:
    """One stream's reads.

    Args:
        usual: what has been learnt of the stream's chunks.
    """

    __slots__ = ("_usual",)

    def __init__(self, usual: UsualParts) -> None:
        self._usual = usual

    def passed_on(self, data: bytes) -> tuple[bytes, int, list[str]] | None:
        """A read that begins and ends with a chunk, as chunks for the client.

        Returns the chunks in their framing, how many bytes there are without it, and what the model
        says in each; None where something in the read is unlike what is passed on.
        """
        usual = self._usual
        plain = usual.plain
        if plain is None:
            return None
        before, after = _FIELD + plain.before, plain.after
        public_before, public_after = plain.public_before, plain.public_after
        to_text, to_rest = len(before), len(after)
        pieces: list[bytes] = []
        texts: list[str] = []
        usage: bytes | None = None
        size = at = 0
        while at < len(data):
            line_end = data.find(_LINE_END, at, at + _SIZE_DIGITS)
            digits = data[at:line_end]
            if line_end <= at or digits.strip(_HEX):  # `int` would take 0x10 and 1_0
                return None
            end = line_end + 2 + int(digits, 16)
            text_at = line_end + 2 + to_text
            quote = data.find(b'"', text_at, end)
            if (
                quote < 0
                or not data.startswith(before, line_end + 2)
                or not data.startswith(after, quote)
                or data[end - 2 : end + 2] != _EVENT_END + _LINE_END
            ):
                return None
            rest = USAGE.fullmatch(data, quote + to_rest, end - 2)
            raw = data[text_at:quote]
            if rest is None or b"\\" in raw:
                return None
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                return None
            if not text.isprintable():  # control characters are no JSON
                return None
            piece = public_before + raw + public_after
            size += len(piece)
            pieces.append(b"%x\r\n%b\r\n" % (len(piece), piece))
            texts.append(text)
            usage = rest[1] or usage
            at = end + 2
        usual.learn_usage(usage)
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), size, texts
