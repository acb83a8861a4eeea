"""The mode policy as the gateway's settings want it."""

import sqlalchemy as sa

from app.corpora import Corpora
from app.fleet.fleet import Fleet
from app.modes.facts import CoreLimits, ModeFacts
from app.modes.gate import GateRules
from app.modes.policy import ModePolicy, PolicyRules
from app.modes.store import ModeStore
from app.modes.switch import SwitchRules
from app.modes.warming import WarmingAside
from app.schemas import Mode
from app.settings import ModesSettings
from retrieval import Collections


def open_modes(
    settings: ModesSettings,
    database: sa.Engine,
    *,
    collections: Collections,
    corpora: Corpora,
    fleet: Fleet,
) -> ModePolicy:
    """The policy, with what was learned before the last restart; reads the database."""
    limits = CoreLimits(share=settings.core_share, least_unchanged_s=settings.core_unchanged_s)
    facts = ModeFacts(collections, corpora, fleet, limits=limits)
    warming = WarmingAside(corpora, longest_wait_s=settings.longest_wait_s)
    store = ModeStore(database)
    return ModePolicy(facts, warming, fleet, store, rules=policy_rules(settings))


def policy_rules(settings: ModesSettings) -> PolicyRules:
    """The rules as operators set them."""
    return PolicyRules(
        default=Mode(settings.default),
        switch=SwitchRules(
            margin=settings.margin, dwell_s=settings.dwell_s, patience=settings.patience
        ),
        gate=GateRules(margin=settings.quality_margin, least_questions=settings.least_questions),
    )
