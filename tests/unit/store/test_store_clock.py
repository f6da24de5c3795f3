"""What a process concludes from a look at the server's clock. Method: several hosts with virtual clocks, one server
whose clock is set, and the row that they share."""

from __future__ import annotations

from holdfast.model.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from holdfast.store.clock import VirtualClock
from holdfast.store.store_clock import SETTLED_US, TOLERANCE_US, ClockReading, ServerStoreClock


class Server:
    """The server's clock and the row of the store. Time passes for the server and all hosts alike."""

    def __init__(self) -> None:
        self.wall_us = 1_700_000_000 * SECOND
        self.step_us = self.epoch = self.seen_at = 0
        self.steps: list[int] = []
        self.hosts: list[Host] = []

    def host(self) -> Host:
        host = Host(self)
        self.hosts.append(host)
        host.look()
        return host

    def advance(self, us: int, *paused: Host) -> None:
        self.wall_us += us
        for host in self.hosts:
            if host not in paused:
                host.ticks.advance(us)


class Host:
    """A process on a host of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.ticks = VirtualClock()
        self.clock = ServerStoreClock(self.ticks)

    def look(self, trip_us: int = MILLISECOND) -> None:
        """As `read_server_clock` does it, with a round trip that takes so long."""
        server = self._server
        while True:
            asked, settled = self.ticks.tick_us(), self.clock.read_settled_us()
            server.advance(trip_us // 2)
            seen_at, found = server.seen_at, server.wall_us
            if settled is not None:
                server.seen_at = max(seen_at, settled)
            step_us, epoch = server.step_us, server.epoch
            server.advance(trip_us // 2)
            new = self.clock.judge(ClockReading(found, step_us, epoch, seen_at, asked, self.ticks.tick_us()))
            if new is None:
                return
            server.steps.append(new - server.step_us)
            server.step_us, server.epoch = new, epoch + 1


def settled(*hosts: Host) -> None:
    """All of them have known the store for a while."""
    server = hosts[0]._server
    for _ in range(4):
        server.advance(SETTLED_US // 3)
        for host in hosts:
            host.look()


def test_a_step_of_the_server_is_recorded_once_and_changes_no_time() -> None:
    """Goal: all processes agree on one step, whichever looks first. Method: the server is set, each looks several
    times."""
    for step_us in (HOUR, -HOUR, DAY):
        server = Server()
        hosts = [server.host(), server.host()]
        settled(*hosts)
        before = [host.clock.wall_us() for host in hosts]
        server.wall_us += step_us
        server.advance(SECOND)
        for _ in range(3):
            for host in hosts:
                host.look()
        assert len(server.steps) == 1
        assert abs(server.steps[0] - step_us) < 10 * MILLISECOND
        for host, was in zip(hosts, before, strict=True):
            assert abs(host.clock.wall_us() - was - SECOND) < 50 * MILLISECOND
            assert abs(host.clock.calendar_us() - server.wall_us) < 10 * MILLISECOND


def test_a_clock_that_is_set_and_corrected_leaves_nothing() -> None:
    server = Server()
    host = server.host()
    server.wall_us += DAY
    host.look()
    server.wall_us -= DAY
    host.look()
    assert abs(server.step_us) < 10 * MILLISECOND
    assert server.epoch == 2


def test_small_differences_are_followed_and_not_recorded() -> None:
    """Goal: a clock that is slewed, another server after a failover, and slow round trips are no steps."""
    server = Server()
    host = server.host()
    for _ in range(100):
        server.advance(5 * SECOND)
        server.wall_us += 500 * MILLISECOND
        host.look(trip_us=30 * MILLISECOND)
    server.advance(5 * SECOND)
    host.look(trip_us=20 * SECOND)
    assert server.steps == []
    assert abs(host.clock.wall_us() - server.wall_us) < TOLERANCE_US
    server.advance(10 * DAY)
    server.wall_us += 100 * SECOND
    host.look()
    assert server.steps == [], "after days without a look two clocks may differ by more"


def test_a_host_that_stood_still_follows_the_others() -> None:
    """Goal: a paused virtual machine does not make its time everybody's. Method: its ticks stand still for an hour
    while another process goes on."""
    server = Server()
    awake, paused = server.host(), server.host()
    settled(awake, paused)
    for _ in range(60):
        server.advance(MINUTE, paused)
        awake.look()
    paused.look()
    assert server.steps == []
    assert abs(paused.clock.wall_us() - awake.clock.wall_us()) < 50 * MILLISECOND


def test_a_process_that_starts_after_a_step_is_corrected() -> None:
    """Goal: what a new process takes for the time corrects nobody, and is corrected. Method: it starts between the
    step and the next look of a process that has seen both sides of it."""
    for step_us in (HOUR, -HOUR):
        server = Server()
        old = server.host()
        settled(old)
        server.wall_us += step_us
        new = server.host()
        old.look()
        new.look()
        assert len(server.steps) in {1, 2}
        assert abs(old.clock.wall_us() - new.clock.wall_us()) < 50 * MILLISECOND
        assert abs(server.step_us - step_us) < MINUTE


def test_store_time_does_not_go_back_while_nobody_is_there() -> None:
    server = Server()
    old = server.host()
    settled(old)
    seen = server.seen_at
    server.wall_us -= DAY
    new = server.host()
    assert new.clock.wall_us() >= seen


def test_a_job_that_nobody_watched_is_not_of_the_future() -> None:
    """Goal: a job is ready although the server was set back after its submission, with no worker there. What a process
    submits that takes a wrong time for the right one is no evidence while others watch."""
    server = Server()
    new = Host(server)
    look = ClockReading(server.wall_us - HOUR, 0, 0, 0, 0, 0, submitted_at=server.wall_us)
    assert new.clock.judge(look) == -HOUR
    watched = ClockReading(
        server.wall_us, 0, 0, server.wall_us - 5 * SECOND, 0, 0, submitted_at=server.wall_us + HOUR
    )
    assert Host(server).clock.judge(watched) is None
