"""Small benchmarks of single parts, run by hand: `python -m bench.micro.NAME`."""
