"""Stored conversations and responses: kept in the database, down to the answers' token ids.

`items` is pure; `store`, `turn_store` and `responses` talk with the database; `turn` is one turn of
one conversation, from its history to the moment that it is kept.
"""
