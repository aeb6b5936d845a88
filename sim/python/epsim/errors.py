"""What goes wrong, as exceptions."""

from __future__ import annotations

import re

_LISTED = re.compile(r"(?:Known, the nearest first|one of|are|allowed): ([^.;]*)[.;]")


class InputError(ValueError):
    """Something in the input is wrong and can be mended.

    file, line, key: where, None where that is not known.
    problem: what is wrong and what is allowed, in words.
    allowed: the names that may stand there, the nearest first, where the message lists them; else [].
    errors: of several errors in one input, all of them; else [].
    """

    def __init__(self, message, file=None, line=None, key=None, problem=None, errors=()):
        super().__init__(message)
        self.file = file
        self.line = line
        self.key = key
        self.problem = problem if problem is not None else message
        found = _LISTED.search(self.problem)
        self.allowed = [name.strip() for name in found.group(1).split(",")] if found else []
        self.errors = list(errors)


class RunFailed(RuntimeError):
    """A study failed although its input was acceptable: a full disk, say."""
