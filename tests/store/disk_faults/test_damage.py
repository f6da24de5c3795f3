"""Goal: a file that is not ours, or not whole, costs an error of ours: never a crash, never a driver's exception.
Method: put all kinds of files where a store should be, open them, and read everything.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw
import pytest

from holdfast.errors import Broken, ForeignFile, HoldfastError, SchemaMismatch, StoreCorrupt
from holdfast.model.session import SessionCheckpoint, TurnCommit
from holdfast.store.sqlite.connection import APPLICATION_ID
from tests.store.disk_faults.conftest import FreshCopy
from tests.store.disk_faults.reading import Reader
from tests.store.disk_faults.workload import open_store
from tests.store.power_cut.evidence import Eye
from tests.store.power_cut.scenario import FILE, record

pytestmark = pytest.mark.store("sqlite")

PAGE_BYTES = 8192
A_LOG = "PRAGMA journal_mode = WAL; CREATE TABLE notes (body); INSERT INTO notes VALUES ('mine')"

Spoil = Callable[[bytearray, Random], None]


@pytest.fixture(scope="module")
def lived_in(quick_folder: Path) -> bytes:
    """A store in which something of everything was written."""
    folder = quick_folder / "lived-in"
    folder.mkdir()
    asyncio.run(record(folder, relaxed=False))
    return (folder / FILE).read_bytes()


# ── files of somebody else ────────────────────────────────────────────────────────────────────────


def _text(path: Path) -> None:
    path.write_text("Dear diary,\n" * 500)


def _nearly_a_header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


def _picture(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + Random(1).randbytes(20_000))


def _unmarked_database(path: Path) -> None:
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE notes (body); INSERT INTO notes VALUES ('mine')")
    connection.close()


def _marked_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 0x0f055112")
    connection.close()


def _database_with_a_log(path: Path) -> None:
    """As a crash of its owner leaves it: the last commits are in the log only."""
    connection = apsw.Connection(str(path))
    connection.execute(A_LOG).fetchall()
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()
    assert path.with_name(f"{path.name}-wal").stat().st_size


FOREIGN = [_text, _nearly_a_header, _picture, _unmarked_database, _marked_database, _database_with_a_log]


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__.strip("_"))
async def test_foreign_file_is_refused_and_untouched(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Goal: we never write into a file we did not make. Method: open one; compare it, and its log, byte for byte."""
    path = tmp_path / "store.db"
    make(path)
    before = _content(tmp_path)
    with pytest.raises(ForeignFile) as refused:
        await open_store(path)
    assert (refused.value.code, bool(refused.value.hint)) == ("foreign_file", True)
    assert _content(tmp_path) == before


def _content(folder: Path) -> dict[str, bytes]:
    """Everything that lasts; shared memory does not."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def test_empty_file_is_adopted(tmp_path: Path) -> None:
    """Goal: an empty file is room for a store. Method: `touch` one and open it; it is marked as ours."""
    path = tmp_path / "store.db"
    path.touch()
    await (await open_store(path)).close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("application_id") == APPLICATION_ID
    connection.close()


async def test_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    """Goal: a folder is refused like any other wrong file. Method: open one."""
    with pytest.raises(HoldfastError) as refused:
        await open_store(tmp_path)
    assert refused.value.hint


# ── files that are not whole ──────────────────────────────────────────────────────────────────────


def _flip_a_bit(content: bytearray, chance: Random) -> None:
    """Of a byte that is in use: most of a file is empty space."""
    place = chance.choice([place for place in chance.choices(range(len(content)), k=200) if content[place]])
    content[place] ^= 1 << chance.randrange(8)


def _lose_the_end(content: bytearray, chance: Random) -> None:
    del content[chance.randrange(1, len(content)) :]


def _zero_a_page(content: bytearray, chance: Random) -> None:
    start = chance.randrange(len(content) // PAGE_BYTES) * PAGE_BYTES
    content[start : start + PAGE_BYTES] = bytes(PAGE_BYTES)


def _scramble_a_sector(content: bytearray, chance: Random) -> None:
    """Of one that is in use: half of a young file is the first pages of tables that hold nothing yet."""
    used = [start for start in range(0, len(content), 512) if any(content[start : start + 512])]
    start = chance.choice(used)
    content[start : start + 512] = chance.randbytes(512)


DAMAGES: dict[str, tuple[Spoil, int]] = {
    "flipped-bit": (_flip_a_bit, 80),
    "lost-end": (_lose_the_end, 20),
    "zeroed-page": (_zero_a_page, 40),
    "scrambled-sector": (_scramble_a_sector, 40),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_an_error_of_ours(damage: str, lived_in: bytes, quick_folder: Path) -> None:
    """Goal: whatever happened to the file, nothing but our own errors comes out. Method: damage it in seeded ways, open
    it, read everything, write something.
    """
    spoil, times = DAMAGES[damage]
    strange, noticed = await _damage_and_ask(spoil, times, lived_in, quick_folder / f"{damage}.db")
    assert strange == []
    assert noticed > times // 10, "damage that nobody ever notices"


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_an_error_of_ours_20_times_more(
    damage: str, lived_in: bytes, quick_folder: Path
) -> None:
    """Goal and method as `test_damage_is_an_error_of_ours`, with other seeds."""
    spoil, times = DAMAGES[damage]
    file = quick_folder / f"much-{damage}.db"
    strange, noticed = await _damage_and_ask(spoil, 20 * times, lived_in, file, seed=1000)
    assert strange == []
    assert noticed > 2 * times, "damage that nobody ever notices"


async def _damage_and_ask(
    spoil: Spoil, times: int, whole: bytes, path: Path, seed: int = 0
) -> tuple[list[str], int]:
    """What came out that is no error of ours, and how often the damage was noticed."""
    outcomes: Counter[str] = Counter()
    strange: list[str] = []
    for number in range(times):
        content = bytearray(whole)
        spoil(content, Random(seed + number))
        path.write_bytes(content)
        outcomes[await _outcome(path, strange)] += 1
        for left in path.parent.glob(f"{path.name}-*"):
            if left.is_file():
                left.unlink()
    print(f"{spoil.__name__}: {dict(outcomes)}")
    return strange, sum(outcomes.values()) - outcomes["nothing noticed"]


async def _outcome(path: Path, strange: list[str]) -> str:
    try:
        store = await open_store(path)
    except (Broken, ForeignFile, SchemaMismatch) as error:
        return f"refused: {error.code}"
    reader = Reader(store)
    await reader.read_everything()
    await reader.write_something()
    await store.close()
    strange += reader.strange
    return "noticed when read" if reader.noticed else "nothing noticed"


async def test_undamaged_file_reads_well(lived_in: bytes, tmp_path: Path) -> None:
    """Goal: the reader above complains about damage only. Method: let it read a whole file."""
    path = tmp_path / "store.db"
    path.write_bytes(lived_in)
    store = await open_store(path)
    reader = Reader(store)
    await reader.read_everything()
    await reader.write_something()
    await store.close()
    assert (reader.noticed, reader.strange) == ([], [])


# A change that leaves the file whole for SQLite, and makes no sense to us.
NONSENSE = {
    "not-text": "UPDATE mail SET sender = CAST(x'ff' AS TEXT)",
    "no-status": "UPDATE job_heads SET status = 'sleepy'",
    "no-reason": "UPDATE job_heads SET wait_reason = 'bored', status = 'waiting', lease_token = ''",
    "no-slot": "UPDATE job_heads SET session_slot = 'left'",
    "no-mail-kind": "UPDATE mail SET kind = 'postcard'",
    "no-effect": "UPDATE tool_calls SET side_effect_class = 'harmless'",
    "no-call-status": "UPDATE tool_calls SET status = 'perhaps'",
    "no-delivery": "UPDATE inbox_batches SET delivery = 'by pigeon', state = 'queued', settled_at = NULL",
    "no-json": "UPDATE session_nodes SET body = x'7b22'",
    "no-letter": "UPDATE mail SET body = x'7b22' WHERE body IS NOT NULL",
    "no-body": "UPDATE session_nodes SET body = NULL",
    "no-checkpoint": "UPDATE sessions SET checkpoint = x'7b7d' WHERE checkpoint IS NOT NULL",
    "no-document": "UPDATE sessions SET checkpoint = x'5b5d' WHERE checkpoint IS NOT NULL",
    "no-states": "UPDATE sessions SET states = x'5b5d' WHERE states IS NOT NULL",
    "other-event": "DROP TRIGGER events_are_not_changed; UPDATE events SET at = at + 1 WHERE seq = 2",
    "event-missing": "DROP TRIGGER events_are_not_removed; DELETE FROM events WHERE seq = 1",
    "no-meta": "UPDATE sessions SET meta = x'7b2278223a317d' WHERE meta IS NOT NULL",
    "no-frame": "UPDATE session_frames SET assignment = x'7b7d'",
    "no-migration": "UPDATE schema_migrations SET name = CAST(x'ff' AS TEXT)",
}


@pytest.mark.parametrize("change", NONSENSE)
async def test_rows_that_make_no_sense_are_damage(change: str, lived_in: bytes, quick_folder: Path) -> None:
    """Goal: a row that we cannot have written is StoreCorrupt, not an exception of whoever trips over it. Method: write
    such rows past all checks, open the store and read everything.
    """
    path = quick_folder / f"nonsense-{change}.db"
    path.write_bytes(lived_in)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(NONSENSE[change])
    assert connection.total_changes() > 0
    connection.close()
    noticed: list[HoldfastError] = []
    try:
        store = await open_store(path)
    except HoldfastError as error:
        noticed.append(error)
    else:
        reader = Reader(store)
        await reader.read_everything()
        await store.close()
        noticed += reader.noticed
        assert reader.strange == []
    assert {type(error) for error in noticed} == {StoreCorrupt}


@pytest.mark.parametrize("state", ["missing", "damaged", "not-base64"])
async def test_checkpoint_state_is_checked(state: str, fresh_copy: FreshCopy) -> None:
    """Goal: a state that is not the one its digest names is not handed out. Method: change it behind the store."""
    path = fresh_copy()
    store = await open_store(path)
    large = b"large " * 4000
    checkpoint = SessionCheckpoint(turn_index=1, tool_state=large, execution_state=b"small")
    await store.sessions.commit(TurnCommit(session_id="talk", checkpoint=checkpoint))
    await store.close()
    change = {
        "missing": "DELETE FROM blobs",
        "damaged": "UPDATE blobs SET body = x'00'",
        "not-base64": "UPDATE sessions SET states = CAST(replace(CAST(states AS TEXT), 'c21', '!!!') AS BLOB)",
    }[state]
    connection = apsw.Connection(str(path))
    connection.execute(change)
    assert connection.total_changes() == 1
    connection.close()
    store = await open_store(path)
    with pytest.raises(StoreCorrupt, match="missing or damaged"):
        await store.sessions.load("talk")
    await store.close()


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
async def test_garbage_in_a_side_file_is_ignored(ending: str, lived_in: bytes, tmp_path: Path) -> None:
    """Goal: nonsense left beside the file changes nothing. Method: put noise beside a closed store."""
    path = tmp_path / "store.db"
    path.write_bytes(lived_in)
    eye = Eye()
    whole = eye.look(path)
    for content in (Random(1).randbytes(40_000), bytes(40_000), b""):
        path.with_name(f"store.db{ending}").write_bytes(content)
        store = await open_store(path)
        reader = Reader(store)
        await reader.read_everything()
        await store.close()
        assert (reader.noticed, reader.strange) == ([], [])
        assert eye.look(path) == whole


async def test_log_of_another_database_is_refused(lived_in: bytes, tmp_path: Path) -> None:
    """Goal: a log that does not belong to the file is not copied into it. Method: put one there; SQLite would use it.
    The store refuses and touches nothing, so that taking the log away brings everything back.
    """
    path = tmp_path / "store.db"
    log = path.with_name("store.db-wal")
    _database_with_a_log(path)
    path.write_bytes(lived_in)
    foreign = log.read_bytes()
    with pytest.raises(ForeignFile):
        await open_store(path)
    assert (path.read_bytes(), log.read_bytes()) == (lived_in, foreign)
    log.unlink()
    store = await open_store(path)
    reader = Reader(store)
    await reader.read_everything()
    await store.close()
    assert (reader.noticed, reader.strange) == ([], [])


async def test_damaged_page_of_a_running_store(lived_in: bytes, tmp_path: Path) -> None:
    """Goal: damage that happens while the store is open is an error of ours too. Method: zero most of the file under
    its feet, before it has read it; then put it back.
    """
    path = tmp_path / "store.db"
    path.write_bytes(lived_in)
    store = await open_store(path)
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(bytes(len(lived_in) - PAGE_BYTES))
    reader = Reader(store)
    await reader.read_everything()
    assert {type(error) for error in reader.noticed} >= {StoreCorrupt}
    path.write_bytes(lived_in)
    await store.close()
