"""The commands that talk to a running gateway over HTTP."""
