"""Parts of a deployment are killed, stopped, cut off and lied to while clients ask.

Everything runs as users run it, in processes of their own: `foreword up` with two engines, or a
gateway before two simulated ones. What is judged is what clients saw and what the ledger holds.
"""
