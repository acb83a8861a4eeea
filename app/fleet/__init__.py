"""The replicas behind the gateway: which there are, how they do, who answers which request."""
