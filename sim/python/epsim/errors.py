"""What goes wrong, as exceptions."""

from __future__ import annotations

import re

# As unknown_name() of sim/core/error.h lists names, which may have dots in them, quantities (quantity.cpp) their units
# and the importer of traces its formats.
_LISTED = re.compile(r"(?:Known, the nearest first: |is written with one of |which is not one of a [^:]*: |"
                     r"If it is one of these, name its format: )(.*?)\.(?:\s|$)")


class InputError(ValueError):
    """Something in the input is wrong and can be mended.

    file, line, key: where, None where that is not known.
    problem: what is wrong and what is allowed, in words.
    allowed: the names that may stand there, the nearest first, or the units, where the message lists them; else [].
    errors: of several errors in one input, all of them; else [].
    """

    def __init__(self, message, file=None, line=None, key=None, problem=None, errors=()):
        super().__init__(message)
        self.file = file
        self.line = line
        self.key = key
        self.problem = problem if problem is not None else message
        found = _LISTED.search(self.problem)
        self.allowed = [name.strip() for name in found[1].split(",")] if found else []
        self.errors = list(errors)


class RunFailed(RuntimeError):
    """A study failed although its input was acceptable: a full disk, say."""
