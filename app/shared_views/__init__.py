"""What several gateways tell each other of the replicas, through Redis."""
