"""The re-ranking process: `python -m retrieval.rerank_worker FD MODEL THREADS`.

It loads the model, then answers one question after another, framed as in `embed_wire`. It ends
with its owner: a thread does nothing but read the socket, so that its end is noticed while a
question is being answered.
"""

import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from retrieval import embed_wire
from retrieval.rerank_wire import Ask, Ready, Scores

# Below what rounding in other batches changes; equal texts get equal scores.
_DIGITS = 5
_BATCH = 8


Score = Callable[[str, list[str]], Scores]


def main() -> None:
    """Runs until the owner's end of the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl+C is for the owner
    descriptor, model, threads = sys.argv[1:]
    channel = socket.socket(fileno=int(descriptor))
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(channel, asked), daemon=True).start()
    loaded = _load(model, int(threads))
    is_ready = not isinstance(loaded, str)
    ready = Ready() if is_ready else Ready(problem=str(loaded))
    embed_wire.send(channel, msgspec.json.encode(ready))
    while not isinstance(loaded, str):
        ask = msgspec.json.decode(asked.get(), type=Ask)
        embed_wire.send(channel, msgspec.json.encode(loaded(ask.query, ask.texts)))


def _load(model: str, threads: int) -> Score | str:
    """What scores; or why there is nothing."""
    folder = Path(model)
    if folder.is_dir() and not (folder / "config.json").is_file():
        return f"there is no model in {model!r} (no config.json)."
    try:
        import torch
        from sentence_transformers import CrossEncoder

        torch.set_num_threads(threads)
        encoder = CrossEncoder(model, device="cpu", local_files_only=True, trust_remote_code=False)
    except ImportError as exc:
        return f"{exc.name} is not installed; install the extra 'retrieval'."
    except (OSError, ValueError, KeyError, RuntimeError) as exc:
        return f"it can't be loaded ({exc}); give the folder of a cross-encoder."

    def score(query: str, texts: list[str]) -> Scores:
        try:
            found = encoder.predict(
                [(query, text) for text in texts], batch_size=_BATCH, show_progress_bar=False
            )
        except Exception as error:  # noqa: BLE001 - the boundary of a process: models raise anything
            return Scores(problem=f"it failed with {type(error).__name__} ({error}).")
        if found.ndim != 1:
            return Scores(problem=f"it gives {found.shape[1]} labels; one score is needed.")
        return Scores(scores=[round(float(value), _DIGITS) for value in found])

    return score


def _read(channel: socket.socket, asked: "queue.SimpleQueue[bytes]") -> None:
    while True:
        try:
            asked.put(embed_wire.receive(channel))
        except (EOFError, OSError):
            # The owner has gone: there is nobody to be orderly for.
            os._exit(0)


if __name__ == "__main__":
    main()
