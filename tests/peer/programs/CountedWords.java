// Counts words with Kafka Streams and asks its own store for them, until it is killed:
// java CountedWords.java BOOTSTRAP STATE_FOLDER TOPIC WORDS
// Once that many words are counted it prints each word with its count and the partition of the store.

import java.util.Arrays;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class CountedWords {
    static final String STORE = "counts";

    public static void main(String[] args) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "counted-words");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "127.0.0.1:1");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(
                Stores.persistentKeyValueStore(STORE))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        TreeMap<String, Long> counts = new TreeMap<>();
        while (counts.values().stream().mapToLong(Long::longValue).sum() < Long.parseLong(args[3])) {
            Thread.sleep(100);
            counts = asked(streams);
        }
        counts.forEach((word, count) -> System.out.println(word + " " + count + " "
            + streams.queryMetadataForKey(STORE, word, Serdes.String().serializer()).partition()));
        System.out.println("answered");
        Thread.currentThread().join();
    }

    /** All counts; each word's is asked for by its key. Empty while the store is being restored. */
    static TreeMap<String, Long> asked(KafkaStreams streams) {
        TreeMap<String, Long> counts = new TreeMap<>();
        try {
            ReadOnlyKeyValueStore<String, Long> store = streams.store(
                StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
            try (var all = store.all()) {
                all.forEachRemaining(row -> counts.put(row.key, store.get(row.key)));
            }
        } catch (InvalidStateStoreException restoring) {
            counts.clear();
        }
        return counts;
    }
}
