"""Values that change by themselves, recognised by their spelling: clocks and generated ids."""

import re

CLOCK_MARK = "\ue0f2"
ID_MARK = "\ue0f3"
EMAIL_MARK = "\ue0f4"

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]\.?m\b\.?)?"
_ZONE = r"(?:\s?(?:Z\b|UTC\b|GMT\b|[A-Z]{2,4}T\b|[+-]\d{2}:?\d{2}\b))?"
_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rf"|{_MONTH}\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\.?\s{_MONTH}(?:,?\s\d{{4}})?)"
)
CLOCK = re.compile(
    rf"(?<![\w.])(?:(?:{_DAY}\b,?\s+)?{_DATE}(?:(?:T|,?\s+(?:at\s+)?){_TIME}{_ZONE})?"
    rf"|(?:{_DAY}\b,?\s+)?{_TIME}{_ZONE}|{_DAY}(?=\W)|1[5-9]\d{{8}}(?:\d{{3}}|\.\d+)?)(?![\w])",
    re.IGNORECASE,
)
_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
# Letters and digits mixed without a word's shape, or a long number.
_MIXED = r"(?=[\w-]*\d)(?=[\w-]*[a-z])(?:[a-z]{2,12}[_-])?[0-9a-z]{6,}(?:-[0-9a-z]{4,})*"
ID = re.compile(rf"(?<![\w-])(?:{_UUID}|{_MIXED}|\d{{6,}})(?![\w-])", re.IGNORECASE)
_CUED_ID = re.compile(
    r"((?:\bid|\b(?:request|session|trace|run|ticket|order|conversation|correlation|case|call)"
    r"(?:[ _-]?id)?)\s*[:=#]?\s*#?)([\w.-]*\d[\w.-]*)",
    re.IGNORECASE,
)
ANY_ID = re.compile(rf"{_CUED_ID.pattern}|{ID.pattern}", re.IGNORECASE)
EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_SIGNIFICANT = re.compile(r"\d|day\b|mon\b", re.IGNORECASE)


def mask_clocks(text: str) -> str:
    """The text with dates and times replaced by a mark."""
    return CLOCK.sub(CLOCK_MARK, text) if _SIGNIFICANT.search(text) else text


def mask_ids(text: str) -> str:
    """The text with generated ids replaced by a mark."""
    masked = _CUED_ID.sub(rf"\1{ID_MARK}", text)
    return ID.sub(ID_MARK, masked)


def mask_emails(text: str) -> str:
    """The text with e-mail addresses replaced by a mark."""
    return EMAIL.sub(EMAIL_MARK, text) if "@" in text else text


def mask_volatile(text: str) -> str:
    """Clocks and ids masked; of use for finding texts again, not for judging them."""
    return mask_ids(mask_clocks(text)) if _SIGNIFICANT.search(text) else text
