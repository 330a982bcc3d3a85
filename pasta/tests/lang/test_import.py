import subprocess
import sys


def test_the_language_needs_nothing_but_the_standard_library():
    script = (
        "import sys; before = set(sys.modules); import pasta.lang; "
        "new = {name.partition('.')[0] for name in sys.modules.keys() - before}; "
        "print(sorted(new - sys.stdlib_module_names - {'pasta'}))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
