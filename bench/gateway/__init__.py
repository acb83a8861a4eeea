"""Foreword beside other gateways, in one run: CPU for each request, added latency, memory."""
