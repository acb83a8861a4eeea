"""What SGLang 0.5.23 with LMCache 0.5.6 lacks to be trusted in front of people.

Three entrances, each refusing other versions before anything starts: `foreword_guard.engine`
(SGLang), `foreword_guard.tier` (`lmcache server`) and `foreword_guard.check`. The pure parts
(`breaker`, `aead`, `settings`, `versions`, `refusals`) import neither of the two.
"""
