"""RAG, CAG or HYBRID: what each costs here, and which one answers."""

from app.modes.learning import Answered
from app.modes.policy import ModePolicy, PolicyRules
from app.modes.prices import DECIDABLE, Decision, ModeCost

__all__ = ["DECIDABLE", "Answered", "Decision", "ModeCost", "ModePolicy", "PolicyRules"]
