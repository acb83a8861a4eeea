"""`python -m foreword_guard.tier ARGS…`: the version check, then `lmcache server ARGS…` here.

Adds to LMCache, in this process only: the serde `foreword_aead` (sealing.py) with a key for each
salt (salt_keys.py), adapters that nobody waits for (guarded_adapter.py), a Redis client that
recovers (redis_store.py), an identity (announcing.py), who served what (attribution.py), routes
(routes.py), and no publishing of chunks that were never written (unwritten.py).
"""

import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from foreword_guard.adapter_settings import AdapterSettings
from foreword_guard.adapters import SERDE_TYPE, require_sealed, without_missing_folders
from foreword_guard.aead import read_master_key
from foreword_guard.errors import GuardError
from foreword_guard.salt_keys import SaltKeys, salt_folder
from foreword_guard.versions import LMCACHE, refuse, require


def install(settings: AdapterSettings, keys: SaltKeys | None, missing: Mapping[str, str]) -> None:
    """Put the tier's half of the guard into LMCache, in place.

    Args:
        missing: adapters that were left out, by LMCache's type, and why.
    """
    from lmcache import lmcache_redis
    from lmcache.v1.distributed import storage_manager
    from lmcache.v1.distributed.serde.factory import register_serde_factory

    from foreword_guard import announcing, attribution, quiet_log, routes, unwritten
    from foreword_guard.redis_store import RedisStore
    from foreword_guard.sealing import make_processor
    from foreword_guard.tier_state import TierState

    state = TierState(instance=uuid.uuid4().hex, settings=settings, keys=keys, missing=missing)
    if keys is not None:
        register_serde_factory(SERDE_TYPE, lambda options: make_processor(options, keys))
    storage_manager.SerdeL2AdapterWrapper = state.guard_adapter
    lmcache_redis.LMCacheRedisClient = RedisStore
    announcing.install(state.instance)
    attribution.install(state)
    quiet_log.install()
    routes.install(state)
    unwritten.install()


def read_keys(key_file: Path | None, folder: Path | None) -> SaltKeys:
    """The salts' keys.

    Raises:
        KeyFileError: the master key can't be used.
    """
    master_key = read_master_key(key_file)
    assert key_file is not None
    return SaltKeys(master_key, folder or salt_folder(key_file))


def main() -> None:
    """Check versions, adapters and key, then run the server with the same arguments."""
    arguments = sys.argv[1:]
    key_file, folder = (_path(f"FOREWORD_KV_KEY_{what}") for what in ("FILE", "FOLDER"))
    try:
        require(LMCACHE)
        settings = AdapterSettings.from_environment(os.environ)
        keys = read_keys(key_file, folder) if require_sealed(arguments) else None
        arguments, missing = without_missing_folders(arguments)
    except GuardError as error:
        raise refuse(error) from error
    for problem in missing.values():
        sys.stderr.write(f"foreword_guard: starting without an adapter: {problem}\n")
    install(settings, keys, missing)

    from lmcache.cli.main import main as lmcache

    lmcache(["server", *arguments])


def _path(variable: str) -> Path | None:
    named = os.environ.get(variable)
    return Path(named) if named else None


if __name__ == "__main__":
    main()
