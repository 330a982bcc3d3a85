"""The package's exceptions: each names the value and what was expected; `hint` says what to do next."""


class PastaError(Exception):
    """Root of every error that PASTA raises on purpose; the command line prints it as one line."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """From another process it comes as it was, whatever its class is made from."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(PastaError):
    """The caller asked for something that cannot be meant: a bad option, an empty prompt."""

    exit_code = 2


class ModelError(PastaError):
    """A model cannot be found, fetched, read or run."""


class UnknownModel(ModelError):
    """No model has this name."""


class Offline(ModelError):
    """The model is not in the cache, and the network cannot be reached."""


class CorruptModel(ModelError):
    """The files are there, but are not a readable model."""


class UnsupportedModel(ModelError):
    """The files are a readable model of a kind that PASTA cannot run."""


class StorageError(ModelError):
    """The cache cannot be written: no space, or no permission."""
