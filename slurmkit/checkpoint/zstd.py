"""Reads Zstandard frames (RFC 8878) as far as the index of a checkpoint needs it: no dictionaries, no speed.

Python's own library has a decoder from 3.14 on only. Every fault in the data is a ValueError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mmap import mmap

MAGIC = b"\x28\xb5\x2f\xfd"
LIMIT = 64 << 20
"""Bytes that a frame may decompress to."""

_LITERAL_LENGTH = [
    *((value, 0) for value in range(16)),
    *((16, 1), (18, 1), (20, 1), (22, 1), (24, 2), (28, 2), (32, 3), (40, 3), (48, 4), (64, 6)),
    *((1 << bits, bits) for bits in range(7, 17)),
]
_MATCH_LENGTH = [
    *((value, 0) for value in range(3, 35)),
    *((35, 1), (37, 1), (39, 1), (41, 1), (43, 2), (47, 2), (51, 3), (59, 3), (67, 4), (83, 4), (99, 5)),
    *((3 + (1 << bits), bits) for bits in range(7, 17)),
]
_OFFSET = [(1 << code, code) for code in range(32)]
_DEFAULTS = (
    (6, [4, 3, *[2] * 11, 1, 1, 1, *[2] * 9, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1]),
    (5, [1, 1, 1, 1, 1, 1, 2, 2, 2, *[1] * 15, *[-1] * 5]),
    (6, [1, 4, 3, *[2] * 6, *[1] * 37, *[-1] * 7]),
)
"""Accuracy and probabilities of literal lengths, offsets and match lengths where a block brings none."""
_MOST = (9, 8, 9)
_CODES = (_LITERAL_LENGTH, _OFFSET, _MATCH_LENGTH)


class _Cell(NamedTuple):
    """One state of an FSE table: its symbol, and how the next state is read."""

    symbol: int
    bits: int
    base: int


class _Table(NamedTuple):
    accuracy: int
    cells: list[_Cell]


class _Backward:
    """Bits that are read from the end of the data to their start."""

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise ValueError("a stream of bits without its end")
        self.data, self.left = data, 8 * len(data) - 9 + data[-1].bit_length()

    def read(self, count: int) -> int:
        self.left -= count
        if self.left < 0:
            raise ValueError("a stream of bits that is too short")
        return self._at(self.left) & ((1 << count) - 1)

    def peek(self, count: int) -> int:
        """The next bits, with zeros after the last."""
        at = self.left - count
        return (self._at(at) if at >= 0 else self._at(0) << -at) & ((1 << count) - 1)

    def _at(self, place: int) -> int:
        byte = place >> 3
        return int.from_bytes(self.data[byte : byte + 8], "little") >> (place & 7)


class _Frame:
    """What blocks of one frame hand on to the next."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.huffman: tuple[int, list[tuple[int, int]]] | None = None
        self.tables: list[_Table | None] = [None, None, None]
        self.offsets = [1, 4, 8]


def decompress(data: bytes, limit: int = LIMIT) -> bytes:
    """What one frame holds.

    Raises:
        ValueError: it is cut short or no frame, or holds more than `limit` bytes.
    """
    try:
        return _decompress(data, limit)
    except IndexError as fault:
        raise ValueError("the frame is cut short") from fault


def frame_size(data: bytes | mmap, start: int = 0) -> int:
    """The length in bytes of the frame that begins at `start`, by the lengths of its blocks.

    Raises:
        ValueError: there is no whole frame.
    """
    try:
        at, _size, has_checksum = _header(data, start)
        is_last = False
        while not is_last:
            is_last, kind, size = _block(data, at)
            at += 3 + (1 if kind == 1 else size)
    except IndexError as fault:
        raise ValueError("the frame is cut short") from fault
    at += 4 * has_checksum
    if at > len(data):
        raise ValueError("the frame is cut short")
    return at - start


def _decompress(data: bytes, limit: int) -> bytes:
    at, size, _has_checksum = _header(data, 0)
    if size is not None and size > limit:
        raise ValueError(f"the frame holds {size:,} bytes")
    frame, is_last = _Frame(), False
    while not is_last:
        is_last, kind, length = _block(data, at)
        at += 3
        body = data[at : at + (1 if kind == 1 else length)]
        at += len(body)
        if kind != 1 and len(body) < length:
            raise ValueError("the frame is cut short")
        if kind == 2:
            _compressed(frame, body)
        else:
            frame.out += body if kind == 0 else bytes([body[0]]) * length
        if len(frame.out) > limit:
            raise ValueError(f"the frame holds more than {limit:,} bytes")
    if size is not None and size != len(frame.out):
        raise ValueError(f"the frame holds {len(frame.out):,} bytes of {size:,}")
    return bytes(frame.out)


def _header(data: bytes | mmap, start: int) -> tuple[int, int | None, bool]:
    """Where the first block begins, the size of the content if told, and whether a checksum follows."""
    if data[start : start + 4] != MAGIC:
        raise ValueError("no Zstandard frame")
    about, at = data[start + 4], start + 5
    is_single = bool(about & 0x20)
    if about & 0x0B:
        raise ValueError("a frame with a dictionary, or of a kind unknown")
    at += not is_single
    width = (1 if is_single else 0, 2, 4, 8)[about >> 6]
    size = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
    if at + width > len(data):
        raise ValueError("the frame is cut short")
    return at + width, size if width else None, bool(about & 4)


def _block(data: bytes | mmap, at: int) -> tuple[bool, int, int]:
    """Whether it is the last, its kind (0 raw, 1 repeated, 2 compressed) and size."""
    head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    kind = head >> 1 & 3
    if kind == 3 or head >> 3 > 128 << 10:
        raise ValueError("a block of a kind unknown")
    return bool(head & 1), kind, head >> 3


def _compressed(frame: _Frame, body: bytes) -> None:
    literals, at = _literals(frame, body)
    count = body[at]
    at += 1
    if count == 255:
        count, at = body[at] + (body[at + 1] << 8) + 0x7F00, at + 2
    elif count > 127:
        count, at = (count - 128 << 8) + body[at], at + 1
    if not count:
        frame.out += literals
        return
    modes, at = body[at], at + 1
    tables = []
    for which in range(3):
        table, at = _table_of(frame, which, modes >> (6 - 2 * which) & 3, body, at)
        frame.tables[which] = table
        tables.append(table)
    _execute(frame, literals, count, tables, _Backward(body[at:]))


def _table_of(frame: _Frame, which: int, mode: int, body: bytes, at: int) -> tuple[_Table, int]:
    if mode == 0:
        accuracy, chances = _DEFAULTS[which]
        return _spread(accuracy, chances), at
    if mode == 1:
        return _Table(0, [_Cell(body[at], 0, 0)]), at + 1
    if mode == 2:
        accuracy, chances, at = _chances(body, at, _MOST[which])
        return _spread(accuracy, chances), at
    if (kept := frame.tables[which]) is None:
        raise ValueError("a block that repeats a table of none")
    return kept, at


def _execute(frame: _Frame, literals: bytes, count: int, tables: list[_Table], bits: _Backward) -> None:
    states = [bits.read(table.accuracy) for table in tables]
    out, taken = frame.out, 0
    for number in range(count):
        cells = [table.cells[state] for table, state in zip(tables, states, strict=True)]
        (literal, literal_bits), (far, far_bits), (match, match_bits) = (
            codes[cell.symbol] for codes, cell in zip(_CODES, cells, strict=True)
        )
        far += bits.read(far_bits)
        match += bits.read(match_bits)
        literal += bits.read(literal_bits)
        offset = _offset(frame.offsets, far, literal)
        out += literals[taken : taken + literal]
        taken += literal
        if taken > len(literals) or not 0 < offset <= len(out) or len(out) > LIMIT:
            raise ValueError("a sequence that leads outside")
        start = len(out) - offset
        while match > 0:
            piece = out[start : start + match]
            out += piece
            match -= len(piece)
        if number + 1 < count:
            for which in (0, 2, 1):
                states[which] = cells[which].base + bits.read(cells[which].bits)
    out += literals[taken:]


def _offset(last: list[int], far: int, literal: int) -> int:
    """How far back a match lies; far values are absolute, the lowest three repeat."""
    if far > 3:
        last[:] = [far - 3, *last[:2]]
        return last[0]
    which = far - (literal != 0)
    offset = last[0] - 1 if which == 3 else last[which]
    if which:
        last[:] = [offset, last[0], last[2] if which == 1 else last[1]]
    return offset


def _literals(frame: _Frame, body: bytes) -> tuple[bytes, int]:
    """The literals of a block, and where its sequences begin."""
    kind, form = body[0] & 3, body[0] >> 2 & 3
    if kind < 2:
        width = (1, 2, 1, 3)[form]
        size = int.from_bytes(body[:width], "little") >> (3 if width == 1 else 4)
        if kind == 0:
            return body[width : width + size], width + size
        return bytes([body[width]]) * size, width + 1
    width, bits = (3, 3, 4, 5)[form], (10, 10, 14, 18)[form]
    head = int.from_bytes(body[:width], "little") >> 4
    size, packed = head & ((1 << bits) - 1), head >> bits
    data, at = body[width : width + packed], 0
    if kind == 2:
        frame.huffman, at = _huffman(data)
    if frame.huffman is None or size > 128 << 10:
        raise ValueError("literals without a tree")
    streams, sizes = [data[at:]], [size]
    if form:
        each = (size + 3) // 4
        ends = [int.from_bytes(data[at + 2 * n : at + 2 * n + 2], "little") for n in range(3)]
        places = [at + 6, at + 6 + ends[0], at + 6 + ends[0] + ends[1], at + 6 + sum(ends), len(data)]
        streams = [data[places[n] : places[n + 1]] for n in range(4)]
        sizes = [each, each, each, size - 3 * each]
    unpacked = b"".join(_unpack(frame.huffman, one, count) for one, count in zip(streams, sizes, strict=True))
    return unpacked, width + packed


def _unpack(huffman: tuple[int, list[tuple[int, int]]], data: bytes, count: int) -> bytes:
    (longest, table), bits = huffman, _Backward(data)
    out = bytearray()
    for _ in range(count):
        symbol, length = table[bits.peek(longest)]
        bits.left -= length
        out.append(symbol)
    if bits.left != 0:
        raise ValueError("literals that do not fill their stream")
    return bytes(out)


def _huffman(data: bytes) -> tuple[tuple[int, list[tuple[int, int]]], int]:
    """The table of a Huffman tree: longest code, (symbol, length) by the next bits; where the data go on."""
    head = data[0]
    if head >= 128:
        count = head - 127
        weights = [data[1 + n // 2] >> (0 if n % 2 else 4) & 15 for n in range(count)]
        end = 1 + (count + 1) // 2
    else:
        weights, end = _weights(data[1 : 1 + head]), 1 + head
    total = sum(1 << weight >> 1 for weight in weights)
    longest = total.bit_length()
    rest = (1 << longest) - total
    if not total or longest > 11 or rest & (rest - 1):
        raise ValueError("a tree of codes that is none")
    weights.append(rest.bit_length())
    table: list[tuple[int, int]] = []
    for weight in range(1, longest + 1):
        for symbol, one in enumerate(weights):
            if one == weight:
                table += [(symbol, longest + 1 - weight)] * (1 << weight >> 1)
    return (longest, table), end


def _weights(data: bytes) -> list[int]:
    accuracy, chances, at = _chances(data, 0, 6)
    table, bits = _spread(accuracy, chances), _Backward(data[at:])
    states = [bits.read(accuracy), bits.read(accuracy)]
    weights: list[int] = []
    while len(weights) < 255:
        turn = len(weights) & 1
        cell = table.cells[states[turn]]
        weights.append(cell.symbol)
        if bits.left < cell.bits:
            weights.append(table.cells[states[1 - turn]].symbol)
            return weights
        states[turn] = cell.base + bits.read(cell.bits)
    raise ValueError("a tree of too many codes")


def _chances(data: bytes, at: int, most: int) -> tuple[int, list[int], int]:
    """Accuracy and probabilities of an FSE table, and where the data go on."""
    value, place = int.from_bytes(data[at : at + 512], "little"), 4
    accuracy = (value & 15) + 5
    if accuracy > most:
        raise ValueError("a table of too many states")
    left, chances = 1 << accuracy, list[int]()
    while left > 0 and len(chances) < 256:
        bits = (left + 1).bit_length()
        read = value >> place & ((1 << bits) - 1)
        low, spare = read & ((1 << bits - 1) - 1), (1 << bits) - 2 - left
        if low < spare:
            place, chance = place + bits - 1, low
        else:
            place, chance = place + bits, read - spare if read >= 1 << bits - 1 else read
        chances.append(chance - 1)
        left -= abs(chance - 1)
        while chance == 1:
            zeros = value >> place & 3
            place += 2
            chances += [0] * zeros
            if zeros < 3:
                break
    if left or at + (place + 7) // 8 > len(data):
        raise ValueError("a table of states that does not add up")
    return accuracy, chances, at + (place + 7) // 8


def _spread(accuracy: int, chances: list[int]) -> _Table:
    size = 1 << accuracy
    rare = [symbol for symbol, chance in enumerate(chances) if chance == -1]
    symbols = [0] * (size - len(rare)) + rare[::-1]
    step, place = (size >> 1) + (size >> 3) + 3, 0
    for symbol, chance in enumerate(chances):
        for _ in range(max(chance, 0)):
            symbols[place] = symbol
            place = (place + step) & (size - 1)
            while place >= size - len(rare):
                place = (place + step) & (size - 1)
    seen = [1 if chance == -1 else chance for chance in chances]
    cells = []
    for symbol in symbols:
        state = seen[symbol]
        seen[symbol] += 1
        bits = accuracy + 1 - state.bit_length()
        cells.append(_Cell(symbol, bits, (state << bits) - size))
    return _Table(accuracy, cells)
