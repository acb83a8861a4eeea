"""CPU that one request costs the gateway's process, everything on: whole answers and streams."""
