"""Applies changes of fleet.toml, the roster and the certificates to a running agent.

- SIGHUP makes the agent read fleet.toml again.
- A roster comes from a neighbor that has a newer one, from the operator (`gossamer fleet push`), or as a file next to
  fleet.toml. It is accepted if the fleet's authority signed it and its epoch is newer; it is then written next to
  fleet.toml, so that a restart begins with it. Two different rosters of one epoch are reported and ignored.
- New certificates are used once their files have changed and then stayed the same between two looks.
- An agent that misses a neighbor asks other members for their roster: its neighbors may have changed while it was
  away. The roster is also in the agent's store, so that an agent never begins with an older one. If the store is from
  a backup as well, all its neighbors may have been removed since, so it also asks distant members after its start.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gossamer.agents import files
from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import MEMBER_FIXED, OPERATOR, AgentSettings, Neighbor
from gossamer.agents.config.tables import Member, duration
from gossamer.agents.host import logs
from gossamer.agents.host.options import Options
from gossamer.agents.membership.certificates import read_certificate, validity, write_file
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.renewal import RENEW, Renewal
from gossamer.agents.membership.roster import Roster, roster_path
from gossamer.agents.rewiring import HAND_OVER, HELD, TAKE_BACK
from gossamer.agents.sinks.publishing import Publisher
from gossamer.agents.sources.kinds import AnySource
from gossamer.agents.transports.calling import ask
from gossamer.errors import GossamerError, InvalidInput, OutputError

log = logging.getLogger("gossamer.agents.host.reloading")

LOOK_EVERY = 2.0
"""Seconds between two looks at the files."""

_LONELY = 5
"""Number of looks in a row without a neighbor after which another member is asked. If all neighbors are missing it is
asked again at every look, otherwise again after this many."""

_DISTANT = 3
"""Number of members other than neighbors that an agent asks for their roster after its start, one per look."""

_NOTICE = 14
"""Days before the expiry of a certificate from which the log warns, once a day."""


class Reloader:
    """Keeps the settings of a running agent up to date.

    left       called when the agent is no longer a member
    set_level  sets the level of the process's logs; returns whether that is a change
    reopen     reopens the output, in case its file was moved
    """

    def __init__(self, options: Options, fleet: Fleet) -> None:
        self._options = options
        self._path = Path(options.fleet)
        self.set_level: Callable[[str], bool] = lambda level: False
        self.reopen: Callable[[], None] = lambda: None
        self._fleet = fleet
        self.me: Member = fleet.member(options.agent)
        self.agent: Agent | None = None
        self.left: Callable[[], None] = lambda: None
        self._signed = self._read_roster()
        self._loop = asyncio.get_running_loop()
        self._stamps = self._seen = self._stamp()
        self._renewal = Renewal(self._path.parent / fleet.certificates)
        self._lonely = self._doubt = 0
        self._unasked = _DISTANT
        self._others: Iterator[Member] = iter(())
        self._asking: threading.Thread | None = None
        self._warned = 0
        self._removed = False

    def source(self) -> AnySource:
        """Return the agent's source of observations."""
        options = self._options
        return self._fleet.source(self.me.id, options.source, options.end, self._path.parent)

    def publishers(self) -> list[Publisher]:
        """Return what publishes the agent's answers."""
        return self._fleet.publishers(self.me.id, self._options.sinks, self._path.parent)

    # -- settings -------------------------------------------------------------------------------------------

    def settings(self, fleet: Fleet | None = None, store: Path | None = None) -> AgentSettings:
        """Return the agent's settings in this fleet, with the signed roster that it forwards."""
        options, fleet = self._options, fleet or self._fleet
        made = fleet.settings(
            self.me.id, self._path.parent, insecure=options.insecure, every=options.every, store=store
        )
        return replace(made, roster=self._signed)

    def _read_roster(self) -> bytes:
        """Return the content of the roster's file; empty if it cannot be read."""
        path = roster_path(self._path)
        try:
            files.check([path])
            return path.read_bytes()
        except FileNotFoundError:
            return b""
        except (OSError, InvalidInput) as error:
            log.error("the roster's file cannot be read: %s", error)
            return b""

    def every(self) -> float:
        """Seconds between two estimates in the output."""
        given = self._options.report
        return duration("logging.report", self._fleet.logging.report) if given is None else given

    def level(self) -> str:
        """Return the lowest level of messages that are logged."""
        return self._options.level or self.me.level or self._fleet.logging.level

    def validity(self) -> tuple[datetime, datetime] | None:
        """Return the first and last moment of the agent's certificate; None if it has none."""
        if self._options.insecure:
            return None
        return validity(self._path.parent / self._fleet.certificates / f"{self.me.name}.pem")

    def known_end(self) -> datetime | None:
        """When the agent's certificate expires; None if it has none, or if it cannot be read now."""
        with suppress(GossamerError):
            validity = self.validity()
            return validity and validity[1]
        return None

    @property
    def dimension(self) -> int:
        """Number of components of an observation."""
        return self._fleet.dimension

    @property
    def stop_timeout(self) -> float:
        """Seconds in which the agent must end after it is asked to stop."""
        return duration("rounds.stop_timeout", self._fleet.rounds.stop_timeout)

    def begin_with(self, stored: bytes) -> None:
        """Start with the roster of the agent's store if it is newer than that of its files.

        The files may be from a backup or an immutable image. Raises InvalidInput if the agent was removed.
        """
        if not stored or stored == self._signed:
            return
        try:
            authority = read_certificate(self._path.parent / self._fleet.certificates / "ca.pem")
            roster = Roster.open(stored, authority, self._fleet.fleet)
        except GossamerError as error:  # such as another authority
            log.warning("the roster in the store is not used: %s", error)
            return
        if roster.epoch <= self._fleet.epoch:
            return
        if all(member.id != self.me.id for member in roster.members):
            raise InvalidInput(
                f"{self.me.name} was removed from the fleet in epoch {roster.epoch}, as its store says, but its files "
                f"are of epoch {self._fleet.epoch}; delete its store if it is to begin in another fleet"
            )
        log.warning(
            "begins with the roster of epoch %d from its store, because its files have that of epoch %d",
            roster.epoch,
            self._fleet.epoch,
        )
        self._signed, self._fleet = stored, self._fleet.with_roster(roster)
        self.me = self._fleet.member(self.me.id)
        with suppress(OutputError):  # the folder may be read-only
            write_file(roster_path(self._path), stored)
        self._stamps = self._seen = self._stamp()

    # -- applying changes ------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read fleet.toml again. Never raises: an invalid file is reported, and the old settings stay."""
        try:
            logs.reopen()
            self.reopen()
            fleet = Fleet.read(self._path, load=True)
        except Exception as error:  # whatever is wrong with the files, the agent must continue
            log.error("the new fleet.toml is invalid, so the old settings stay: %s", error)
            return
        if fleet.epoch > self._fleet.epoch:
            self._signed = self._read_roster()
        if self.agent is not None:
            self.agent.pardon()
        self._follow(fleet, "read fleet.toml again")

    def _follow(self, fleet: Fleet, why: str) -> None:
        """Apply another state of the fleet from the next round on."""
        agent, before = self.agent, self.me
        if agent is None or self._removed:
            return
        if all(member.id != before.id for member in fleet.agents):
            self._removed = True
            agent.farewell = self._signed
            gone = next((gone.epoch for gone in fleet.left if gone.id == before.id), fleet.epoch)
            log.warning("this agent was removed from the fleet in epoch %d, so it stops", gone)
            self.left()
            return
        try:
            settings = self.settings(fleet, agent.settings.store)
        except Exception as error:
            log.error("%s, but the settings are invalid, so the old ones stay: %s", why, error)
            return
        every, self._fleet, self.me = self.every(), fleet, fleet.member(before.id)
        level = self.set_level(self.level())  # first, because the agent's thread logs the change
        changed, waiting = agent.apply(settings)
        changed += ["level"] if level else []
        changed += ["report"] if self.every() != every else []
        waiting += [name for name in MEMBER_FIXED if getattr(self.me, name) != getattr(before, name)]
        said = [f"{', '.join(changed)} changed"] if changed else []
        said += [f"{', '.join(waiting)} take effect when the agent is restarted"] if waiting else []
        log.info(
            "%s: %s",
            why,
            "; ".join(said) or "no setting changed",
            extra={"changed": changed, "needs_restart": waiting},
        )

    def offer(self, data: bytes, giver: str) -> str:
        """Accept a roster if it is valid and newer; return the result in words. Any thread may call this."""
        try:
            authority = read_certificate(self._path.parent / self._fleet.certificates / "ca.pem")
            roster = Roster.open(data, authority, self._fleet.fleet)
            newer = roster.supersedes(self._fleet.roster)
            if roster.epoch == self._fleet.epoch:
                return f"{self.me.name} already follows epoch {roster.epoch}"
            if not newer:
                return f"epoch {roster.epoch} is not newer than epoch {self._fleet.epoch}, which {self.me.name} follows"
        except InvalidInput as error:
            log.error("refused a roster from %s: %s", giver, error)
            if self.agent is not None:
                self.agent.refuse_roster()
            return f"{self.me.name} refused the roster: {error}"
        self._loop.call_soon_threadsafe(self._take, roster, data, giver)
        return f"{self.me.name} follows epoch {roster.epoch}"

    def _take(self, roster: Roster, data: bytes, giver: str) -> None:
        if roster.epoch <= self._fleet.epoch:  # another thread was faster
            return
        try:
            if self._read_roster() != data:  # another agent with the same folder may have written it
                write_file(roster_path(self._path), data)
        except OutputError as error:
            log.warning("the roster cannot be stored: %s", error)
        self._signed, self._stamps = data, self._stamp()
        self._seen = self._stamps
        self._follow(
            self._fleet.with_roster(roster), f"follows the roster of epoch {roster.epoch} from {giver}"
        )

    def answer(self, name: str, question: bytes) -> bytes:
        """Answer a question of a member or the operator.

        A roster is answered with the result, and an empty question with this agent's own roster; a former neighbor is
        told the flow of the common edge, and the operator how far the agent has handed its data over.
        """
        agent = self.agent
        if question.startswith(RENEW):
            if name != OPERATOR:
                return b"only the operator may ask for that"
            return self._renewal.answer(question, self.me)
        if question in (HAND_OVER, TAKE_BACK, HELD) and agent is not None:
            if question == HELD:
                asker = next((m.id for m in self._fleet.agents if m.certified == name), None)
                return b"" if asker is None else agent.changes.held(asker)
            if name != OPERATOR:
                return b"only the operator may ask for that"
            agent.changes.wish(question == HAND_OVER)
            return agent.changes.report
        if question:
            return self.offer(question, name).encode()
        return self._signed

    # -- looking --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check for changed files and for missing neighbors; called every `LOOK_EVERY` seconds."""
        self._look_at_files()
        self._warn_of_expiry()
        now = None if self.agent is None else self.agent.snapshot
        missing = [] if now is None else [n for n in now.neighbors if n.state not in ("alive", "stopped")]
        self._lonely = self._lonely + 1 if missing else 0
        alone = now is not None and len(missing) == len(now.neighbors)
        if self._lonely >= _LONELY and (alone or self._lonely % _LONELY == 0) and self._may_ask:
            self._ask_around()
        elif self._unasked and self._may_ask:
            self._unasked -= 1
            self._ask_distant(self._unasked)
        doubts = self.agent.changes.doubts if self.agent is not None else []
        if doubts and self._may_ask:
            self._doubt += 1
            self._ask_in_thread(self._ask_held, doubts[self._doubt % len(doubts)])

    def _stamp(self) -> list[tuple[int, int]]:
        """Modification times and inodes of the roster and the certificates."""
        where = self._path.parent / self._fleet.certificates
        own = where / f"{self.me.name}.pem", where / f"{self.me.name}.key"
        return [_written(file) for file in (roster_path(self._path), where / "ca.pem", *own)]

    def _look_at_files(self) -> None:
        now, seen, known = self._stamp(), self._seen, self._stamps
        self._seen = now
        if now == known or now != seen:  # unchanged, or still being written
            return
        certificates = now[1:] != known[1:]
        self._stamps = now
        signed = self._read_roster()  # also one that had to wait for its certificate
        if signed:
            self.offer(signed, "the file next to fleet.toml")
        if certificates:
            self._loop.call_soon(lambda: self._follow(self._fleet, "new certificates"))  # after the roster

    def _warn_of_expiry(self) -> None:
        end, now = self.known_end(), datetime.now(UTC)
        if end is not None and (end - now).days < _NOTICE and self._warned != now.toordinal():
            self._warned = now.toordinal()
            left = (end - now).days
            log.warning("this agent's certificate expires in %d days; run `gossamer fleet renew`", left)

    @property
    def _may_ask(self) -> bool:
        """Whether members can be asked, and none is being asked now."""
        return not self._options.insecure and (self._asking is None or not self._asking.is_alive())

    def _ask_in_thread(self, question: Callable[..., None], about: object) -> None:
        """Ask in a daemon thread: a member that does not answer must not delay a stop."""
        self._asking = threading.Thread(target=question, args=(about,), name="asking", daemon=True)
        self._asking.start()

    def _ask_held(self, other: int) -> None:
        """Ask a former neighbor for its flow of an edge that ended while the two were disconnected."""
        agent, member = self.agent, self._fleet.member(other)
        with suppress(OSError, GossamerError):
            contact = Neighbor(member.id, endpoint=member.endpoint, name=member.certified)
            tls = self._fleet.tls(self.me.id, self._path.parent)
            held = ask(tls, self._fleet.fleet, contact, HELD)
            if agent is not None and held:
                agent.changes.settle(other, held)

    def _ask_around(self) -> None:
        """Ask the next member for its roster, by its certificate."""
        member = next(self._others, None)
        if member is None:
            self._others = iter([m for m in self._fleet.agents if m.id != self.me.id and m.reachable])
            return
        self._ask_member(member)

    def _ask_distant(self, k: int) -> None:
        """Ask one of the members that are neither this agent nor its neighbors; other agents begin with others."""
        near = {self.me.id, *self._fleet.weights[self.me.id]}
        distant = [m for m in self._fleet.agents if m.id not in near and m.reachable]
        if k < len(distant):
            self._ask_member(distant[(self.me.id + k) % len(distant)])

    def _ask_member(self, member: Member) -> None:
        contact = Neighbor(member.id, endpoint=member.endpoint, name=member.certified)
        self._ask_in_thread(self._ask, contact)

    def _ask(self, contact: Neighbor) -> None:
        with suppress(OSError, GossamerError, RuntimeError):  # RuntimeError: the event loop has ended
            roster = ask(self._fleet.tls(self.me.id, self._path.parent), self._fleet.fleet, contact, b"")
            if roster and roster != self._signed:
                self.offer(roster, contact.label)


def _written(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino
