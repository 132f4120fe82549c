"""The dialogues of frames.txt, held against a hub."""

import hashlib
import hmac
import json
import pathlib
import re

import pytest

from plain import Application, Member, PlainHub

SOURCE = pathlib.Path(__file__).with_name("frames.txt").read_text()
LINE = re.compile(r"(?P<client>\d?)(?P<mark>>|<<?) (?P<text>.*)")


def dialogues():
    for part in SOURCE.split("\n= ")[1:]:
        name, _, lines = part.partition("\n")
        yield pytest.param([LINE.fullmatch(line).groupdict() for line in lines.splitlines() if line], id=name)


@pytest.fixture(scope="module")
def plain():
    with PlainHub(Application(clientEvents=True), presence_leaveGrace="100ms") as hub:
        yield hub


def filled(text, member):
    """The frame with the client's own socket id and signatures."""
    def signed(found):
        said = f"{member.socket_id}:" + found[1].replace('\\"', '"')
        return f"{member.app.key}:" + hmac.new(member.app.secret.encode(), said.encode(), hashlib.sha256).hexdigest()

    return re.sub(r"\$AUTH\((.*?)\)(?=\")", signed, text).replace("$SOCKET", member.socket_id)


def alike(expected, found):
    if expected == "$ANY":
        return found != "" or found is None
    if isinstance(expected, dict):
        return isinstance(found, dict) and expected.keys() == found.keys() and all(
            alike(expected[name], found[name]) for name in expected)
    if isinstance(expected, list) and expected and isinstance(expected[0], str):
        return isinstance(found, list) and sorted(expected) == sorted(found)
    # Numbers and texts are not the same.
    return expected == found and isinstance(found, type(expected))


@pytest.mark.parametrize("lines", list(dialogues()))
def test_dialogue(plain, lines):
    with Member(plain) as first, Member(plain) as second:
        clients = {"": first, "2": second}
        # What was read of each; the greeting is spelled out in one dialogue and passed over in the others.
        read = {client: 0 if "connection_established" in lines[0]["text"] and client is first else 1
                for client in clients.values()}
        for line in lines:
            client = clients[line["client"]]
            if line["mark"] == ">":
                client.send_text(filled(line["text"], client))
                continue
            index = read[client]
            frame = client.wait_for(lambda frame: True, line["text"], start=index)
            read[client] += 1
            found, expected = json.loads(frame.text), json.loads(filled(line["text"], client))
            if line["mark"] == "<" and expected["event"] != "pusher:pong":
                assert isinstance(found["data"], str), frame.text
                found["data"] = json.loads(found["data"])
            elif "data" in found and expected["event"] == "pusher:pong":
                # Stock clients take an object and a text.
                found["data"] = frame.data
            elif "data" not in expected:
                found.pop("data", None)
            assert alike(expected, found), frame.text
        for client in clients.values():
            pong = client.answered()
            assert client.frames[read[client]:] == [pong], "nothing else came"
