"""Pages that the database cuts are those of the whole list, cut here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.paging import ListQuery, cut_page
from retrieval import Collections, NotInListError, PageQuery
from retrieval.file_store import insert_file, select_files_page
from retrieval.records import FileStatus, StoredFile
from tests.retrieval.indexed import quick_database

COUNT = 12


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlalchemy.Engine]:
    path: Path = tmp_path_factory.mktemp("listing")
    engine = quick_database(path / "foreword.db")
    with engine.begin() as connection:
        for number in range(2 * COUNT):
            file = StoredFile(
                id=f"file-{number}",
                tenant="tu"[number % 2],
                name="n",
                purpose=("assistants", "user_data")[number // 2 % 2],
                size_bytes=1,
                digest=str(number),
                created_at=0,
            )
            insert_file(connection, file)
    yield engine
    engine.dispose()


IDS = st.one_of(st.none(), st.integers(0, COUNT - 1).map(lambda n: f"file-{2 * n}"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(1, COUNT + 2), st.booleans(), IDS, IDS)
def test_a_page_is_that_of_the_whole_list(
    engine: sqlalchemy.Engine, limit: int, newest_first: bool, after: str | None, before: str | None
) -> None:
    mine = [f"file-{2 * n}" for n in range(COUNT)]
    query = ListQuery(
        limit=limit, order="desc" if newest_first else "asc", after=after, before=before
    )
    wanted = PageQuery(limit=limit, newest_first=newest_first, after=after, before=before)
    with engine.connect() as connection:
        found = select_files_page(connection, "t", wanted)
    assert ([f.id for f in found.items], found.has_more) == cut_page(mine, query, id_of=str)


@pytest.mark.parametrize("id", ["file-1", "file-none", "file-2"])
def test_neither_another_tenants_nor_a_filtered_out_item_begins_a_page(
    engine: sqlalchemy.Engine, id: str
) -> None:
    with engine.connect() as connection:
        page = PageQuery(limit=3, after=id)
        with pytest.raises(NotInListError, match=f"after: '{id}' is not in this list"):
            select_files_page(connection, "t", page, purpose="assistants")


def test_a_collections_files_are_listed_by_state_and_batch(collections: Collections) -> None:
    ferry = collections.create("ferry", tenant="t")
    ids = [
        collections.save_file(f"{n}.txt", f"Text {n}.".encode(), "assistants", tenant="t").id
        for n in range(5)
    ]
    for id in ids[:3]:
        collections.add_file(ferry.id, id, tenant="t")
    collections.enqueue_files(ferry.id, ids[3:], tenant="t")
    page = PageQuery(limit=2)
    first = collections.page_of_collection_files(ferry.id, page, tenant="t")
    assert ([f.file_id for f in first.items], first.has_more) == ([ids[4], ids[3]], True)
    done = collections.page_of_collection_files(
        ferry.id, page, tenant="t", status=FileStatus.COMPLETED
    )
    assert ([f.file_id for f in done.items], done.has_more) == ([ids[2], ids[1]], True)
    collections.close()
