"""An MCP server without an SDK, of the protocol's older kind, that does what no server should.

`python raw_server.py FOLDER MODE…`: files in the folder count its starts and change what it says.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOLDER, MODES = Path(sys.argv[1]), set(sys.argv[2:])
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
NAMES = ("alpha", "beta", "gamma")


def tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools(asked: int) -> list[dict[str, Any]]:
    described = (FOLDER / "description").read_text() if (FOLDER / "description").exists() else ""
    schema: dict[str, Any] = {**SCHEMA, "required": ["b", "a"] if asked % 2 else ["a", "b"]}
    if asked % 2:
        schema = dict(reversed(schema.items()))
    made = [
        {
            "name": name,
            "description": f"Does {name}.{described}",
            "inputSchema": schema,
            "annotations": {"idempotentHint": name == "alpha", "readOnlyHint": name == "beta"},
        }
        for name in NAMES
    ]
    return made[::-1] if asked % 2 else made


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with (FOLDER / "calls").open("a") as file:
        file.write(f"{name}\n")
    match arguments.get("a"):
        case "huge":
            return text("y" * 10_000_000)
        case "end":
            os._exit(3)
        case "hang":
            time.sleep(3600)
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "garbage":
            return {"content": "no list"}
        case "flood":
            for _ in range(2_500):
                tell({"method": "notifications/progress", "params": {}})
        case "print":
            sys.stdout.write("a line for people\n\n")
        case "input":
            return {"resultType": "input_required"}
        case "error":
            raise ValueError("no\x1b[2Jmore")
    return text(f"{name} {json.dumps(arguments, sort_keys=True)}")


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def answer(message: dict[str, Any], asked: int) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "raw", "version": "1"}
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": info,
            }
        case "tools/list" if "endless" in MODES:
            return {"tools": tools(0), "nextCursor": "again"}
        case "tools/list":
            return {"tools": tools(asked)}
        case "tools/call":
            return call(message["params"]["name"], message["params"].get("arguments") or {})
    raise LookupError(message["method"])


def serve() -> None:
    asked = int("flap" in MODES) * len((FOLDER / "starts").read_text().split())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        try:
            result = answer(message, asked)
        except LookupError as error:
            tell({"id": message["id"], "error": {"code": -32601, "message": str(error)}})
            continue
        except ValueError as error:
            tell({"id": message["id"], "error": {"code": -32603, "message": str(error)}})
            continue
        tell({"id": message["id"], "result": result})
        if message["method"] == "tools/list" and "flap" in MODES:
            asked += 1
        if message["method"] == "tools/call" and "changes" in MODES:
            tell({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    with (FOLDER / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if "broken" in MODES:
        sys.exit("the disk is on fire")
    if "mute" in MODES:
        time.sleep(3600)
    if "stays" in MODES:
        # Neither the end of its stdin nor a signal ends it, and it has a child of its own.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        (FOLDER / "child").write_text(f"{child.pid}\n")
    serve()
    if "stays" in MODES:
        time.sleep(3600)
