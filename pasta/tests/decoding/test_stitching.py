"""The stitched text against a slow reference that knows the whole tree at every moment."""

from hypothesis import given
from hypothesis import strategies as st

from pasta.core.commands import MAIN
from pasta.core.thread import Status, Thread
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.stitching import Stitcher
from support import byte_tokenizer

VOCABULARY = Vocabulary(byte_tokenizer())
VOCABULARY.add_tags()
TAGS = VOCABULARY.tags


class Fast(Stitcher):
    """Over threads of its own."""

    def __init__(self, stop):
        super().__init__([Thread(MAIN, None, (), 0)], VOCABULARY, stop)

    def write(self, thread, text):
        self._threads[thread].tokens += VOCABULARY.encode(text)

    def fork(self, parent, child):
        tokens = self._threads[parent].tokens
        tokens += [TAGS.promise, *VOCABULARY.encode("a topic"), TAGS.of_tens(2)]
        self._threads[parent].blocks[len(tokens) - 1] = child
        assert child == len(self._threads)
        self._threads.append(Thread(child, parent, (), 0, tokens=[TAGS.open]))

    def end(self, thread):
        self._threads[thread].tokens.append(TAGS.close)
        self._threads[thread].status = Status.DONE


class Slow:
    """Keeps each thread's pieces, and walks all of them again each time."""

    def __init__(self, stop):
        self.stop = stop
        self.pieces = {MAIN: []}
        self.done = set()

    def walk(self, thread):
        """The text up to the first thread that is not done, and whether this one is read to its end."""
        text = ""
        for piece in self.pieces[thread]:
            if isinstance(piece, str):
                text += piece
                continue
            inner, complete = self.walk(piece)
            text += inner
            if not complete:
                return text, False
        return text, thread in self.done

    def text(self):
        """The certain text up to the first stop string, character by character."""
        text, _ = self.walk(MAIN)
        for end in range(len(text) + 1):
            starts = [end - len(stop) for stop in self.stop if text[:end].endswith(stop)]
            if starts:
                return text[: min(starts)], True
        return text, False


@st.composite
def scripts(draw):
    """Writes, forks and ends in an order that an interpreter could produce: children end before their parents."""
    operations, open_threads, parents, children = [], [MAIN], {}, {MAIN: set()}
    for _ in range(draw(st.integers(0, 30))):
        thread = draw(st.sampled_from(open_threads))
        match draw(st.sampled_from(["write", "write", "fork", "end"])):
            case "write":
                operations.append(("write", thread, draw(st.text("abé\n", min_size=1, max_size=4))))
            case "fork":
                child = len(children)
                operations.append(("fork", thread, child))
                open_threads.append(child)
                children[child] = set()
                children[thread].add(child)
                parents[child] = thread
            case "end" if thread != MAIN and not children[thread]:
                operations.append(("end", thread, None))
                open_threads.remove(thread)
                children[parents[thread]].discard(thread)
    while len(open_threads) > 1:
        thread = next(t for t in reversed(open_threads) if not children[t])
        operations.append(("end", thread, None))
        open_threads.remove(thread)
        children[parents[thread]].discard(thread)
    return [*operations, ("end", MAIN, None)]


@given(scripts(), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_against_the_reference(script, stop):
    fast, slow = Fast(stop), Slow(stop)
    given_out = ""
    for operation, thread, value in script:
        if operation == "write":
            fast.write(thread, value)
            slow.pieces[thread].append(value)
        elif operation == "fork":
            fast.fork(thread, value)
            slow.pieces[thread].append(value)
            slow.pieces[value] = []
        else:
            fast.end(thread)
            slow.done.add(thread)
        given_out += fast.take()
        certain, stopped = slow.text()
        assert certain.startswith(given_out)  # nothing is ever taken back
        assert fast.stopped == stopped
        hold = max((len(text) for text in stop), default=1) - 1
        assert len(given_out) >= len(certain) - hold  # and no more is held back than a stop string needs
        if stopped:
            assert given_out == certain
    given_out += fast.finish()
    assert (given_out, fast.stopped) == slow.text()
    assert fast.text == given_out


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_the_pieces_do_not_matter(text, stop, data):
    whole, pieces = Fast(stop), Fast(stop)
    whole.write(MAIN, text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        pieces.write(MAIN, text[start:end])
        pieces.take()
    assert whole.finish() == pieces.text + pieces.finish()
    assert whole.text == pieces.text


def test_a_stop_string_across_two_threads():
    stitcher = Fast(["b-c"])
    stitcher.write(MAIN, "a")
    stitcher.fork(MAIN, 1)
    stitcher.write(MAIN, "-c d")
    stitcher.write(1, "xb")
    assert stitcher.take() == "a"  # x and b may begin it
    stitcher.end(1)
    assert stitcher.take() == "x"
    assert stitcher.stopped
    assert stitcher.finish() == ""
