"""Live traffic beside a batch: how much later its first tokens come."""
