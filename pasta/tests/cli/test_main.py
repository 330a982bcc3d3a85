"""The command line as a whole: its listing, its exit codes, its manners."""

import errno
import os
import signal
import subprocess
import sys

import pytest
import typer

from pasta import __version__
from pasta.cli import main as console_script
from pasta.cli.main import COMMANDS, load_command
from pasta.errors import PastaError, UsageError

PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]


def run(*arguments, **options):
    return subprocess.run([*PASTA, *arguments], capture_output=True, text=True, timeout=500, **options)


def test_help_lists_every_command_and_imports_none():
    code = (
        "import sys, contextlib\nfrom pasta.cli import main\nwith contextlib.suppress(SystemExit): main()\n"
        "sys.exit(any(name == 'torch' or name.startswith('pasta.models') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for name, entry in COMMANDS.items():
        assert name in done.stdout
        assert entry.help in done.stdout


def test_version():
    assert run("--version").stdout == f"pasta {__version__}\n"
    module = subprocess.run([sys.executable, "-m", "pasta", "--version"], capture_output=True, text=True)
    assert module.stdout == f"pasta {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: pasta {name}" in done.stdout


def test_no_listing_is_cut_short():
    listed = run("train", "--help").stdout.partition("Commands:")[2]
    assert "preference" in listed and "..." not in listed


@pytest.mark.parametrize("arguments", [[], ["train"], ["eval"]])
def test_a_group_without_a_command_lists_its_own_and_exits_with_2(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Usage: {' '.join(['pasta', *arguments])} [")


@pytest.mark.parametrize("arguments", [["nonsense"], ["models", "--nonsense"], ["check"]])
def test_usage_errors_exit_with_2(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["generate", "x", "--max-tokens", "many"], "'many'"),
        (["generate", "x", "--temperature", "hot"], "'hot'"),
        (["annotate", "in", "out", "--limit", "-7"], "-7"),
        (["render", "x", "--form", "round"], "'round' is not one of 'plain', 'main', 'merged'"),
        (["train", "sft", "--epochs", "few"], "'few'"),
    ],
)
def test_the_value_of_an_option_is_named(arguments, told):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert f"Invalid value for '{arguments[-2]}'" in last and told in last and "Value error" not in last


@pytest.fixture
def entry(monkeypatch):
    """Puts a command that raises into the table."""

    def install(function):
        module = type(sys)("pasta.cli.models")
        module.command = function
        monkeypatch.setitem(sys.modules, "pasta.cli.models", module)
        monkeypatch.setattr(sys, "argv", ["pasta", "models"])
        with pytest.raises(SystemExit) as caught:
            console_script()
        return caught.value.code

    return install


def raiser(error):
    def command() -> None:
        raise error

    return command


def test_errors_are_one_line(entry, capsys):
    assert entry(raiser(PastaError("the file\n  is bad", "mend it"))) == 1
    assert capsys.readouterr() == ("", "error: the file is bad (mend it)\n")
    assert entry(raiser(UsageError("the prompt is empty"))) == 2
    assert capsys.readouterr().err == "error: the prompt is empty\n"


def test_ctrl_c_exits_with_130(entry, capsys):
    assert entry(raiser(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_a_missing_engine_says_what_to_install(entry, capsys):
    assert entry(raiser(ModuleNotFoundError("No module named 'torch'", name="torch"))) == 1
    assert "pasta-decoding[torch]" in capsys.readouterr().err


def test_our_own_mistakes_are_not_hidden(monkeypatch):
    module = type(sys)("pasta.cli.models")
    module.command = raiser(ZeroDivisionError())
    monkeypatch.setitem(sys.modules, "pasta.cli.models", module)
    monkeypatch.setattr(sys, "argv", ["pasta", "models"])
    with pytest.raises(ZeroDivisionError):
        console_script()


def test_exit_codes_of_commands_are_kept(entry):
    assert entry(raiser(typer.Exit(3))) == 3


def test_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PASTA, "models", "--json"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""


def test_a_real_ctrl_c(tmp_path):
    """Interrupted while it waits for another process's lock."""
    from filelock import FileLock

    from pasta.models import bundled

    (tmp_path / "models").mkdir()
    with FileLock(tmp_path / "models" / f".{bundled.NAME}.lock"):
        process = subprocess.Popen(
            [*PASTA, "models", "default"],
            env=os.environ | {"PASTA_CACHE": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert "waiting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "")


def test_commands_carry_their_own_help():
    assert load_command("models").help.startswith("List the models at hand")


def test_a_slip_of_the_fingers_is_met_with_the_word_that_was_meant():
    assert "'generate'" in run("generat", "x").stderr
    slip = run("generate", "x", "--max-tokns", "3").stderr
    assert "--max-tokens" in slip and slip.count("Usage:") == 1


@pytest.mark.parametrize(
    "words, offered",
    [("pasta gen", "generate"), ("pasta generate --max-t", "--max-tokens"), ("pasta train s", "sft")],
)
def test_the_shell_completes_commands_and_options(words, offered):
    completing = {"_PASTA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = run(env=os.environ | completing)
    assert done.returncode == 0 and offered in done.stdout.split(), done.stderr
    assert run("--show-completion", env=os.environ | {"SHELL": "/bin/bash"}).returncode == 0


@pytest.mark.parametrize(("closed", "text"), [(">&-", b"a"), ("2>&-", b"a </async>")])
def test_a_closed_stream_is_a_sink(closed, text):
    """No traceback; and what is for stderr does not land in the result where there is no stderr."""
    shell = f'"$1" -c "from pasta.cli import main; main()" render - {closed}'
    done = subprocess.run(["sh", "-c", shell, "sh", sys.executable], input=text, capture_output=True, timeout=500)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_path_that_cannot_be_used_is_one_line(entry, capsys):
    assert entry(raiser(OSError(errno.EACCES, "Permission denied", "shut/model"))) == 1
    assert capsys.readouterr().err == "error: cannot use shut/model: Permission denied (name another)\n"


def test_what_finds_no_room_is_one_line(entry, capsys):
    assert entry(raiser(OSError(errno.ENOSPC, "No space left on device", "cache/index"))) == 1
    err = capsys.readouterr().err
    assert err == "error: cannot write cache/index: No space left on device (make room, or write it elsewhere)\n"
