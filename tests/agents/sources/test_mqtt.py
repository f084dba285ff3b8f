"""Readings from a real broker: what is counted, what is not, and what happens when somebody is away."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.exactly_once import run
from tests.support.mosquitto import Mosquitto, needs_mosquitto
from tests.support.reading import parse_source
from tests.support.waiting import PATIENCE, until_true

import gossamer as gs
from gossamer.agents.broker import Broker
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sources.conformance import check_source
from gossamer.agents.sources.kinds import LiveSource
from gossamer.agents.sources.mqtt import MqttSource, _Delivery
from gossamer.errors import InvalidInput, MissingExtra

pytestmark = needs_mosquitto

PLUGINS = sorted(Path("/usr/lib").glob("**/mosquitto_dynamic_security.so"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


async def subscribed(source: LiveSource) -> None:
    await until_true(lambda: not source.failing, "a subscription")


def read(
    source: LiveSource, count: int, publish: object = None, *, store: bool = False, looked: int = 0
) -> list[list[float]]:
    """The first observations of a source, published after it has subscribed; `store` as if they were stored.

    It ends after `count` observations and `looked` messages.
    """

    async def gather() -> list[list[float]]:
        source.begin(0, 1e90)
        values: list[list[float]] = []

        async def follow() -> None:
            async for item in source.raw():
                value = source.accept(item)
                values.extend([] if value is None else [value.tolist()])
                if store:
                    source.stored(source.keep(source.position))

        task = asyncio.create_task(follow())
        await subscribed(source)
        if callable(publish):
            await asyncio.to_thread(publish)
        await until_true(
            lambda: len(values) >= count and int(source.position) >= looked,
            f"{count} observations, got {values}",
        )
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return values

    return asyncio.run(gather())


def test_it_conforms(broker: Mosquitto) -> None:
    address = broker.address("conform?client_id=conform")
    read(parse_source(address, 1, 0), 0)  # the broker now keeps messages for this client
    broker.publish([("conform", str(k % 3)) for k in range(30)])  # equal readings are different ones
    check_source(lambda: parse_source(address, 1, 0), [[k % 3] for k in range(30)])


def test_fields_units_wildcards_and_what_is_no_reading(broker: Mosquitto) -> None:
    broker.publish([("house/attic/air", '{"t": 999}')], retain=True)
    source = parse_source(broker.address("house/+/air?field=t&scale=0.1&client_id=house"), 1, 0)
    sent = [
        ("house/cellar/air", '{"t": 120}'),
        ("house/attic/air", "broken"),
        ("house/attic/air", '{"t": 300}'),
    ]
    assert read(source, 2, lambda: broker.publish(sent)) == [[12], [30]]  # not the retained one
    assert (source.good, source.bad) == (2, 1)
    assert "a reading must be JSON" in source.last_problem
    again = parse_source(broker.address("house/attic/air?field=t&retained=true&client_id=again"), 1, 0)
    assert read(again, 1) == [[999]]


def test_old_readings_are_dropped_and_counted(broker: Mosquitto) -> None:
    source = parse_source(broker.address("old?time=at&max_age=1h&client_id=old"), 1, 0)
    sent = [("old", '{"value": 1, "at": 1600000000}'), ("old", '{"value": 2, "at": 9600000000}')]
    assert read(source, 1, lambda: broker.publish(sent)) == [[2]]
    assert source.bad == 1
    assert "at most 3600 s old" in source.last_problem


def test_a_vector_of_several_topics_survives_a_restart_halfway(broker: Mosquitto) -> None:
    address = broker.address("v/a,v/b?scale=1,10&client_id=v")
    source = parse_source(address, 2, 0)
    sent = [("v/a", "1"), ("v/b", "2"), ("v/a", "3"), ("v/a", "4")]
    assert read(source, 1, lambda: broker.publish(sent), store=True, looked=4) == [[1, 20]]
    assert isinstance(source, MqttSource)
    kept = source.keep(source.position)
    second = parse_source(address, 2, 0)
    second.resume(kept)
    assert json.loads(kept)["waiting"] == [4, None]
    assert read(second, 1, lambda: broker.publish([("v/b", "5")])) == [[4, 50]]


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("identity", ["", "&sequence=n", "&time=n"])
def test_what_is_in_the_store_is_not_counted_again(broker: Mosquitto, version: int, identity: str) -> None:
    """The acknowledgments of all messages are lost, those of the first ten after they were stored."""
    name = f"again{version}{len(identity)}"
    address = broker.address(f"{name}?field=x&client_id={name}&version={version}{identity}")
    first = parse_source(address, 1, 0)
    assert isinstance(first, MqttSource)
    sent = [(name, f'{{"x": {k % 2}, "n": {1700000000 + k}}}') for k in range(18)]
    assert read(first, 18, lambda: broker.publish(sent)) == [[k % 2] for k in range(18)]
    kept = first.keep(b"10")
    second = parse_source(address, 1, 0)
    second.resume(kept)
    repeated = [sent[12]] if identity else []  # by the sensor itself
    values = read(second, 9, lambda: broker.publish([*repeated, (name, '{"x": 7, "n": 9}')]))
    assert values == [*([k % 2] for k in range(10, 18)), [7]]


def test_a_broker_may_repeat_more_messages_than_it_was_asked_to_keep_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mosquitto 2.0 does, once it has been restarted."""

    def opened(kept: bytes = b"") -> MqttSource:
        source = parse_source("mqtt://nowhere/t?field=v", 1, 0)
        assert isinstance(source, MqttSource)
        source.resume(kept)
        source.begin(0, 1e90)
        source._begin_connection()
        return source

    def counted(source: MqttSource, numbers: range, *, repeated: bool) -> int:
        values = [
            source.understand(
                _Delivery(source._connection, "t", f'{{"v": {k % 7}}}'.encode(), k, 1, False, repeated)
            )
            for k in numbers
        ]
        return sum(value is not None for value in values)

    first = opened()
    monkeypatch.setattr(first._client, "is_connected", lambda: True)
    assert counted(first, range(1, 1001), repeated=False) == 1000
    first._begin_connection()  # before the broker has any acknowledgment
    first.stored(first.keep(first.position))
    assert counted(first, range(1, 1001), repeated=True) == 0
    kept = first.keep(first.position)
    first.stored(kept)
    second = opened(kept)  # the acknowledgments of the first were lost with it
    assert counted(second, range(1, 1001), repeated=True) == 0
    assert counted(second, range(1001, 1301), repeated=False) == 300
    first._on_confirmation(first._client, None, 1, [], None)  # type: ignore[arg-type]
    assert counted(first, range(1001, 1011), repeated=False) == 10
    assert len(first._seen) == 256
    assert counted(first, range(1001, 1011), repeated=True) == 0


def test_nothing_is_acknowledged_before_the_client_has_introduced_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client would send it as the first packet of the next connection, which the broker then closes."""
    source = parse_source("mqtt://nowhere/t", 1, 0)
    assert isinstance(source, MqttSource)
    source.begin(0, 1e90)
    source._begin_connection()
    acknowledged: list[int] = []
    monkeypatch.setattr(source._client, "ack", lambda packet, qos: acknowledged.append(packet))
    for k, connected in ((1, False), (2, True)):
        monkeypatch.setattr(source._client, "is_connected", lambda: connected)  # noqa: B023
        source.understand(_Delivery(source._connection, "t", b"1", k, 1, False, False))
        source.stored(source.keep(source.position))
    assert acknowledged == [2]


@pytest.mark.parametrize("options", ["", "&sequence=n", "&time=at", "&sequence=n&time=at"])
def test_what_counts_as_one_reading(broker: Mosquitto, options: str) -> None:
    """Five readings per second with a clock of seconds, then a sensor that begins to count again."""
    name = f"equal{len(options)}"
    source = parse_source(broker.address(f"{name}?field=v&client_id={name}{options}"), 1, 0)
    sent = [{"v": k % 4, "n": k % 50, "at": 1700000000 + k // 5} for k in range(100)]
    messages = [(name, json.dumps(reading)) for reading in sent]
    last = (name, '{"v": 7, "n": 77, "at": 7}')
    values = read(source, 1, lambda: broker.publish([*messages, messages[-1], last]), looked=102)
    assert values[-1] == [7]
    sent += [sent[-1]] if not options else []  # repeated; only these fields can show it
    told = [(r["v"], "sequence" in options and r["n"], "time" in options and r["at"]) for r in sent]
    assert len(values) - 1 == (len(set(told)) if options else 101)


@pytest.mark.parametrize("version", [3, 5])
def test_a_session_forgets_the_topics_of_an_earlier_run(broker: Mosquitto, version: int) -> None:
    name = f"topics{version}"

    def opened(topics: str, dimension: int, kept: bytes) -> MqttSource:
        made = parse_source(broker.address(f"{topics}?client_id={name}&version={version}"), dimension, 0)
        assert isinstance(made, MqttSource)
        made.resume(kept)
        return made

    old = opened(f"{name}/#", 1, b"")
    read(old, 1, lambda: broker.publish([(f"{name}/a", "1")]), store=True)
    broker.publish([(f"{name}/c", "2")])  # while the agent is away
    new = opened(f"{name}/a", 1, old.keep(old.position))
    sent = [(f"{name}/{topic}", str(k)) for k, topic in enumerate("cacac")]
    assert read(new, 2, lambda: broker.publish(sent), store=True) == [[1], [3]]  # each once
    assert (new.bad, new.last_problem) == (1, f"a reading must be from {name}/a, got one from {name}/c")
    pair = opened(f"{name}/b,{name}/d", 2, new.keep(new.position))
    sent = [(f"{name}/a", "1"), (f"{name}/b", "2"), (f"{name}/d", "3")]
    assert read(pair, 1, lambda: broker.publish(sent)) == [[2, 3]]
    assert pair.bad == 0


def test_a_group_shares_a_topic_and_a_message_must_be_short(broker: Mosquitto) -> None:
    source = parse_source(broker.address("$share/group/huge?client_id=huge"), 1, 0)
    sent = [("huge", "1 " * 1_000_000), ("huge", "2")]
    assert read(source, 1, lambda: broker.publish(sent)) == [[2]]
    assert source.last_problem == "a reading must be a short text, got 2000000 bytes"


def failure(address: str, directory: Path, *, lasting: str = "is not connected yet") -> str:
    """Why a source receives nothing, as soon as that is not `lasting`."""

    async def follow() -> str:
        source = parse_source(address, 1, 0, directory=directory)
        source.begin(0, 1e90)
        task = asyncio.create_task(anext(aiter(source)))  # type: ignore[arg-type, type-var]
        await until_true(lambda: lasting not in source.failing, "an answer")
        why = source.failing
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return why

    return asyncio.run(follow())


@pytest.mark.skipif(not PLUGINS, reason="needs Mosquitto's plugin for dynamic security")
@pytest.mark.parametrize("version", [3, 5])
def test_a_subscription_that_is_refused_is_told(tmp_path: Path, version: int) -> None:
    access = {"publishClientSend": True, "publishClientReceive": True, "subscribe": False}
    (tmp_path / "access.json").write_text(json.dumps({"defaultACLAccess": access}))
    broker = Mosquitto(
        tmp_path,
        f"allow_anonymous true\nplugin {PLUGINS[0]}\nplugin_opt_config_file {tmp_path}/access.json",
    )
    try:
        why = failure(broker.address(f"a,b?version={version}"), tmp_path)
    finally:
        broker.stop()
    assert why == f"the broker 127.0.0.1:{broker.port} refuses the subscription to a, b"


def test_two_clients_of_one_name_are_told_so(broker: Mosquitto, tmp_path: Path) -> None:
    address = broker.address("t?client_id=twice")

    async def follow() -> str:
        source = parse_source(address, 1, 0)
        source.begin(0, 1e90)
        task = asyncio.create_task(anext(aiter(source)))  # type: ignore[arg-type, type-var]
        await subscribed(source)
        second = Broker(Url(address), Place(), role="source")
        second.client()
        second.start()
        await until_true(lambda: source.failing, "the end of its connection")
        second.stop()
        why = source.failing
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return why

    assert "soon after it was made; another client may use the client_id twice" in asyncio.run(follow())


def test_a_broker_that_has_forgotten_the_session_is_told(
    broker: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    address = broker.address("forgotten?session=0&client_id=forgotten")
    first = parse_source(address, 1, 0)
    read(first, 1, lambda: broker.publish([("forgotten", "1")]))
    second = parse_source(address.replace("session=0", "session=1h"), 1, 0)
    second.resume(first.keep(first.position))
    caplog.clear()
    read(second, 1, lambda: broker.publish([("forgotten", "1")]))
    assert "has kept no messages for this agent" in caplog.text


@pytest.mark.slow
def test_away_is_degraded_and_back_by_itself(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    settings = gs.AgentSettings(0, (), method=gs.AnytimeSDA("local"), pace=0.01, commit=0.01)

    async def live() -> None:
        source = parse_source(broker.address("t?client_id=x"), 1, 0)
        memory = gs.agents.Memory().transport(0, ())
        async with gs.Agent(settings, transport=memory, source=source, store=tmp_path / "a.sqlite") as agent:
            await subscribed(source)
            await asyncio.to_thread(broker.publish, [("t", "1"), ("t", "2")])
            await until_true(lambda: agent.snapshot.acknowledged == 2, "two readings in the store")
            await asyncio.to_thread(broker.stop)
            await until_true(lambda: agent.snapshot.state == "degraded", "a degraded agent")
            assert f"the broker 127.0.0.1:{broker.port} is away" in agent.snapshot.problem
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(broker.publish, [("t", "6")])
            await until_true(lambda: agent.snapshot.acknowledged == 3, "a third reading")
            assert agent.snapshot.state == "running"
            assert agent.snapshot.samples == 3

    try:
        asyncio.run(asyncio.wait_for(live(), PATIENCE))
    finally:
        broker.stop()


@pytest.mark.slow
def test_each_reading_counts_once_through_kills_and_restarts(tmp_path: Path) -> None:
    """In small; benchmarks/mqtt_exactly_once.py is the same at large."""
    broker = Mosquitto(tmp_path)
    try:
        result = run(broker, tmp_path, readings=200, kills=2, restarts=1)
    finally:
        broker.stop()
    assert (result["counted"], result["sum"]) == (200, result["right"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves a failed socket
def test_users_passwords_and_certificates(tmp_path: Path) -> None:
    from gossamer.agents.membership.certificates import Authority

    authority = Authority.create(tmp_path / "certificates", "plant")
    authority.issue("server", ["127.0.0.1", "localhost"])
    where = tmp_path / "certificates"
    subprocess.run(["mosquitto_passwd", "-b", "-c", tmp_path / "users", "ann", "swordfish"], check=True)
    broker = Mosquitto(
        tmp_path,
        f"allow_anonymous false\npassword_file {tmp_path}/users\ncafile {where}/ca.pem\n"
        f"certfile {where}/server.pem\nkeyfile {where}/server.key",
    )
    (tmp_path / "good").write_text("swordfish\n")
    (tmp_path / "bad").write_text("shark\n")
    for file in ("good", "bad"):
        (tmp_path / file).chmod(0o600)

    def state(options: str, authority: str = "certificates") -> str:
        address = f"mqtts://ann@localhost:{broker.port}/t?client_id=x&ca={authority}/ca.pem{options}"
        return failure(address, tmp_path)

    Authority.create(tmp_path / "others", "others")
    try:
        assert state("&password_file=good") == ""
        assert "refuses this client (Not authorized)" in state("&password_file=bad")
        assert "cannot be reached (self-signed certificate in" in state("&password_file=good", "others")
        assert "closed the connection before it answered" in failure(broker.address("t"), tmp_path)
        with pytest.raises(InvalidInput, match=r"mqtts: cannot use .*/missing/ca.pem: No such file"):
            state("&password_file=good", "missing")
        (tmp_path / "empty").touch(0o600)
        with pytest.raises(InvalidInput, match=r"the first line of .* must be the secret, got an empty one"):
            state("&password_file=empty")
        (tmp_path / "good").chmod(0o644)
        with pytest.raises(InvalidInput, match="readable only by its owner"):
            state("&password_file=good")
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mqtt://host", r"mqtt: needs a topic, or one for each of the 2 component\(s\)"),
        ("mqtt://host/a,b,c", "got 3"),
        ("mqtt:///topic", "mqtt: needs the host of a broker"),
        ("mqtt://host/a?qos=2", "qos must be"),
        ("mqtt://host/a?ca=x", "ca, cert and key are for mqtts://"),
        ("mqtts://host/a?key=x", "cert and key must be given together"),
        ("mqtt://host/a?password_file=x", "password_file needs a user, as in mqtt://USER@HOST"),
        ("mqtt://host/a/#/b", "needs a topic in which .*, got 'a/#/b'"),
        ("mqtt://host/a+", r"got 'a\+'"),
        ("mqtt://host/a?feild=x", r"mqtt: takes the options .*, got 'feild' \(did you mean 'field'\?\)"),
    ],
)
def test_a_wrong_address_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_source(text, 2, 0)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    source = parse_source("mqtt://host/a", 1, 0)  # which other machines may look at
    with pytest.raises(MissingExtra, match=r"pip install 'gossamer\[mqtt\]'"):
        source.begin(0, 1e90)
