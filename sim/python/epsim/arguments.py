"""Arguments as the compiled part takes them; others are refused by their names."""

from __future__ import annotations

import contextlib
import operator
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import InputError


def refused(name: str, wanted: str, value: Any) -> InputError:
    return InputError(f"`{name}`: {repr(value)[:80]} is not {wanted}.", key=name)


def whole(name: str, value: Any, least: int = -2**31, most: int = 2**31 - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise refused(name, "a whole number", value) from None
    if not least <= number <= most:
        raise refused(name, f"a whole number from {least} to {most}", value)
    return number


def number(name: str, value: Any) -> float:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise refused(name, "a number", value)
    return float(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool) and getattr(value, "dtype", None) != bool:
        raise refused(name, "True or False", value)
    return bool(value)


def text(name: str, value: Any) -> str:
    """A text or a path; "" for None."""
    try:
        value = "" if value is None else os.fspath(value)
    except TypeError:
        pass
    if not isinstance(value, str):
        raise refused(name, "a text", value)
    return value


def several(values: Any) -> Any:
    """The values of a list; a text or a number is one."""
    return values if hasattr(values, "__iter__") and not isinstance(values, (str, Mapping)) else [values]


@contextlib.contextmanager
def named(names: Mapping[str, str], document: str = "") -> Iterator[None]:
    """Names that errors have of the program, {"input-tokens": "input_tokens"}, as the arguments have them.

    document: a file that the caller knows nothing of, which errors then do not name.
    """
    any_name = "|".join(map(re.escape, names)) or "(?!)"
    words = re.compile(rf"(?:(?<=`)|(?<![\w./-])--)({any_name})(?![\w-])")
    place = re.compile(rf"(?<!\S){re.escape(document) or '(?!)'}(:\d+)?: ")

    def text_of(told: str) -> str:
        return words.sub(lambda found: names[found[1]], place.sub("", told))

    def renamed(error: InputError) -> InputError:
        file, line = (None, None) if document and error.file == document else (error.file, error.line)
        return InputError(text_of(str(error)), file, line, names.get(error.key, error.key), text_of(error.problem),
                          map(renamed, error.errors))

    try:
        yield
    except InputError as error:
        raise renamed(error) from None
