"""``foreword doctor --prove``: on the running stack, that each tier keeps salts apart.

Explicit, since it empties the engine's cache and the tier server's RAM again and again.
"""

from app.stack.proofs.run import Addresses, run_proofs

__all__ = ["Addresses", "run_proofs"]
