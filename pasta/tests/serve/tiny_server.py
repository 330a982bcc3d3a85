"""A server of the tiny model in a process of its own: `python tiny_server.py [FILES]` prints its address.

FILES is how many files it may open.
"""

import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pasta.serve.run import Server, bind
from pasta.serve.settings import Settings
from support import tiny_engine

if __name__ == "__main__":
    if len(sys.argv) > 1:
        files = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    bound = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    Server(tiny_engine(), Settings(), lambda: print(url, flush=True)).run_on(bound)
