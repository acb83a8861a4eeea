"""How accurate verdicts are: causes put into real traffic on purpose, and what was said of them.

A case says what is sent, what is done to the engine in between, and, from that alone, what the
accounting of its last request has to say. Nothing here looks into the gateway.
"""

from bench.verdicts.cases import Case, Disturbance, Label, Question, Site
from bench.verdicts.client import Answer, GatewayClient
from bench.verdicts.drive import Bench, Driver
from bench.verdicts.plan import make_plan
from bench.verdicts.score import Score, Scored, table

__all__ = [
    "Answer",
    "Bench",
    "Case",
    "Disturbance",
    "Driver",
    "GatewayClient",
    "Label",
    "Question",
    "Score",
    "Scored",
    "Site",
    "make_plan",
    "table",
]
