"""Server-side agents: a template, tools and limits, run in a loop whose every step goes on from the
prompt of the step before it, token for token.
"""
