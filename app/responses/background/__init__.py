"""Responses that are made in the background: kept before they are acknowledged, made once.

`records` is pure; `store` and `work` talk with the database, `runner` makes the responses, `replay`
gives their events to whoever asks.
"""
