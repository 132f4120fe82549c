"""Names of user streams, written down a second time, from the design alone."""

_UNRESERVED = set(b"-_@,.;" + bytes(range(48, 58)) + bytes(range(65, 91)) + bytes(range(97, 123)))


def escaped(user):
    """A user's id as channel names hold it: `=` and odd bytes written `=XX`."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"={byte:02X}" for byte in user.encode())


def stream(user, topic="adherence"):
    return f"user.{escaped(user)}.{topic}"


def private_stream(user, topic="adherence"):
    return f"private-user.{escaped(user)}.{topic}"
