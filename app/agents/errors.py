"""What can go wrong with a run.

```
GatewayError
├── RunNotFoundError      (run_id)
├── RunEndedError         (run_id, status)
└── CallNotWaitingError   (run_id, call_id)
```
"""

from app.errors import GatewayError


class AgentToolsError(GatewayError):
    """The tools of an agent can't be had together."""

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"agent {agent}: {problem}")
        self.agent = agent
        self.problem = problem


class RunNotFoundError(GatewayError):
    """The tenant has no such run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id!r}; GET /foreword/agents/runs lists yours")
        self.run_id = run_id


class RunEndedError(GatewayError):
    """A run that can't be cancelled or decided about any more."""

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"run {run_id!r} is {status}; only one under way can be changed")
        self.run_id = run_id
        self.status = status


class CallNotWaitingError(GatewayError):
    """No such call of the run waits for a decision."""

    def __init__(self, run_id: str, call_id: str) -> None:
        super().__init__(
            f"no call {call_id!r} of run {run_id!r} waits for a decision; "
            f"GET /foreword/agents/runs/{run_id} shows those that do, under `waiting`"
        )
        self.run_id = run_id
        self.call_id = call_id
