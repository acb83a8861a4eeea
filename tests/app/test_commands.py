"""The commands, as a person types them, against a running gateway."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.commands.ask import reuse_line
from tests.gateways import gateway_settings, running_gateway

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "ferry"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_documents_are_ingested_asked_and_reported(gateway: str, tmp_path: Path) -> None:
    done = run("ingest", "boats", str(SAMPLES), "--url", gateway)
    assert done.exit_code == 0, done.output
    assert "boats: 4 documents in" in done.stdout
    assert done.stderr.count("ingested") == 4

    again = run("ingest", "boats", str(SAMPLES), "--url", gateway, "--format", "json")
    files = json.loads(again.stdout)["files"]
    assert all(file["unchanged"] for file in files)

    for _ in range(2):
        answer = run("ask", "boats", "What does a dog pay?", "--mode", "cag", "--url", gateway)
        assert answer.exit_code == 0, answer.output
    last = answer.stdout.strip().splitlines()[-1]
    assert last.startswith("re-used ")
    assert "GPU" in last
    assert last.endswith("cag (the request asks for it)")

    question = ("ask", "boats", "What?", "--mode", "rag")
    whole = run(*question, "--url", gateway, "--format", "json")
    assert json.loads(whole.stdout)["foreword"]["mode"] == "rag"

    report = run("report", "--url", gateway)
    assert report.exit_code == 0, report.output
    assert "docqa@2" in report.stdout

    request_id = json.loads(whole.stdout)["foreword"]["request_id"]
    story = run("explain", request_id, "--url", gateway)
    assert story.exit_code == 0, story.output
    assert story.stdout.startswith(f"{request_id}: ")
    assert "To do: " in story.stdout
    told = json.loads(run("explain", request_id, "--url", gateway, "--format", "json").stdout)
    assert (told["template"], told["collection"]) == ("docqa@2", "boats")


def test_one_bad_file_does_not_stop_the_others(gateway: str, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("The ferry is blue.")
    (tmp_path / "bad.pdf").write_bytes(b"not a pdf")
    missing = tmp_path / "missing.txt"
    done = run("ingest", "mixed", str(tmp_path), str(missing), "--url", gateway)
    assert done.exit_code == 1
    assert "mixed: 1 document in 1 passage, 2 failed" in done.stdout
    assert "No such file" in done.stdout
    assert done.output.count("No such file") == 1


def test_a_name_that_is_no_plain_text_does_not_reach_the_terminal(
    gateway: str, tmp_path: Path
) -> None:
    (tmp_path / "a\n\x1b[31mb.txt").write_text("The ferry is blue.")
    (tmp_path / "c\u202ed.txt").write_text("The ferry is red.")
    done = run("ingest", "odd", str(tmp_path), "--url", gateway)
    assert r"a\n\x1b[31mb.txt  a file's name has" in done.stdout
    assert r"c\u202ed.txt (1 passage)" in done.stderr
    assert not {"\x1b", "\u202e"} & set(done.output)


def waits(client: httpx.Client) -> bool:
    """Whether a file of the first collection waits for something that is no fault of its own."""
    for store in client.get("/v1/vector_stores").json()["data"]:
        path = f"/v1/vector_stores/{store['id']}/files"
        for file in client.get(path).json()["data"]:
            held = client.get(f"{path}/{file['id']}").json()
            return (held["foreword"]["progress"] or {}).get("problem") is not None
    return False


def test_a_full_disk_is_told_while_files_wait_for_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The ferry is blue.")
    settings = gateway_settings(tmp_path / "home", "http://127.0.0.1:9")
    with running_gateway(settings) as url, httpx.Client(base_url=url, trust_env=False) as client:

        def make_room() -> None:
            deadline = time.monotonic() + 30
            while not waits(client) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(4)  # the command looks twice a second
            change("DROP TRIGGER full")

        def change(statement: str) -> None:
            with closing(sqlite3.connect(settings.home / "foreword.db", timeout=60)) as database:
                database.execute(statement)
                database.commit()

        change("CREATE TRIGGER full BEFORE INSERT ON chunks BEGIN SELECT RAISE(ABORT, 'full'); END")
        with ThreadPoolExecutor(1) as pool:
            room = pool.submit(make_room)
            done = run("ingest", "late", str(tmp_path / "a.txt"), "--url", url)
            room.result()
    assert done.exit_code == 0, done.output
    assert done.stderr.count("a.txt and those behind it wait: The database refused") == 1
    assert "late: 1 document in 1 passage" in done.stdout


def test_a_file_removed_in_mid_ingest_is_told_so(gateway: str, tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n} about the ferry and the dog." for n in range(20_000))
    (tmp_path / "long.txt").write_text(text)

    def remove() -> None:
        with httpx.Client(base_url=gateway, trust_env=False) as client:
            while (
                not (found := client.get("/v1/files").json()["data"])
                or (newest := found[0])["filename"] != "long.txt"
            ):
                time.sleep(0.02)
            client.delete(f"/v1/files/{newest['id']}").raise_for_status()

    with ThreadPoolExecutor(1) as pool:
        removed = pool.submit(remove)
        done = run("ingest", "gone", str(tmp_path), "--url", gateway)
        removed.result()
    assert done.exit_code == 1
    assert "it was removed" in done.stdout or "There is no file" in done.stdout, done.output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ask", "vs_gone", "What?"), 2, "it may have been deleted"),
        (("ask", "boats", " "), 2, "Invalid value for 'QUESTION': it is empty"),
        (("ask", "", "What?"), 2, "Invalid value for 'COLLECTION': it is empty"),
        (("ingest", "", "x.txt"), 2, "Invalid value for 'COLLECTION': it is empty"),
        (("ask", "nowhere", "What?"), 2, "no collection 'nowhere'"),
        (("ask", "boats", "What?", "--model", "gpt-9"), 2, "is not served here"),
        (("ask", "boats", "What?", "--mode", "magic"), 2, "Invalid value for '--mode'"),
        (("report", "--since", "yesterday"), 2, "neither like 24h or 7d nor a date"),
        (("report", "--by", "colour"), 2, "colour"),
        (("explain", "chatcmpl-0"), 2, "no request 'chatcmpl-0' is in the ledger"),
        (("ingest", "boats"), 2, "Missing argument"),
        (("dance",), 2, "No such command 'dance'"),
    ],
)
def test_bad_usage_is_one_sentence(
    gateway: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    known = arguments[0] in ("ask", "explain", "report", "ingest")
    done = run(*arguments, *(("--url", gateway) if known else ()))
    assert done.exit_code == code
    assert words in done.stderr
    assert "Traceback" not in done.output


def test_without_a_gateway_the_sentence_says_how_to_start_one(tmp_path: Path) -> None:
    for arguments in (("--home", str(tmp_path)), ("--url", "http://127.0.0.1:9")):
        done = run("report", *arguments)
        assert done.exit_code == 3
        assert "start" in done.stderr
        assert "foreword up" in done.stderr


def test_an_empty_folder_is_told(gateway: str, tmp_path: Path) -> None:
    done = run("ingest", "boats", str(tmp_path), "--url", gateway)
    assert done.exit_code == 2
    assert ".pdf" in done.stderr


def test_what_the_engine_did_not_report_is_unknown_not_zero() -> None:
    known = {"prompt_tokens": 2000, "cached_tokens": 1984, "ttft_s": 0.25, "mode": "cag"}
    tiers = {"gpu": 1000, "ram": None, "ssd": None, "redis": None, "storage": 984}
    assert reuse_line(known | {"cached_by_tier": tiers}) == (
        "re-used 1,984 of 2,000 prompt tokens (99.2 %): GPU 1,000, LMCache 984"
        " · first token after 0.25 s · cag"
    )
    unknown = reuse_line(known | {"cached_tokens": None, "ttft_s": None})
    assert unknown.startswith("re-used: unknown of 2,000 prompt tokens")
    assert "first token after unknown" in unknown


def test_a_folder_is_kept_in_sync(gateway: str, tmp_path: Path) -> None:
    def sync(*options: str) -> tuple[int, str]:
        done = run("ingest", "notes", str(tmp_path), "--sync", *options, "--url", gateway)
        return done.exit_code, done.stdout

    (tmp_path / "a.txt").write_text("The ferry is blue.")
    (tmp_path / "b.txt").write_text("The dog is brown.")
    code, said = sync("--attribute", "year=2024")
    assert (code, said.split(";")[0]) == (0, "notes: 2 added, 0 replaced, 0 unchanged, 0 removed")
    (tmp_path / "a.txt").write_text("The ferry is green.")
    (tmp_path / "c.txt").write_text("The cat is grey.")
    (tmp_path / "b.txt").unlink()
    code, said = sync()
    assert said.startswith(
        "notes: 1 added, 1 replaced, 0 unchanged, 0 removed; 2 passages embedded"
    )
    code, said = sync("--remove-missing")
    assert said.startswith(
        "notes: 0 added, 0 replaced, 2 unchanged, 1 removed; 0 passages embedded"
    )
    done = run("ingest", "notes", str(tmp_path), "--sync", "--url", gateway, "--format", "json")
    told = json.loads(done.stdout)
    assert [file["outcome"] for file in told["files"]] == ["unchanged", "unchanged"]
    assert told["sync"] == {"removed": [], "embedded_chunks": 0, "reused_chunks": 0}


def test_failed_files_are_listed_with_their_reasons(gateway: str, tmp_path: Path) -> None:
    (tmp_path / "bad.pdf").write_bytes(b"not a pdf")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "good.txt").write_text("The ferry is blue.")
    for options in ((), ("--sync",)):
        done = run("ingest", "flawed", str(tmp_path), *options, "--url", gateway)
        assert done.exit_code == 1
        head, *table = done.stdout.splitlines()
        assert head.endswith(", 2 failed")
        assert [line.split()[0].rsplit("/", 1)[-1] for line in table] == ["bad.pdf", "empty.txt"]
        assert "empty" in table[1]
        assert "ingested   " in done.stderr or "unchanged  " in done.stderr or "added" in head


def test_questions_are_filtered_and_groups_are_kept_apart(gateway: str, tmp_path: Path) -> None:
    old, new, secret = (tmp_path / name for name in ("old.txt", "new.txt", "pay.txt"))
    old.write_text("The ferry fare was one euro.")
    new.write_text("The ferry fare is nine euros.")
    secret.write_text("The ferry captain earns much.")
    for path, *options in (
        (old, "--attribute", "year=2001"),
        (new, "--attribute", "year=2024"),
        (secret, "--access", "hr"),
    ):
        assert run("ingest", "fares", str(path), *options, "--url", gateway).exit_code == 0

    def prompt_tokens(*options: str) -> int:
        body = ("ask", "fares", "What is the ferry fare?", "--mode", "rag", "--format", "json")
        done = run(*body, *options, "--url", gateway)
        assert done.exit_code == 0, done.output
        return int(json.loads(done.stdout)["foreword"]["prompt_tokens"])

    assert (
        prompt_tokens("--filter", "year>=2020") < prompt_tokens() < prompt_tokens("--group", "hr")
    )
    bad = run("ask", "fares", "What?", "--filter", "year", "--url", gateway)
    assert bad.exit_code == 2
    assert "neither like year>=2020" in bad.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--remove-missing",), "needs --sync"),
        (("--attribute", "year"), "not like key=value"),
    ],
)
def test_bad_options_of_ingest_are_told(
    gateway: str, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "a.txt").write_text("The ferry is blue.")
    done = run("ingest", "boats", str(tmp_path), *arguments, "--url", gateway)
    assert done.exit_code == 2
    assert words in done.stderr
