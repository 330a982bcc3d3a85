"""A server of the tiny model in a process of its own: `python tiny_server.py [FILES]` prints its address.

FILES is how many files it may open. (The engine is not that of the other tests, which remembers every choice.)
"""

import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pasta.core.garbage import collect_rarely, freeze_libraries
from pasta.core.vocabulary import Vocabulary
from pasta.engine.native import NativeEngine
from pasta.models.tags import add_tags
from pasta.serve.run import Server, bind
from pasta.serve.settings import Settings
from support import byte_tokenizer, tiny_model


def plain_engine() -> NativeEngine:
    freeze_libraries()
    collect_rarely()
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    return NativeEngine(model, vocabulary, name="tiny-llama")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        files = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    bound = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    Server(plain_engine(), Settings(), lambda: print(url, flush=True)).run_on(bound)
