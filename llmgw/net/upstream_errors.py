"""What can go wrong between the gateway and an engine, by phase, so that a retry is decided on facts (S-50).

`before_first_byte` says that no byte of the answer's body was received: only then may another replica be tried.
The sentences name phases and never an address, since they may reach a client.
"""


class UpstreamError(Exception):
    """An engine did not answer as it should. `reason` is fit for an error message."""

    def __init__(self, reason: str, *, before_first_byte: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.before_first_byte = before_first_byte


class ConnectFailed(UpstreamError):
    """No connection within its deadline, or refused."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, before_first_byte=True)


class FirstByteTimeout(UpstreamError):
    """The request went out and no byte of the answer's body came in time."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, before_first_byte=True)


class IdleTimeout(UpstreamError):
    """The answer had begun and then nothing came for too long."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, before_first_byte=False)


class UpstreamBroken(UpstreamError):
    """The connection ended early, or what came was not HTTP as it must be."""
