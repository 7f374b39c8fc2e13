// Counts words exactly once with Flink, in a cluster within this process: java FlinkWords.java BOOTSTRAP LINES COUNTS
// Topic COUNTS gets a record for each word of LINES: its key is the word, its value the count so far.
// The job fails once after a checkpoint, and continues from the last one.

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

public class FlinkWords {
    static final AtomicInteger CHECKPOINTS = new AtomicInteger();
    static final AtomicInteger FAILURES = new AtomicInteger();

    /** Words of lines; slow until the job has failed, so that it does so before the last line. */
    public static class Words implements FlatMapFunction<String, Tuple2<String, Integer>>, CheckpointListener {
        @Override
        public void flatMap(String line, Collector<Tuple2<String, Integer>> out) throws InterruptedException {
            if (FAILURES.get() == 0) {
                Thread.sleep(3);
                if (CHECKPOINTS.get() > 1 && FAILURES.compareAndSet(0, 1)) {
                    throw new IllegalStateException("fails on purpose");
                }
            }
            for (String word : line.split(" ")) {
                out.collect(Tuple2.of(word, 1));
            }
        }

        @Override
        public void notifyCheckpointComplete(long number) {
            CHECKPOINTS.incrementAndGet();
        }
    }

    public static class Sum implements ReduceFunction<Tuple2<String, Integer>> {
        @Override
        public Tuple2<String, Integer> reduce(Tuple2<String, Integer> one, Tuple2<String, Integer> more) {
            return Tuple2.of(one.f0, one.f1 + more.f1);
        }
    }

    public static class Word implements KeySelector<Tuple2<String, Integer>, String> {
        @Override
        public String getKey(Tuple2<String, Integer> counted) {
            return counted.f0;
        }
    }

    public static class Key implements SerializationSchema<Tuple2<String, Integer>> {
        @Override
        public byte[] serialize(Tuple2<String, Integer> counted) {
            return counted.f0.getBytes(StandardCharsets.UTF_8);
        }
    }

    public static class Value implements SerializationSchema<Tuple2<String, Integer>> {
        @Override
        public byte[] serialize(Tuple2<String, Integer> counted) {
            return counted.f1.toString().getBytes(StandardCharsets.UTF_8);
        }
    }

    public static void main(String[] args) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "3");
        settings.setString("restart-strategy.fixed-delay.delay", "100 ms");
        settings.setString("taskmanager.numberOfTaskSlots", "2");
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        job.enableCheckpointing(500);
        KafkaSource<String> lines = KafkaSource.<String>builder()
            .setBootstrapServers(args[0]).setTopics(args[1]).setGroupId("flink")
            .setStartingOffsets(OffsetsInitializer.earliest()).setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema()).setProperty("isolation.level", "read_committed")
            .build();
        KafkaSink<Tuple2<String, Integer>> counts = KafkaSink.<Tuple2<String, Integer>>builder()
            .setBootstrapServers(args[0]).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink-words").setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.<Tuple2<String, Integer>>builder()
                .setTopic(args[2])
                .setKeySerializationSchema(new Key())
                .setValueSerializationSchema(new Value())
                .build())
            .build();
        job.fromSource(lines, WatermarkStrategy.noWatermarks(), "lines")
            .flatMap(new Words()).keyBy(new Word()).reduce(new Sum()).sinkTo(counts);
        job.execute("words");
        System.out.println("failures " + FAILURES.get());
    }
}
