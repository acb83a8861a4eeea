"""Requests as bytes: made ahead, but where a real answer belongs in them. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson

from bench.workloads.file import JSONObject, WorkloadRequest, fill_answers


class Bodies:
    """Makes the bodies of one run.

    Args:
        extra: fields that every body gets, such as `temperature`.
        limit: the field for the longest answer; OpenAI's newer models want
            `max_completion_tokens`.
        ignore_eos: answers are exactly as long as the workload says; SGLang's and vLLM's field.
    """

    def __init__(
        self,
        *,
        model: str,
        extra: Mapping[str, Any],
        ignore_eos: bool,
        limit: str = "max_tokens",
    ) -> None:
        self._limit = limit
        self._fields: JSONObject = {
            "model": model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if ignore_eos:
            self._fields["ignore_eos"] = True
        self._fields |= extra

    def body(self, request: WorkloadRequest, answers: Mapping[str, str]) -> bytes:
        """The body with the answers that there are so far."""
        fields = self._fields | {self._limit: request.max_tokens}
        raw = bytes(request.body)
        if request.needs_answers:
            return orjson.dumps(fill_answers(orjson.loads(raw), answers) | fields)
        # The workload's own bytes stay as they are; what is added comes before them.
        rest = raw.strip()[1:]
        opening = orjson.dumps(fields)[:-1]
        return opening + (rest if rest == b"}" else b"," + rest)

    def plain(self, text: str, *, max_tokens: int) -> bytes:
        """One message of no workload."""
        messages = [{"role": "user", "content": text}]
        return orjson.dumps(self._fields | {"messages": messages, self._limit: max_tokens})
