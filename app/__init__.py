"""The gateway: HTTP surface, request pipeline, engine client, supervisor, command line."""
