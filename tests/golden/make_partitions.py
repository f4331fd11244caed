"""Makes tests/golden/partitions.txt: keys, their hashes, and the partitions that linear hashing gives them (docs/design.md D2).

    python3 tests/golden/make_partitions.py            write the file
    python3 tests/golden/make_partitions.py --check    fail when it is not up to date

All who route by key have to agree on this file: common/hash and so the daemons, the C library, and the Java class. So it is made
without any of their code: linear hashing is told here as the splits that it is a shortcut of, murmur2 is written from its
description, crc32 is zlib's. No randomness: all that looks random is SHA-256 of a counter.

A line is KEY MURMUR2 CRC32, and then for each of two sizes N0 N PARTITION_BY_MURMUR2 PARTITION_BY_CRC32. KEY is in hexadecimal, `-`
the empty one; MURMUR2 is without its sign bit, as Kafka uses it.
"""

import hashlib
import itertools
import pathlib
import sys
import zlib

FILE = pathlib.Path(__file__).with_name("partitions.txt")
KEYS = 10_500
BITS_32 = 0xFFFFFFFF
WORDS = ["Ωμέγα", "Straße", "naïve café", "ключ", "鍵", "キー", "열쇠", "مفتاح", "🔑", "a\u0301", "\u00e1", "\u202e", "\x00", "\x7f", "\ufeff"]


class Stream:
    """Bytes that look random and are the same everywhere."""

    def __init__(self, name):
        self._name = name
        self._blocks = itertools.count()
        self._left = b""

    def bytes(self, count):
        while len(self._left) < count:
            self._left += hashlib.sha256(f"{self._name} {next(self._blocks)}".encode()).digest()
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def below(self, limit):
        return int.from_bytes(self.bytes(8), "big") % limit


def murmur2(key):
    """Appleby's MurmurHash2 of 32 bits with the seed that Kafka has."""
    multiplier = 0x5BD1E995
    value = 0x9747B28C ^ len(key)
    whole = len(key) - len(key) % 4
    for at in range(0, whole, 4):
        block = int.from_bytes(key[at:at + 4], "little") * multiplier & BITS_32
        block = (block ^ block >> 24) * multiplier & BITS_32
        value = value * multiplier & BITS_32 ^ block
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * multiplier & BITS_32
    value = (value ^ value >> 13) * multiplier & BITS_32
    return value ^ value >> 15


class Buckets:
    """Linear hashing step by step: buckets are split in turn, and each split halves what belongs to the one that is split."""

    def __init__(self, initial, now):
        self._initial = initial
        self._splits = [[] for _ in range(initial)]  # of each bucket: (modulus from then on, the new bucket)
        moduli = [initial] * initial
        turn, round_end = 0, initial
        for new in range(initial, now):
            moduli[turn] *= 2
            moduli.append(moduli[turn])
            self._splits[turn].append((moduli[turn], new))
            self._splits.append([])
            turn += 1
            if turn == round_end:
                turn, round_end = 0, round_end * 2

    def find(self, value):
        """Follows the splits that this value has been through."""
        bucket = residue = value % self._initial
        while True:
            for modulus, new in self._splits[bucket]:
                if value % modulus != residue:
                    bucket, residue = new, value % modulus
                    break
            else:
                return bucket


def keys():
    found = {b"": None}  # a dict keeps the order and drops what comes twice
    stream = Stream("keys")
    found.update((bytes([byte]), None) for byte in range(256))
    found.update((word.encode(), None) for word in WORDS)
    found.update((f"{left}/{right}".encode(), None) for left in WORDS for right in WORDS)
    found.update((stream.bytes(length), None) for length in range(1, 300))
    found.update((stream.bytes(length), None) for length in (1023, 1024, 1025) for _ in range(20))
    found.update((bytes([byte]) * 1024, None) for byte in (0x00, 0x7F, 0x80, 0xFF))
    found.update((str(number).encode(), None) for number in range(3000))
    found.update((f"customer-{number:08}".encode(), None) for number in range(1000))
    while len(found) < KEYS:
        found[stream.bytes(1 + stream.below(24))] = None
    return list(found)


def sizes():
    """Small ones in full, counts around doublings, and some larger ones."""
    pairs = [(initial, now) for initial in range(1, 8) for now in range(initial, 4 * initial + 2)]
    for initial, doublings in ((1, 11), (3, 9), (12, 7), (50, 6), (100, 5)):
        pairs += [(initial, (initial << level) + step) for level in range(2, doublings) for step in (-1, 0, 1)]
    stream = Stream("sizes")
    for _ in range(100):
        initial = 1 + stream.below(300)
        pairs.append((initial, initial + stream.below(4000)))
    return pairs


def lines():
    yield f"# {KEYS} keys, made by tests/golden/make_partitions.py, which says what the columns are"
    buckets = [(*pair, Buckets(*pair)) for pair in sizes()]
    for index, key in enumerate(keys()):
        by_murmur2, by_crc32 = murmur2(key) & 0x7FFFFFFF, zlib.crc32(key)
        fields = [key.hex() or "-", by_murmur2, by_crc32]
        for initial, now, size in (buckets[(2 * index + second) % len(buckets)] for second in range(2)):
            fields += [initial, now, size.find(by_murmur2), size.find(by_crc32)]
        yield " ".join(map(str, fields))


def main():
    text = "\n".join(lines()) + "\n"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if FILE.read_text(encoding="ascii") == text else f"{FILE} is not what {__file__} makes: run it")
    if sys.argv[1:]:
        sys.exit(__doc__)
    FILE.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
