"""`POST /v1/embeddings`: the deployment's own embedding model.

Source: OpenAI's embeddings reference.
"""

from base64 import b64encode
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field, StrictInt

from app.callers import caller_of
from app.embeddings import Embedded
from app.errors import InvalidRequestError, ModelNotFoundError
from app.prepare import ALIAS
from app.routes.bodies import parse_body
from app.schemas import GivenBody
from app.services import services_of

router = APIRouter()

# OpenAI's own bound.
MAX_INPUTS = 2048


class EmbeddingsRequest(GivenBody):
    """The body of `POST /v1/embeddings`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    input: str | list[str] | list[StrictInt] | list[list[StrictInt]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, strict=True)] | None = None
    user: str | None = None

    def texts(self) -> list[str]:
        """The inputs.

        Raises:
            InvalidRequestError: there is none, one is empty or of token ids, or there are too many.
        """
        given = [self.input] if isinstance(self.input, str) else self.input
        texts = [text for text in given if isinstance(text, str)]
        if len(texts) < len(given):
            problem = (
                "token ids are of another model's vocabulary; send texts "
                "(in LangChain: check_embedding_ctx_length=False)"
            )
            raise InvalidRequestError(problem, param="input")
        if len(texts) > MAX_INPUTS:
            problem = f"there are {len(texts)} inputs; a request takes at most {MAX_INPUTS}"
            raise InvalidRequestError(problem, param="input")
        if not texts or not all(texts):
            problem = "an input is empty; send at least one character in each"
            raise InvalidRequestError(problem, param="input")
        return texts


@router.post("/v1/embeddings")
async def embeddings(request: Request) -> Response:
    """A vector for each text, in their order."""
    services = services_of(request)
    embeddings = services.embeddings
    body = await parse_body(request, EmbeddingsRequest)
    if body.model not in (embeddings.name, ALIAS):
        raise ModelNotFoundError(body.model, (embeddings.name, ALIAS))
    texts = body.texts()
    guess = sum(map(len, texts)) // 4
    async with services.admission.admit(
        caller_of(request), cost_tokens=guess, takes_turn=False
    ) as ticket:
        request.scope["state"]["ticket"] = ticket  # so that the answer says how the tenant stands
        embedded = await embeddings.embed(texts, dimensions=body.dimensions)
        ticket.used(embedded.tokens)
    answer = _answer(embedded, embeddings.name, as_base64=body.encoding_format == "base64")
    content = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, media_type="application/json")


def _answer(embedded: Embedded, model: str, *, as_base64: bool) -> dict[str, Any]:
    """OpenAI's object; in base64 a vector is its float32 numbers, little-endian."""
    vectors = embedded.vectors
    spelled = [b64encode(row.astype("<f4")).decode() for row in vectors] if as_base64 else vectors
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": place, "embedding": vector}
            for place, vector in enumerate(spelled)
        ],
        "model": model,
        "usage": {"prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens},
    }
