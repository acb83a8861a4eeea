"""`python -m bench.experiments NAME`."""

from bench.experiments.command import main

if __name__ == "__main__":
    main()
