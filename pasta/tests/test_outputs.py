"""Outputs that can be written, and those that cannot: a file, a folder, what is behind a link."""

import os
import stat

import pytest

from pasta.errors import UsageError
from pasta.outputs import check_apart, check_file, check_folder, check_place


def test_what_can_be_written_is_left_as_it_is(tmp_path):
    (tmp_path / "old").write_text("old")
    os.symlink("target", tmp_path / "dangling")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    for name in ("old", "new", "dangling", "pipe", 255 * "n"):
        check_file(tmp_path / name)
    for name in (".", "new", "new/deep", "dangling"):
        check_folder(tmp_path / name)
    check_file("/dev/null")
    read, write = os.pipe()
    check_file(f"/dev/fd/{write}")  # as a shell's >(…) names it
    os.close(read)
    os.close(write)
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("check", [check_file, check_folder, check_place])
def test_names_are_counted_in_bytes(check, tmp_path):
    check(tmp_path / (127 * "é"))
    with pytest.raises(UsageError, match="File name too long"):
        check(tmp_path / (128 * "é"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_permission_is_looked_at(tmp_path):
    (tmp_path / "old").touch()
    os.chmod(tmp_path / "old", stat.S_IRUSR)
    with pytest.raises(UsageError, match="Permission denied"):
        check_file(tmp_path / "old")
    os.chmod(tmp_path, stat.S_IRUSR | stat.S_IXUSR)
    for check in (check_file, check_folder):
        with pytest.raises(UsageError, match="Permission denied"):
            check(tmp_path / "new")


def test_hard_links_are_one_file(tmp_path):
    (tmp_path / "a").touch()
    os.link(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UsageError, match="are the same file"):
        check_apart(tmp_path / "b", [None, "default", tmp_path / "a"])
    check_apart(tmp_path / "c", [tmp_path / "a"])
