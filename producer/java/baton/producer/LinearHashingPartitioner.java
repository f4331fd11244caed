// Licence: Apache-2.0.
package baton.producer;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.zip.CRC32;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Utils;

/**
 * The linear-hashing partitioner for Java producers.
 *
 * <p>Doubling a topic needs none of this: at N0 * 2^j partitions it puts each key where Kafka's own partitioner does. It is for
 * topics with other counts (docs/producers.md). All producers of a topic have to use it then, with the same settings; the one for
 * C is {@code <baton/partitioner.h>}.
 *
 * <p>Settings of the producer, beside {@code partitioner.class}:
 *
 * <ul>
 *   <li>{@code baton.initial.partitions}: N0, how many partitions the topic had when its keys were first put by hash (the job's
 *       {@code initial_partitions}). Required; it never changes, however often the topic is expanded.
 *   <li>{@code baton.hash}: {@code murmur2} (default; as Kafka's own) or {@code crc32} (as librdkafka's default), of the job's map.
 * </ul>
 *
 * <p>A wrong setting is a {@link ConfigException} when the producer is made. A topic with fewer partitions than N0 is one when a
 * keyed record is sent, which is put nowhere. Records without a key stay with one of the available partitions for
 * {@code batch.size} bytes, then with another, as in Kafka's own partitioner. May be called by any number of threads.
 */
public final class LinearHashingPartitioner implements Partitioner {
    public static final String INITIAL_PARTITIONS_CONFIG = "baton.initial.partitions";
    public static final String HASH_CONFIG = "baton.hash";

    private static final int BATCH_BYTES_DEFAULT = 16384; // Kafka's own

    private final ConcurrentMap<String, Sticky> stickies = new ConcurrentHashMap<>(); // by topic
    private int initialPartitions;
    private boolean crc32;
    private int batchBytes;

    @Override
    public void configure(Map<String, ?> configs) {
        initialPartitions = parseInitialPartitions(configs.get(INITIAL_PARTITIONS_CONFIG));
        crc32 = parseHash(configs.get(HASH_CONFIG));
        batchBytes = parseBatchBytes(configs.get(ProducerConfig.BATCH_SIZE_CONFIG));
    }

    @Override
    public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
        int count = cluster.partitionsForTopic(topic).size();
        if (keyBytes == null) {
            int bytes = valueBytes == null ? 0 : valueBytes.length;
            return stickies.compute(topic, (name, current) -> stick(name, current, bytes, cluster)).partition;
        }
        if (count < initialPartitions) {
            throw new ConfigException(INITIAL_PARTITIONS_CONFIG + " is " + initialPartitions + ", but topic " + topic + " has "
                + count + " partitions: set it to the number that the topic had at first");
        }
        return bucket(hash(keyBytes), initialPartitions, count);
    }

    @Override
    public void close() {}

    private long hash(byte[] key) {
        if (!crc32) {
            return Utils.toPositive(Utils.murmur2(key));
        }
        CRC32 sum = new CRC32();
        sum.update(key);
        return sum.getValue();
    }

    /** Linear hashing: see common/hash/linhash.h. A hash has 32 bits and no sign, so it is a long here. */
    private static int bucket(long hash, int initial, int now) {
        long base = initial;
        while (base * 2 <= now) {
            base *= 2;
        }
        long bucket = hash % base;
        if (bucket < now - base) { // it has been split at this level
            bucket = hash % (base * 2);
        }
        return (int) bucket;
    }

    // ---- records without a key

    private static final class Sticky {
        final int partition;
        final long bytesLeft;

        Sticky(int partition, long bytesLeft) {
            this.partition = partition;
            this.bytesLeft = bytesLeft;
        }
    }

    private Sticky stick(String topic, Sticky current, int bytes, Cluster cluster) {
        List<PartitionInfo> available = cluster.availablePartitionsForTopic(topic);
        List<PartitionInfo> all = cluster.partitionsForTopic(topic);
        if (current != null && current.bytesLeft > 0 && current.partition < all.size()
            && (available.isEmpty() || all.get(current.partition).leader() != null)) {
            return new Sticky(current.partition, current.bytesLeft - bytes);
        }
        List<PartitionInfo> choice = available.isEmpty() ? all : available;
        int index = ThreadLocalRandom.current().nextInt(choice.size());
        return new Sticky(choice.get(index).partition(), (long) batchBytes - bytes);
    }

    // ---- settings

    private static int parseInitialPartitions(Object value) {
        String what = "set it to the number of partitions that the topic had at first (initial_partitions of the job)";
        if (value == null) {
            throw new ConfigException(INITIAL_PARTITIONS_CONFIG + " is missing: " + what);
        }
        int number = parseInt(value);
        if (number < 1) {
            throw new ConfigException(INITIAL_PARTITIONS_CONFIG, value, what + ", a whole number from 1 on");
        }
        return number;
    }

    private static boolean parseHash(Object value) {
        String name = value == null ? "murmur2" : value.toString().trim();
        if (!name.equals("murmur2") && !name.equals("crc32")) {
            throw new ConfigException(HASH_CONFIG, value, "set it to murmur2 or crc32, as the job's map says");
        }
        return name.equals("crc32");
    }

    /** Kafka has checked it; what is not there, or not a number, is another client's business. */
    private static int parseBatchBytes(Object value) {
        int bytes = value == null ? BATCH_BYTES_DEFAULT : parseInt(value);
        return Math.max(bytes, 1);
    }

    /** -1 for what is no number. */
    private static int parseInt(Object value) {
        try {
            return value instanceof Integer ? (Integer) value : Integer.parseInt(value.toString().trim());
        } catch (NumberFormatException error) {
            return -1;
        }
    }
}
