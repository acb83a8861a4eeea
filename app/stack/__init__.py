"""The local stack: engine, cache tiers, Redis and gateway as processes that are kept running.

`stack.start_stack` is the library's entrance, `up_command` and `doctor` are the command line's.
Nothing is imported here, so that a command that only reads `stack.json` stays quick.
"""
