"""OpenAI's Responses API by way of chat completions: requests in, objects and events out.

Pure. There is one way through the gateway, that of chat completions: a Responses request is made
into one of those, and its answer into a response. So re-use is counted in one place.
"""
