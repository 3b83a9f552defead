"""The one error of the task runner: a sentence for the person who called it."""


class Failure(Exception):
    """The command cannot go on; the text says what, where and what to do."""
