"""FW7xx: what the engine and its tiers do with a good prompt."""

from prompts.lint.findings import Severity
from prompts.lint.rule import Rule, Subject


class SaltSplitsSharedPrefix(Rule):
    """The same prefix is sent under several salts.

    ## What it does
    In request logs, finds requests that share a prefix and differ in `cache_salt` or `extra_key`.

    ## Why it costs
    The engine shares nothing between salts: that is what they are for. A salt for every user or
    request, where one for each tenant would do, keeps as many copies of the scaffold.

    ## Example
    Two users of one tenant.
    ```json page-size=8 times=2
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"}
      ],
      "cache_salt": "user-17"
    }
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "Which oil is right for the chain?"}
      ],
      "cache_salt": "user-18"
    }
    ```

    ## Use instead
    One salt for all of a tenant's requests.
    ```json page-size=8 times=2
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"}
      ],
      "cache_salt": "bicycle-shop"
    }
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "Which oil is right for the chain?"}
      ],
      "cache_salt": "bicycle-shop"
    }
    ```

    ## Fix safety
    No fix: salts keep tenants apart. Never drop them to gain speed.

    ## References
    SGLang's `cache_salt`; LMCache#4825.
    """

    code = "FW701"
    name = "salt-splits-shared-prefix"
    severity = Severity.WARNING
    subjects = (Subject.LOG,)


class Capacity(Rule):
    """What could be re-used is pushed out of the cache before it is asked for again.

    ## What it does
    In request logs, finds prefixes that come again after more other tokens than the cache holds.

    ## Why it costs
    The prompts are fine, the cache is too small or the requests are mixed badly: the same text is
    prefilled again.

    ## Example
    Two prompts in turn, on a cache with room for one.
    ```json page-size=8 capacity-tokens=32 times=3
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"}
      ]
    }
    {
      "messages": [
        {"role": "system", "content": "Name the year in which each of these ships was built."},
        {"role": "user", "content": "Cutty Sark, Gorch Fock, Amerigo Vespucci"}
      ]
    }
    ```

    ## Use instead
    More KV memory, a tier behind it (LMCache), or routing that keeps a tenant on one replica.
    ```json page-size=8 capacity-tokens=256 times=3
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"}
      ]
    }
    {
      "messages": [
        {"role": "system", "content": "Name the year in which each of these ships was built."},
        {"role": "user", "content": "Cutty Sark, Gorch Fock, Amerigo Vespucci"}
      ]
    }
    ```

    ## Fix safety
    No fix.

    ## References
    Stack distances: Mattson et al., 1970.
    """

    code = "FW702"
    name = "capacity"
    severity = Severity.WARNING
    subjects = (Subject.LOG,)


RULES: tuple[type[Rule], ...] = (SaltSplitsSharedPrefix, Capacity)
