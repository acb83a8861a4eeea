"""Answers that are kept to be given again to the very same request; off unless it is switched on.

It has nothing to do with the re-use of prefixes: a request that it answers reaches no engine, is in
no row of the ledger and in no hit rate. `keys` is pure.
"""
