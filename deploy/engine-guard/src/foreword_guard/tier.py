"""`python -m foreword_guard.tier ARGS…`: the version check, then `lmcache server ARGS…` here.

Adds to LMCache, in this process only: the serde `foreword_aead` (sealing.py), deletion of what
fails authentication (rejecting.py), a Redis client that recovers (redis_store.py), an identity
(announcing.py), and no publishing of chunks that were never written (unwritten.py).
"""

import os
import sys
from pathlib import Path

from foreword_guard.adapters import SERDE_TYPE, require_sealed
from foreword_guard.aead import read_master_key
from foreword_guard.errors import GuardError
from foreword_guard.versions import LMCACHE, refuse, require


def install(key_file: Path | None) -> None:
    """Put the tier's half of the guard into LMCache, in place."""
    from lmcache import lmcache_redis
    from lmcache.v1.distributed import storage_manager
    from lmcache.v1.distributed.serde.factory import register_serde_factory

    from foreword_guard import announcing, unwritten
    from foreword_guard.redis_store import RedisStore
    from foreword_guard.rejecting import RejectingAdapter
    from foreword_guard.sealing import make_processor

    register_serde_factory(SERDE_TYPE, lambda options: make_processor(options, key_file))
    storage_manager.SerdeL2AdapterWrapper = RejectingAdapter
    lmcache_redis.LMCacheRedisClient = RedisStore
    announcing.install()
    unwritten.install()


def main() -> None:
    """Check versions, adapters and key, then run the server with the same arguments."""
    arguments = sys.argv[1:]
    named = os.environ.get("FOREWORD_KV_KEY_FILE")
    key_file = Path(named) if named else None
    try:
        require(LMCACHE)
        if require_sealed(arguments):
            read_master_key(key_file)
    except GuardError as error:
        raise refuse(error) from error
    install(key_file)

    from lmcache.cli.main import main as lmcache

    lmcache(["server", *arguments])


if __name__ == "__main__":
    main()
