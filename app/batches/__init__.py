"""Batches: many requests in a file, answered beside live traffic, ordered for re-use."""
