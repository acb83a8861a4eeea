"""The OpenAPI document: what the routes take and give, said explicitly.

Most routes read their bodies themselves, so that errors are OpenAI's and the hot path is short;
what a framework would guess of them would be wrong.
"""

from app.openapi.document import openapi_document
from app.openapi.operations import OPERATIONS

__all__ = ["OPERATIONS", "openapi_document"]
