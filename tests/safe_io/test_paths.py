"""The paths of options: what can be none is refused before anything looks at it, by the option's name."""

import os
from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.safe_io.paths import existing, folder_of, path_of
from tests.helpers import closed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("-", "names nothing"),
        ("~no-such-user-here/x", "cannot be found"),
        ("a\nb", "control characters"),
        ("\x1b[31mred", "control characters"),
        ("bytes-\udcff", "no UTF-8"),
        ("/" + "a" * 300, "longer than any"),
        ("a/" * 3000, "longer than any"),
        ("x" * 100_000, "longer than any"),
    ],
)
def test_what_can_be_no_path_is_refused_in_a_short_text_without_control_characters(
    text: str, said: str
) -> None:
    with pytest.raises(InputError) as raised:
        path_of("--results", text)
    found = str(raised.value)
    assert said in found
    assert "--results" in found
    assert len(found) < 600
    assert all(character.isprintable() or character == "\n" for character in found)


def test_blanks_quotes_and_umlauts_are_names(tmp_path: Path) -> None:
    path = tmp_path / "Größe 'a b' \"c\" 日本"
    path.touch()
    assert existing("--dataset", str(path)) == path


def test_what_is_not_there_is_told_apart_from_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")
    for name, said in (
        ("gone", "no such file or folder\n"),
        ("link", "behind this link"),
        ("link/x", "no such"),
    ):
        with pytest.raises(InputError) as raised:
            existing("--dataset", str(tmp_path / name))
        assert said in str(raised.value)


def test_what_may_have_no_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(InputError, match="neither a file nor a folder"):
            existing("--checkpoint resnet50-micro", str(path))


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
def test_a_folder_of_the_suite_s_own_files_has_to_be_open_to_this_user(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "of-another"
    (folder / "there").mkdir(parents=True)
    with closed(folder, mode):
        names = ("", "/there", "/new") if mode == 0 else ("",)
        for name in names:
            with pytest.raises(InputError, match=r"Permission denied\n.*--results .*of-another.*\n.*fix: "):
                folder_of("--results", f"{folder}{name}")


def test_links_in_a_circle_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    for name in ("self", "self/x"):
        with pytest.raises(InputError, match=r"symbolic links\n.*--answers .*self"):
            folder_of("--answers", str(tmp_path / name))


def test_a_folder_that_is_still_to_be_made_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("", "new/newer", "file/x"):
        assert folder_of("--results", str(tmp_path / name)) == tmp_path / name
