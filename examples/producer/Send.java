// A Java producer with the linear-hashing partitioner: sends lines of standard input to a topic.
//
// usage: java -cp baton-partitioner.jar:'libs of the Kafka client' Send.java BOOTSTRAP TOPIC NAME=VALUE...
//
// NAME=VALUE are settings of the producer; baton.initial.partitions is required. A line is KEY, a tab, VALUE; one without a tab is a
// VALUE without a key. Prints PARTITION OFFSET KEY for each record that is acknowledged, in any order. Ends with 1 at the first that
// is not.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

class Send {
    public static void main(String[] args) throws Exception {
        if (args.length < 3) {
            System.err.println("usage: Send BOOTSTRAP TOPIC baton.initial.partitions=N0 [NAME=VALUE...]");
            System.exit(2);
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("partitioner.class", "baton.producer.LinearHashingPartitioner");
        for (int i = 2; i < args.length; i++) {
            String[] parts = args[i].split("=", 2);
            settings.put(parts[0], parts.length == 2 ? parts[1] : "");
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                send(producer, args[1], line);
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String line) {
        int tab = line.indexOf('\t');
        String key = tab < 0 ? null : line.substring(0, tab);
        producer.send(new ProducerRecord<>(topic, key, line.substring(tab + 1)), (place, error) -> {
            if (error != null) {
                System.err.println("a record was not sent: " + error);
                Runtime.getRuntime().halt(1); // exit() would wait for the thread that is here
            }
            System.out.println(place.partition() + " " + place.offset() + " " + (key == null ? "" : key));
        });
    }
}
