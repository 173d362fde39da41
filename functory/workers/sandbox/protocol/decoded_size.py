"""Bounds the memory that a msgpack value takes once it is decoded, before anything of it is decoded.

One byte of msgpack can become an empty list of 72 bytes, so the length of a frame says little. The sizes are those of
CPython on 64 bits, rounded up. The format is https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

_VALUE = 9  # its place in a list that has grown by an eighth too much
_NUMBER = 48
_TEXT = 64
_WIDEST_CHARACTER = 4  # bytes: one such character makes all others of its text as wide
_LIST = 80
_DICT = 80
_FIRST_ENTRY = 128
_ENTRY = 40
_NEVER_JSON = 128  # bytes, times, extensions: refused, but only after they were decoded
_LONG_TEXT = 256

# At most, for each byte that may begin anything but a small number: the largest of the above, and an entry.
_HEADER_BYTE = _NEVER_JSON + _ENTRY + _TEXT
_FILLED_DICT = _DICT + _FIRST_ENTRY
_PLAIN = bytes(range(0x80))
_NO_FILLED_DICT = bytes(byte for byte in range(256) if not 0x81 <= byte <= 0x8F)

# The header bytes behind which the length of a text or of bytes stands, and in how many bytes.
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
# The header bytes behind which the number of the items of a list, or of the entries of a dict, stands.
_COUNTS = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_NUMBERS = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_FIXED_EXTENSIONS = {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}


def _tables() -> tuple[list[int], list[int]]:
    """Return for each header byte the bytes up to the next value (0: they must be read) and the memory it takes."""
    steps, sizes = [1] * 256, [_VALUE] * 256
    for byte in range(256):
        if 0x81 <= byte <= 0x8F:
            sizes[byte] += _FILLED_DICT + _ENTRY * (byte & 0x0F)
        elif byte == 0x80:
            sizes[byte] += _DICT
        elif 0x90 <= byte <= 0x9F:
            sizes[byte] += _LIST
        elif 0xA0 <= byte <= 0xBF:
            steps[byte] += byte & 0x1F
            sizes[byte] += _TEXT + _WIDEST_CHARACTER * (byte & 0x1F)
        elif byte in _NUMBERS:
            steps[byte] += _NUMBERS[byte]
            sizes[byte] += _NUMBER
        elif byte in _FIXED_EXTENSIONS:
            steps[byte] += _FIXED_EXTENSIONS[byte]
            sizes[byte] += _NEVER_JSON
        elif byte in _LENGTHS or byte in _COUNTS:
            steps[byte] = 0
        elif byte >= 0xE0:
            sizes[byte] += _NUMBER
    return steps, sizes


_STEPS, _SIZES = _tables()


def decoded_size(payload: bytes, most: int) -> int:
    """Return a bound of the bytes of memory that ``payload`` takes when decoded; more than ``most`` if it may.

    Where a rough bound is enough it costs some microseconds, and else a tenth of a microsecond for each value, in
    which other threads run.
    """
    rough = _rough_size(payload)
    return rough if rough <= most else _exact_size(payload, most)


def _rough_size(payload: bytes) -> int:
    """Take every byte for a value of its own; an entry of a dict has two bytes at least."""
    headers = len(payload.translate(None, _PLAIN))
    dicts = len(payload.translate(None, _NO_FILLED_DICT))
    return len(payload) * _VALUE + headers * _HEADER_BYTE + dicts * _FILLED_DICT


def _exact_size(payload: bytes, most: int) -> int:
    """Add up all values, one after another as they stand; stop when they are too large."""
    steps, sizes = _STEPS, _SIZES
    end = len(payload)
    position = total = 0
    while position < end:
        byte = payload[position]
        total += sizes[byte]
        step = steps[byte]
        if step:
            position += step
        elif byte in _LENGTHS:
            begin = position + 1 + _LENGTHS[byte]
            length = int.from_bytes(payload[position + 1 : begin])
            begin += 0xC7 <= byte <= 0xC9  # the type of the extension
            position = begin + length
            wide = length < _LONG_TEXT or not payload[begin:position].isascii()
            total += _NEVER_JSON + length * (_WIDEST_CHARACTER if wide else 1)
        else:
            begin = position + 1 + _COUNTS[byte]
            count = min(int.from_bytes(payload[position + 1 : begin]), end)
            position = begin
            total += _LIST if byte < 0xDE else _FILLED_DICT + _ENTRY * count
        if total > most:
            return total
    return total
