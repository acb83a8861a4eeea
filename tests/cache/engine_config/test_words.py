"""Shell text as words: what a shell would pass on, and where it stands."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from cache.engine_config.words import commands, substitute


def words(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in commands(text)]


def test_quotes_backslashes_and_continued_lines_are_read_as_a_shell_does() -> None:
    text = 'run --a \'b c\' "d\\"e" f\\ g \\\n  --h="i"\'j\'\r\n'
    assert words(text) == [["run", "--a", "b c", 'd"e', "f g", "--h=ij"]]


def test_commands_end_at_separators_and_comments_at_the_line() -> None:
    assert words("a b; c && d || e | f & g # h\ni") == [
        ["a", "b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["i"],
    ]  # fmt: skip


def test_redirections_are_no_words() -> None:
    assert words("run --a > log 2>&1 < input --b") == [["run", "--a", "--b"]]


def test_lines_of_options_belong_to_the_command_before() -> None:
    assert words("run --a\n--b 1\n\n# why\n--c") == [["run", "--a", "--b", "1", "--c"]]
    assert words("--a\n--b 1") == [["--a", "--b", "1"]]


def test_variables_and_arrays_are_followed_where_the_text_sets_them() -> None:
    text = (
        "export MODEL=/m/$NAME\n"
        "FLAGS='--a 1'\n"
        "ARGS=(\n  --model $MODEL  # the model\n  --b\n)\n"
        "ARGS+=(--c)\n"
        'PORT=1 run "${ARGS[@]}" $FLAGS --port ${PORT:-2} --host ${HOST:-::} --x ${Y}\n'
    )
    (command,) = commands(text)
    assert [word.text for word in command.words] == [
        "run", "--model", "/m/$NAME", "--b", "--c", "--a", "1",
        "--port", "1", "--host", "::", "--x", "${Y}",
    ]  # fmt: skip
    assert {name: word.text for name, word in command.variables.items()} == {
        "MODEL": "/m/$NAME", "FLAGS": "--a 1", "PORT": "1",
    }  # fmt: skip


def test_what_only_running_it_would_tell_stays_as_it_is_written() -> None:
    assert words("run --host $(hostname -I | cut -d' ' -f1) --port `port`") == [
        ["run", "--host", "$(hostname -I | cut -d' ' -f1)", "--port", "$`port`"]
    ]


def test_defaults_are_put_in_for_variables_that_are_not_set() -> None:
    assert substitute("${A:-1}/${B-2}/${C}/$D/${E:?no}", {"D": "4"}) == "1/2/${C}/4/${E:?no}"


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="$`<>;|&#()\r\n\\\0"), min_size=1)


@given(st.lists(PLAIN, min_size=1))
def test_words_that_a_shell_would_read_come_back(given_words: list[str]) -> None:
    text = "run " + shlex.join(given_words)
    assert words(text) == [["run", *given_words]]


@given(st.text(st.sampled_from("ab=$(){}[]'\"\\#;|&<>-@+` \n\r\té🙂")))
def test_any_text_can_be_read_and_places_are_in_it(text: str) -> None:
    for command in commands(text):
        for word in (*command.words, *command.variables.values()):
            assert 0 <= word.start <= word.stop <= len(text)
