"""The straight lane: usual chat requests from the connection to the engine in few steps.

The whole way (middleware, routes, `app.prepare`) stays the one source of truth. The lane takes a
request only where it is sure to do the very same with it, and declines all others before anything
was done for them. `docs/hot-path.md` tells what is usual.
"""
