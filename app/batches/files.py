"""A batch's files: its requests, and what came of them."""

from app.batches.records import Batch
from retrieval import Collections

OUTPUT_PURPOSE = "batch_output"


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

    def save(self, batch: Batch, kind: str, data: bytes) -> str | None:
        """The id of the file of these lines; None where there are none.

        Done twice it is one file: whoever goes on after a crash may do it again.
        """
        if not data:
            return None
        name = f"{batch.id}_{kind}.jsonl"
        saved = self._collections.save_file(
            name, data, OUTPUT_PURPOSE, tenant=batch.tenant, may_be_larger=True
        )
        return saved.id
