"""Shadowing: a sample of live traffic goes to a second endpoint, too, to be compared.

Nothing here is on a request's way: a copy is made when the answer has been sent (`shadow.py`).
"""
