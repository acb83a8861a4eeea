"""Webhooks: who is told of events, by signed requests that are tried again (Standard Webhooks)."""
