"""The oracle must find what it is for: each seeded fault in a perfect output, and nothing in a perfect one. No broker."""

import random

import pytest

from oracle import CountCheck, ProvenanceCheck, commits_partition, parse_commit

KEYS = [b"key-%d" % index for index in range(50)]
RECORDS = 2_000
PARTITIONS = 4


class Output:
    """As a consumed message."""

    def __init__(self, key, value, place, headers=True):
        self._key, self._value, self._place = key, value, place
        self._headers = headers

    def key(self):
        return self._key

    def value(self):
        return self._value

    def headers(self):
        topic, partition, offset = self._place
        if not self._headers:
            return None
        own = [("baton-topic", topic), ("baton-partition", partition), ("baton-offset", offset)]
        return [("trace", b"x"), *((name, str(value).encode()) for name, value in own)]

    def partition(self):
        return self._place[1]

    def offset(self):
        return self._place[2]


class World:
    """A perfect output over random inputs, and what was sent."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.sent = {}
        self.inputs = {}
        self.outputs = []
        for _ in range(RECORDS):
            index = rng.randrange(len(KEYS))
            key, place = KEYS[index], ("in", index % PARTITIONS)
            self.sent[key] = self.sent.get(key, 0) + 1
            offsets = self.inputs.setdefault(place, [])
            offsets.append(len(offsets) * 2)  # as if a transaction marker followed each record
            self.outputs.append(Output(key, b"%d" % self.sent[key], (*place, offsets[-1])))

    def of_key(self, key):
        """Positions of the key's outputs."""
        return [position for position, output in enumerate(self.outputs) if output.key() == key]

    def swap(self, first, second):
        self.outputs[first], self.outputs[second] = self.outputs[second], self.outputs[first]

    def judge(self):
        verdicts = []
        for check, expected in ((CountCheck(), self.sent), (ProvenanceCheck(), self.inputs)):
            for start in range(0, len(self.outputs), 300):
                check.feed(self.outputs[start : start + 300])
            verdicts.append(check.verdict(expected))
        return verdicts

    def faults(self):
        return [(v.lost, v.doubled, v.misordered, v.unexpected) for v in self.judge()]


@pytest.fixture(params=range(5))
def world(request):
    return World(request.param)


def test_perfect(world):
    for verdict in world.judge():
        assert verdict.assert_exact().total == RECORDS
    assert world.faults() == [(0, 0, 0, 0)] * 2


@pytest.mark.parametrize("which", [0, 3, -1], ids=["first", "middle", "last"])
def test_lost(world, which):
    del world.outputs[world.of_key(KEYS[7])[which]]
    assert world.faults() == [(1, 0, 0, 0)] * 2
    for verdict in world.judge():
        with pytest.raises(AssertionError, match="1 lost"):
            verdict.assert_exact()


def test_lost_key(world):
    world.outputs = [output for output in world.outputs if output.key() != KEYS[3]]
    assert world.faults() == [(world.sent[KEYS[3]], 0, 0, 0)] * 2


def test_lost_partition(world):
    size = len(world.inputs["in", 2])
    world.outputs = [output for output in world.outputs if output.partition() != 2]
    assert world.faults() == [(size, 0, 0, 0)] * 2


@pytest.mark.parametrize("which", [0, 3, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("later", [1, 400], ids=["at-once", "much-later"])
def test_doubled(world, which, later):
    position = world.of_key(KEYS[7])[which]
    world.outputs.insert(position + later, world.outputs[position])
    assert world.faults() == [(0, 1, 0, 0)] * 2
    for verdict in world.judge():
        verdict.assert_at_least_once()


def test_repeated_run(world):
    """A takeover without a fence repeats a run of outputs."""
    run = [world.outputs[position] for position in world.of_key(KEYS[7])[2:6]]
    position = world.of_key(KEYS[7])[5] + 1
    world.outputs[position:position] = run
    assert world.faults() == [(0, 4, 0, 0)] * 2


def test_swapped(world):
    places = world.of_key(KEYS[7])
    world.swap(places[4], places[5])
    assert world.faults() == [(0, 0, 1, 0)] * 2
    for verdict in world.judge():
        with pytest.raises(AssertionError, match="1 misordered"):
            verdict.assert_at_least_once()


def test_swapped_keys_are_no_fault(world):
    """Order counts within a key only."""
    first = world.of_key(KEYS[7])[4]
    second = next(p for p in range(first + 1, RECORDS) if world.outputs[p].key() != KEYS[7])
    between = {output.key() for output in world.outputs[first + 1 : second]}
    assert between <= {KEYS[7]}
    if not between:
        world.swap(first, second)
        assert world.faults() == [(0, 0, 0, 0)] * 2


def test_lost_one_counted_twice(world):
    """The state lost an update: the same count comes out twice and the last one is missing."""
    places = world.of_key(KEYS[7])
    for position in places[5:]:
        output = world.outputs[position]
        world.outputs[position] = Output(output.key(), b"%d" % (int(output.value()) - 1), output._place)
    count, provenance = world.faults()
    assert count == (1, 1, 0, 0)
    assert provenance == (0, 0, 0, 0)


def test_unexpected(world):
    world.outputs.append(Output(b"stranger", b"1", ("in", 0, 1)))
    world.outputs.append(Output(KEYS[1], b"one", ("in", 9, 0)))
    world.outputs.append(Output(KEYS[1], None, ("in", 0, 0), headers=False))
    count, provenance = world.faults()
    assert count == (0, 0, 0, 3)
    assert provenance == (0, 0, 0, 3)


def test_count_goes_on(world):
    """More than was sent, in order."""
    count = world.sent[KEYS[7]]
    world.outputs.append(Output(KEYS[7], b"%d" % (count + 1), ("in", 0, 1)))
    assert world.faults()[0] == (0, 0, 0, 1)


def test_all_at_once(world):
    places = world.of_key(KEYS[7])
    doubled, lost = world.outputs[places[1]], places[3]
    world.swap(places[7], places[8])
    world.outputs.append(doubled)
    del world.outputs[lost]
    assert world.faults() == [(1, 1, 1, 0)] * 2
    text = str(world.judge()[0])
    assert "1 lost, 1 doubled, 1 misordered" in text and "key-7" in text


def test_commits_are_where_java_puts_them():
    assert commits_partition("hello", 1 << 31) == 99162322  # "hello".hashCode()
    assert commits_partition("Hello World", 1 << 31) == 862545276  # which is negative there
    assert commits_partition("polygenelubricants", 50) == 0  # whose hash is the smallest number, which has no opposite


@pytest.mark.parametrize("version,rest", [
    (1, b"\0\4b1 x" + bytes(16)),
    (3, b"\xff\xff\xff\xff\0\4b1 x" + bytes(8)),
    (4, b"\xff\xff\xff\xff\5b1 x" + bytes(9)),
])  # fmt: skip
def test_commits_are_parsed(version, rest):
    key = b"\0\1\0\3job\0\2in\0\0\0\7"
    value = version.to_bytes(2, "big") + (1 << 33).to_bytes(8, "big") + rest
    assert parse_commit(key, value) == ("job", "in", 7, 1 << 33, "b1 x")
    assert parse_commit(key, None) is None and parse_commit(b"\0\2\0\3job", value) is None
