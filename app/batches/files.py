"""A batch's files: its requests, and what came of them."""

from collections.abc import Iterable
from typing import NamedTuple

from app.batches.records import Batch, ResultLine
from retrieval import Collections, Draft

OUTPUT_PURPOSE = "batch_output"


class ResultFiles(NamedTuple):
    """The ids of a batch's output file and of its errors' one; None where there are no lines."""

    output: str | None
    errors: str | None


class BatchFiles:
    """Reads and writes them beside tenants' other files. Blocks."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    def requests(self, batch: Batch) -> bytes:
        """The file of its requests.

        Raises:
            RetrievalError: it isn't there any more, or the disk lost it.
        """
        return self._collections.read_file(batch.input_file_id, tenant=batch.tenant)

    def save(self, batch: Batch, results: Iterable[ResultLine]) -> ResultFiles:
        """Write the lines to where they belong; they are read one after the other, and not held.

        Done twice these are the same files: whoever goes on after a crash may do it again.
        """
        draft_file = self._collections.draft_file
        with draft_file(tenant=batch.tenant) as output, draft_file(tenant=batch.tenant) as errors:
            for result in results:
                (output if result.succeeded else errors).write(result.line)
            return ResultFiles(
                output=self._saved(batch, "output", output),
                errors=self._saved(batch, "error", errors),
            )

    def _saved(self, batch: Batch, kind: str, draft: Draft) -> str | None:
        if not draft.size_bytes:
            return None
        name = f"{batch.id}_{kind}.jsonl"
        saved = self._collections.save_draft(name, draft, OUTPUT_PURPOSE, tenant=batch.tenant)
        return saved.id
