"""What was looked for and found for a response, from the prompt that was made of it."""

from app.prepared import Prepared, Source
from app.responses.bodies import ResponsesRequest
from app.responses.objects import JSONObject, Search
from app.schemas import ChatCompletionRequest, Mode


def search_of(
    request: ResponsesRequest, chat: ChatCompletionRequest, prepared: Prepared
) -> Search | None:
    """The search of a request that has documents; None for others.

    With the whole collection in the prompt there is nothing to look for: no queries, no results.
    """
    if not request.searches:
        return None
    queries = () if prepared.mode is Mode.CAG else (chat.messages[-1].text,)
    found = [(source.score, source) for source in prepared.sources if source.score is not None]
    ranked = sorted(found, key=lambda hit: hit[0], reverse=True)
    results = [_result(source) for _, source in ranked]
    return Search(queries=queries, results=results if request.shows_results else None)


def _result(source: Source) -> JSONObject:
    return {
        "file_id": source.file_id,
        "filename": source.document,
        "score": source.score,
        "text": source.text,
        "attributes": dict(source.attributes),
    }
