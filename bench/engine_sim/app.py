"""The simulated engine as an ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from bench.engine_sim import chat_route, completions_route, ops_routes, text_routes
from bench.engine_sim.config import SimulatorConfig
from bench.engine_sim.connection import Connections, FaultInjector
from bench.engine_sim.engine import SimulatedEngine
from bench.engine_sim.tokens import ModelText

SERVER_HEADER = "foreword-engine-sim"
"""Every answer's `Server` header: a record that holds it was not made by a real engine."""


def create_app(config: SimulatorConfig) -> Starlette:
    """One simulated replica.

    Raises:
        ModelFolderError: the model folder lacks tokenizer or chat template.
        SimulatorStartError: an endpoint for KV events can't be taken.
    """
    engine = SimulatedEngine(config, ModelText(config.model_path))
    connections: Connections = {}
    app = Starlette(
        routes=_routes(),
        middleware=[Middleware(FaultInjector, plan=engine.faults, connections=connections)],
        lifespan=_lifespan,
    )
    app.state.engine = engine
    app.state.connections = connections
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    engine: SimulatedEngine = app.state.engine
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.run)
        if engine.publisher is not None:
            tasks.start_soon(engine.publisher.serve_replay)
        yield
        tasks.cancel_scope.cancel()
    if engine.publisher is not None:
        engine.publisher.close()


def _routes() -> list[Route]:
    get, post = ["GET"], ["POST"]
    return [
        Route("/v1/chat/completions", chat_route.chat, methods=post),
        Route("/v1/completions", completions_route.complete, methods=post),
        Route("/generate", text_routes.generate, methods=["POST", "PUT"]),
        Route("/v1/tokenize", text_routes.tokenize, methods=post),
        Route("/tokenize", text_routes.tokenize, methods=post),
        Route("/v1/detokenize", text_routes.detokenize, methods=post),
        Route("/detokenize", text_routes.detokenize, methods=post),
        Route("/v1/models", ops_routes.models, methods=get),
        Route("/v1/models/{model:path}", ops_routes.model, methods=get),
        Route("/ready", ops_routes.ready, methods=get),
        Route("/health", ops_routes.ready, methods=get),
        Route("/health_generate", ops_routes.ready, methods=get),
        Route("/model_info", ops_routes.model_info, methods=get),
        Route("/server_info", ops_routes.server_info, methods=get),
        Route("/v1/loads", ops_routes.loads, methods=get),
        Route("/flush_cache", ops_routes.flush, methods=["GET", "POST"]),
        Route("/abort_request", ops_routes.abort, methods=post),
        Route("/metrics", ops_routes.metrics, methods=get),
        Route("/simulator", ops_routes.simulator_state, methods=get),
        Route("/simulator/requests", ops_routes.simulator_requests, methods=get),
        Route("/simulator/faults", ops_routes.order_fault, methods=["POST", "DELETE"]),
    ]
