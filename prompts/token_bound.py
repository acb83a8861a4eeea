"""Whether a text surely has more tokens than there is room for, found without encoding all of it.

It is counted from its beginning in pieces that end where no later text can change a token, until
there is no more room. A piece that has no such place, since it is one long word, is counted anew
with more behind it: what follows a text changes only its last few tokens.

Nobody is refused for a guess: twice the limit is counted before a text is given up, and one that is
no more than a little too long is encoded, so that its client learns by how much.
"""

import tokenizers

from prompts.encoding import encoded
from prompts.token_splitting import Splitter

_SLACK = 2
# Up to so many bytes for each token of room, encoding the whole is no more work than finding out.
_BYTES_A_TOKEN = 2
_BYTES_A_CHARACTER = 4
_PIECE_CHARACTERS = 16_384
# A piece without a place to end grows to as much as seems to be needed, and some.
_GROWTH, _SPARE = 2, 1.125
# By so many tokens, and more, a text may be shorter than its own beginning.
_LAST_TOKENS = 32


class TokenBound:
    """Counts with one tokenizer. Threads may share it."""

    def __init__(self, encoder: tokenizers.Tokenizer, splitter: Splitter) -> None:
        self._encoder = encoder
        self._splitter = splitter
        self._counts = not any(map(_takes_blanks, encoder.get_added_tokens_decoder().values()))

    def may_be_beyond(self, characters: int, room: int) -> bool:
        """Whether it is worth while to find out about a text of so many characters."""
        return self._counts and _BYTES_A_CHARACTER * characters > _BYTES_A_TOKEN * room

    def is_beyond(self, text: str, room: int) -> bool:
        """Whether the text surely has more than `room` tokens.

        False says nothing of a text that is short for it.
        """
        if not self.may_be_beyond(len(text), room):
            return False
        if len(text.encode(errors="surrogatepass")) <= _BYTES_A_TOKEN * room:
            return False
        return self.least_tokens(text, room) > room

    def least_tokens(
        self, text: str, room: int, *, piece_characters: int = _PIECE_CHARACTERS
    ) -> int:
        """No more than the text's tokens; the count ends where it is beyond `room`."""
        tokens, start, size = 0, 0, piece_characters
        while True:
            piece = text[start : start + size]
            encoding = encoded(self._encoder, piece)
            if start + size >= len(text):
                return tokens + len(encoding)
            least = tokens + len(encoding) - _LAST_TOKENS
            if least > room:
                return least
            settled = self._splitter.settled(piece, encoding)
            if settled.token:
                tokens += settled.token
                start, size = start + settled.character, piece_characters
            else:
                wanted = _SPARE * size * (room - tokens) / max(1, len(encoding))
                size = max(_GROWTH * size, int(wanted))


def room_for(limit: int) -> int:
    """How many tokens are counted where no more than `limit` are wanted."""
    return _SLACK * limit


def _takes_blanks(token: tokenizers.AddedToken) -> bool:
    """Whether a token that texts may spell takes all blanks beside it along, however many."""
    return not token.special and (token.lstrip or token.rstrip)
