"""Reads the head of a GGUF file: enough to tell a whole file from a damaged one before any work starts.

The layout is that of the GGUF specification, versions 2 and 3: magic, version, counts, metadata, tensor
table, and the tensors' data at aligned offsets. Arrays in the metadata (a vocabulary has some 100,000 strings)
are skipped, not kept.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pasta.errors import CorruptModel, UnsupportedModel

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
LONGEST_STRING = 1 << 24  # a chat template has some thousand bytes; a longer claim is a damaged length

Value = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int  # from the start of the data

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class Header:
    metadata: dict[str, Value]  # scalars and strings
    tensors: tuple[Tensor, ...]
    data_start: int

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", "unknown"))

    @property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)


def read_header(path: Path) -> Header:
    """The file's metadata and tensor table; `CorruptModel` if they do not read or the file ends too early."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise CorruptModel(f"{path} is not a GGUF file: it does not begin with {MAGIC.decode()!r}", AGAIN)
        try:
            return parse(Cursor(file, size), path)
        except (struct.error, UnicodeDecodeError, EOFError, RecursionError) as error:
            raise damaged(path, str(error)) from None


AGAIN = "fetch the file again"


def damaged(path: Path, why: str) -> CorruptModel:
    return CorruptModel(f"{path} is a damaged or truncated GGUF file: {why}", AGAIN)


class Cursor:
    """Reads little-endian values one after another, never past the end."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise EOFError(f"it ends at byte {self.size:,} inside its header")
        return data

    def number(self, code: str) -> int:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        length = self.number("Q")
        if length > min(self.size, LONGEST_STRING):
            raise EOFError(f"a string of {length:,} bytes at byte {self.file.tell():,}")
        return self.take(length).decode()

    def value(self, kind: int) -> Value | None:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if count > self.size:
                raise EOFError(f"an array of {count:,} values at byte {self.file.tell():,}")
            if inner in SCALARS:
                self.take(count * struct.calcsize("<" + SCALARS[inner]))
            else:
                for _ in range(count):
                    self.value(inner)
            return None
        raise EOFError(f"a value of unknown type {kind} at byte {self.file.tell():,}")


def parse(cursor: Cursor, path: Path) -> Header:
    version = cursor.number("I")
    if version not in VERSIONS:
        raise UnsupportedModel(f"{path} is GGUF version {version}; versions 2 and 3 are supported", AGAIN)
    tensor_count, pair_count = cursor.number("Q"), cursor.number("Q")
    metadata: dict[str, Value] = {}
    for _ in range(pair_count):
        key, value = cursor.text(), cursor.value(cursor.number("I"))
        if value is not None:
            metadata[key] = value
    tensors = tuple(read_tensor(cursor) for _ in range(tensor_count))
    alignment = metadata.get("general.alignment") or DEFAULT_ALIGNMENT
    if not isinstance(alignment, int) or alignment < 1:
        raise EOFError(f"its data is aligned to {alignment!r}")
    header = Header(metadata, tensors, -(-cursor.file.tell() // alignment) * alignment)
    check_extent(header, cursor.size, path)
    return header


def read_tensor(cursor: Cursor) -> Tensor:
    name, dimensions = cursor.text(), cursor.number("I")
    if dimensions > 8:
        raise EOFError(f"a tensor of {dimensions} dimensions at byte {cursor.file.tell():,}")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    return Tensor(name, shape, cursor.number("I"), cursor.number("Q"))


def check_extent(header: Header, size: int, path: Path) -> None:
    """Each tensor lies inside the file."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    for tensor in header.tensors:
        try:
            block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.kind)]
        except (ValueError, KeyError):
            raise UnsupportedModel(f"{path}: tensor {tensor.name} has the unknown type {tensor.kind}") from None
        end = header.data_start + tensor.offset + tensor.elements // block * block_bytes
        if end > size:
            raise damaged(path, f"it has {size:,} bytes, but {tensor.name} ends at byte {end:,}")
