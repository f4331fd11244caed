// Checks LinearHashingPartitioner without a broker: the golden vectors, doublings against Kafka's own, settings, keyless records.
//
// usage: java -cp baton-partitioner.jar:'Kafka client' PartitionerTest.java tests/golden/partitions.txt
//
// Prints how many keys were checked; ends with an exception and 1 when anything is wrong.

import baton.producer.LinearHashingPartitioner;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.config.ConfigException;

class PartitionerTest {
    static final String TOPIC = "orders";
    static final Node NODE = new Node(1, "localhost", 9092);
    static final int KEYS_MIN = 10_000;
    static final Map<Integer, Cluster> clusters = new HashMap<>();

    static void check(boolean right, String what) {
        if (!right) {
            throw new AssertionError(what);
        }
    }

    /** Partitions from `leaderless` on have no leader. */
    static Cluster makeCluster(int partitions, int leaderless) {
        List<PartitionInfo> infos = new ArrayList<>();
        Node[] nodes = {NODE};
        for (int i = 0; i < partitions; i++) {
            infos.add(new PartitionInfo(TOPIC, i, i < leaderless ? NODE : null, nodes, nodes));
        }
        return new Cluster("cluster", List.of(NODE), infos, Set.of(), Set.of());
    }

    static Cluster cluster(int partitions) {
        return clusters.computeIfAbsent(partitions, count -> makeCluster(count, count));
    }

    static LinearHashingPartitioner make(Object... settings) {
        Map<String, Object> configs = new HashMap<>();
        for (int i = 0; i < settings.length; i += 2) {
            configs.put((String) settings[i], settings[i + 1]);
        }
        LinearHashingPartitioner partitioner = new LinearHashingPartitioner();
        partitioner.configure(configs);
        return partitioner;
    }

    static int place(LinearHashingPartitioner partitioner, byte[] key, int count) {
        return partitioner.partition(TOPIC, null, key, null, new byte[1], cluster(count));
    }

    static byte[] parseKey(String hex) {
        byte[] key = new byte[hex.equals("-") ? 0 : hex.length() / 2];
        for (int i = 0; i < key.length; i++) {
            key[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return key;
    }

    static int checkVectors(Path file) throws Exception {
        int keys = 0;
        LinearHashingPartitioner doubled = make("baton.initial.partitions", 3);
        for (String line : Files.readAllLines(file, StandardCharsets.US_ASCII)) {
            if (line.startsWith("#")) {
                continue;
            }
            String[] fields = line.split(" ");
            check(fields.length == 11, line);
            byte[] key = parseKey(fields[0]);
            for (int at = 3; at < fields.length; at += 4) {
                int count = Integer.parseInt(fields[at + 1]);
                LinearHashingPartitioner murmur2 = make("baton.initial.partitions", fields[at]);
                LinearHashingPartitioner crc32 = make("baton.initial.partitions", fields[at], "baton.hash", "crc32");
                check(place(murmur2, key, count) == Integer.parseInt(fields[at + 2]), "murmur2: " + line);
                check(place(crc32, key, count) == Integer.parseInt(fields[at + 3]), "crc32: " + line);
            }
            for (int count = 3; count < 200; count *= 2) {
                check(place(doubled, key, count) == BuiltInPartitioner.partitionForKey(key, count), "not Kafka's own: " + line);
            }
            keys++;
        }
        check(keys >= KEYS_MIN, "only " + keys + " keys");
        return keys;
    }

    static void checkRefused(String text, Object... settings) {
        try {
            make(settings);
        } catch (ConfigException error) {
            check(error.getMessage().contains(text), error.getMessage());
            return;
        }
        throw new AssertionError("taken: " + Arrays.toString(settings));
    }

    static void checkSettings() {
        String what = "set it to the number of partitions that the topic had at first";
        checkRefused("baton.initial.partitions is missing: " + what);
        for (Object wrong : new Object[] {"", "four", "0", "-4", "4.5", "2147483648", 0}) {
            checkRefused(what, "baton.initial.partitions", wrong);
        }
        checkRefused("set it to murmur2 or crc32", "baton.initial.partitions", "4", "baton.hash", "md5");
        try {
            place(make("baton.initial.partitions", "4"), new byte[1], 3);
        } catch (ConfigException error) {
            check(error.getMessage().contains("is 4, but topic orders has 3 partitions: set it to"), error.getMessage());
            return;
        }
        throw new AssertionError("a topic with too few partitions was taken");
    }

    /** Stay with one for batch.size bytes; never choose one without a leader while others have one. */
    static void checkKeyless() {
        LinearHashingPartitioner partitioner = make("baton.initial.partitions", "4", "batch.size", 100);
        Cluster half = makeCluster(6, 3);
        Set<Integer> seen = new HashSet<>();
        for (int batch = 0; batch < 300; batch++) {
            int first = partitioner.partition(TOPIC, null, null, null, new byte[50], half);
            check(partitioner.partition(TOPIC, null, null, null, new byte[50], half) == first, "left before batch.size bytes");
            seen.add(first);
        }
        check(seen.equals(Set.of(0, 1, 2)), "chosen of 0, 1, 2: " + seen);
        partitioner = make("baton.initial.partitions", "4", "batch.size", 1_000_000);
        Cluster first = makeCluster(1, 1), none = makeCluster(6, 0);
        int chosen = partitioner.partition(TOPIC, null, null, null, null, none);
        check(chosen >= 0 && chosen < 6, "no partition though none has a leader");
        check(partitioner.partition(TOPIC, null, null, null, null, first) == 0, "kept one that is gone or without a leader");
        seen.clear();
        for (int i = 0; i < 50; i++) {
            seen.add(partitioner.partition("t" + i, null, null, null, null, topicOf("t" + i)));
        }
        check(seen.size() > 1, "all topics have the same partition: " + seen);
    }

    static Cluster topicOf(String topic) {
        List<PartitionInfo> infos = new ArrayList<>();
        Node[] nodes = {NODE};
        for (int i = 0; i < 6; i++) {
            infos.add(new PartitionInfo(topic, i, NODE, nodes, nodes));
        }
        return new Cluster("cluster", List.of(NODE), infos, Set.of(), Set.of());
    }

    public static void main(String[] args) throws Exception {
        checkSettings();
        checkKeyless();
        System.out.println(checkVectors(Path.of(args[0])) + " keys checked");
    }
}
