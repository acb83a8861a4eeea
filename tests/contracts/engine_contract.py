"""What Foreword relies on in an engine's HTTP protocol, as tests that any engine must pass.

Subclassed for the simulator (fast) and for the real SGLang, so that the one can't drift from the
other. Each test uses a salt of its own; none looks at time, and few at wording.
"""

from tests.contracts.answer_contract import SdkContract, UsageContract
from tests.contracts.cache_contract import CacheContract
from tests.contracts.completion_contract import CompletionContract
from tests.contracts.operation_contract import AbortContract, AccountContract, ErrorContract
from tests.contracts.text_contract import TokenContract


class EngineContract(
    CacheContract,
    UsageContract,
    TokenContract,
    CompletionContract,
    AccountContract,
    ErrorContract,
    AbortContract,
    SdkContract,
):
    """All of it; subclass, and supply the fixture `engine` (see client.EngineUnderTest)."""
