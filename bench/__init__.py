"""The harness: what measures Foreword from outside, and the simulated engine."""
