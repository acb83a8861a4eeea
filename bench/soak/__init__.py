"""A long run of the real gateway process against the simulated engine: does it stay the same size?

    python -m bench.soak --requests 1000000

Pure: workload, faults, latency, judge, report. Rim: http, proc, processes, ledger_checks, run.
"""
