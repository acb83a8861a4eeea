"""Routing compared: published traces replayed over simulated replicas, and real routers live."""
