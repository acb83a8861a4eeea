#!/usr/bin/env bash
# Asks the agent in clerk.yaml: its calls and what was re-used go to stderr, its answer to stdout.
#
#     FOREWORD_AGENTS__FOLDER=examples/agent foreword up --model MODEL
#     bash examples/agent/ask.sh         # in another terminal
#
# MODEL is one that was trained to call tools; the default model wasn't (docs/agents.md shows how to see
# an agent work on that one).
set -euo pipefail

foreword ingest ferry samples/ferry
foreword chat --agent clerk <<<"What do two adults and a dog pay?"
