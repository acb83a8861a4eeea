"""A package, so that the fixtures of its scope end with it."""
