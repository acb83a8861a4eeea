"""The embedding process: `python -m retrieval.embed_worker FD FOLDER ID THREADS`.

It loads the model, then answers one batch after another. It ends with its owner: a thread does
nothing but read the socket, so that its end is noticed while a batch is being computed.
"""

import os
import queue
import signal
import socket
import sys
import threading
from pathlib import Path

import msgspec

from retrieval import embed_wire
from retrieval.embed import SentenceTransformerEmbedder
from retrieval.errors import EmbedderError


def main() -> None:
    """Runs until the owner's end of the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl+C is for the owner
    descriptor, folder, model_id, threads = sys.argv[1:]
    channel = socket.socket(fileno=int(descriptor))
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(channel, asked), daemon=True).start()
    embedder = SentenceTransformerEmbedder(Path(folder), id=model_id, threads=int(threads))
    try:
        ready = embed_wire.Ready(dimension=embedder.dimension)
    except EmbedderError as error:
        ready = embed_wire.Ready(problem=error.why)
    embed_wire.send(channel, msgspec.json.encode(ready))
    while True:
        ask = msgspec.json.decode(asked.get(), type=embed_wire.Ask)
        embed_wire.send(channel, *_answer(embedder, ask))


def _answer(embedder: SentenceTransformerEmbedder, ask: embed_wire.Ask) -> list[bytes]:
    embed = embedder.embed_queries if ask.is_query else embedder.embed_passages
    try:
        vectors = embed(ask.texts)
    except EmbedderError as error:
        return [msgspec.json.encode(embed_wire.Reply(problem=error.why))]
    except Exception as error:  # noqa: BLE001 - the boundary of a process: models raise anything
        problem = f"it failed with {type(error).__name__} ({error})."
        return [msgspec.json.encode(embed_wire.Reply(problem=problem))]
    rows, dimension = vectors.shape
    reply = embed_wire.Reply(rows=rows, dimension=dimension)
    return [msgspec.json.encode(reply), vectors.astype("<f4").tobytes()]


def _read(channel: socket.socket, asked: "queue.SimpleQueue[bytes]") -> None:
    while True:
        try:
            asked.put(embed_wire.receive(channel))
        except (EOFError, OSError):
            # The owner has gone: there is nobody to be orderly for.
            os._exit(0)


if __name__ == "__main__":
    main()
