"""The short way of the requests that matter most."""

from app.hot.direct import DirectRoutes

__all__ = ["DirectRoutes"]
