"""Parentheses in the text of a definition."""

from __future__ import annotations


def end_of_level(text: str, start: int, ends: str, escaping: str = "'") -> int:
    """Return the first of some characters outside quotes and parentheses.

    Parentheses count from the start index. Without such a character, return the length of the text.

    Args:
        text: the text.
        start: the index at which to begin.
        ends: the characters to find.
        escaping: the quotes inside which a backslash escapes.
    """
    depth, quote, place = 0, "", start
    while place < len(text):
        character = text[place]
        if quote:
            if character == "\\" and quote in escaping:
                place += 1
            elif character == quote:
                quote = ""
        elif character in ends and not depth:
            return place
        elif character in "'`\"":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        place += 1
    return len(text)


def enclosed(text: str, start: int) -> str:
    """Return the text inside the parenthesis that opens at an index."""
    return text[start + 1 : end_of_level(text, start + 1, ")")]
