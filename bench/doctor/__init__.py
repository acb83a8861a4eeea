"""Whether a machine is quiet enough to measure on."""
