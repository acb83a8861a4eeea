"""Sends a workload to any OpenAI-compatible endpoint and writes down what each request saw.

`send_times` (when), `connection` and `pool` (how), `stream` (what came), `runner` (all together).
"""
