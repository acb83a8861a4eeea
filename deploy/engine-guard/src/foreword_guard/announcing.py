"""The tier says who it is and whom it knows (identity.py), so that a restart is noticed.

Stands in for `ManagementModule.get_experimental`
(lmcache/v1/multiprocess/modules/management.py:151, 0.5.6).
"""

import functools
from typing import Any

from foreword_guard.identity import TierIdentity


def install(boot: str) -> None:
    """Put it into LMCache's management module, in place.

    Args:
        boot: another one after each start.
    """
    from lmcache.v1.multiprocess.modules.management import ManagementModule

    answer = ManagementModule.get_experimental

    @functools.wraps(answer)
    def get_experimental(self: Any) -> list[str]:
        identity = TierIdentity(boot=boot, instances=_registered(self._liveness_targets))
        return [*answer(self), *identity.to_entries()]

    ManagementModule.get_experimental = get_experimental


def _registered(modules: Any) -> frozenset[int]:
    found: set[int] = set()
    for module in modules:
        status = module.report_status()
        found.update(status.get("registered_non_cuda_instance_ids", ()))
        found.update(status.get("registered_gpu_ids", ()))
    return frozenset(found)
