"""What an operator may not do, as one sentence, before anything is written (00 V-1, V-7)."""


class Refused(Exception):
    """A refusal: `status` is the HTTP status of the admin API, `sentence` says what, where and what to do."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
