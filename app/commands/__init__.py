"""The commands: some talk to a running gateway over HTTP, the others work on files alone."""
