"""MCP servers as tools of agents.

```
agent file ── grant ──▶ source ──▶ tools ──▶ session ──▶ stdio (a child on a leash)
NAME.tools.json ── pin ─┘                            └▶ streamable HTTP (addresses checked)
```

What a model is told of a server's tools comes from the pin, a file, never from the server: so a
prompt's beginning is the same whatever the server says, and a server that says something else than
its pin isn't called. The `mcp` SDK is imported by `session.py` and what stands below it, and that
only where a server is declared.
"""
