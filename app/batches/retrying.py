"""Which refusals of a batch's request are only for now, and how long to wait. Pure."""

MOST_ATTEMPTS = 3
_LONGEST_S = 30.0


def pause_s(status: int, retry_after_s: float | None, attempts: int) -> float | None:
    """Seconds until the request is sent again; None: its answer stands.

    What is full, taken or not there yet is waited for as long as the batch may take; what failed
    is tried a few times. A limit that says no time can never be kept, and a conflict that says none
    doesn't pass.

    Args:
        attempts: how often it was sent.
    """
    backoff_s = min(2.0 ** (attempts - 1), _LONGEST_S)
    match status:
        case 409 | 429:
            return None if retry_after_s is None else max(retry_after_s, 1.0)
        case 503:
            return backoff_s if retry_after_s is None else max(retry_after_s, 1.0)
        case 500 | 502 | 504 if attempts < MOST_ATTEMPTS:
            return backoff_s
        case _:
            return None
