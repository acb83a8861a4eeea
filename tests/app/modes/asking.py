"""Collections and questions over a gateway's HTTP."""

import json
import time
from typing import Any

import httpx

ROOMS = "\n\n".join(
    f"Room {n} is painted in shade {n * 7} and its key hangs on hook {n}." for n in range(40)
)


def collection(http: httpx.Client, name: str, text: str = ROOMS) -> str:
    """A collection of one document; its id. An earlier test's is taken as it is."""
    for each in http.get("/v1/vector_stores").json()["data"]:
        if each["name"] == name:
            return str(each["id"])
    files = {"file": (f"{name}.txt", f"{name}\n\n{text}".encode())}
    file = http.post("/v1/files", files=files, data={"purpose": "assistants"}).json()
    made = http.post("/v1/vector_stores", json={"name": name, "file_ids": [file["id"]]})
    made.raise_for_status()
    made_id = str(made.json()["id"])
    deadline = time.monotonic() + 120
    while http.get(f"/v1/vector_stores/{made_id}").json()["file_counts"]["completed"] < 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return made_id


def ask(http: httpx.Client, name: str, question: str, **options: Any) -> dict[str, Any]:
    """The `foreword` block of a streamed answer."""
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 4,
        "stream": True,
        "foreword": {"collection": name, **options},
    }
    with http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200, response.read()
        lines = [
            line.removeprefix("data: ") for line in response.iter_lines() if "foreword" in line
        ]
    block = json.loads(lines[-1])["foreword"]
    assert isinstance(block, dict)
    return block
