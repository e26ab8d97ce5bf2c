"""Text of a path segment <-> Python value."""

import uuid


class Converter:
    """`regex` is what the text looks like; both directions raise ValueError for what does not fit."""

    regex = "[^/]+"

    def to_python(self, text):
        return text

    def to_url(self, value):
        text = str(value)
        if not text:
            raise ValueError("an empty value can not be part of a path")
        return text


class IntConverter(Converter):
    regex = r"\d+"

    def to_python(self, text):
        return int(text)

    def to_url(self, value):
        if int(value) < 0:
            raise ValueError("negative number %r" % value)
        return str(int(value))


class UUIDConverter(Converter):
    regex = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

    def to_python(self, text):
        return uuid.UUID(text)


class PathConverter(Converter):
    regex = "[^/].*?"


CONVERTERS = {"str": Converter, "int": IntConverter, "uuid": UUIDConverter, "path": PathConverter}
