"""A gateway in front of a simulated engine, as in tests/app, with documents of nobody else."""

from tests.app.conftest import client, gateway, simulator, tokenizer_folder

__all__ = ["client", "gateway", "simulator", "tokenizer_folder"]
