// Registers Avro schemas with Confluent's client of the schema registry, writes a value with the id of one and
// reads a value of another client: java RegistryOrders.java URL VALUE (both values in hex)
// The client is the one that Flink's Avro format has inside, with its packages renamed.

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.BinaryEncoder;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;

public class RegistryOrders {
    static final String SUBJECT = "java-value";
    static final String REFERRING = "java/all orders";
    static final String ORDER = record("Order", "id", "\"long\"");

    interface Request {
        Object send() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        SchemaRegistryClient registry = client(args[0]);
        AvroSchema order = new AvroSchema(ORDER);
        int id = registry.register(SUBJECT, order);
        SchemaRegistryClient other = client(args[0]); // the first one answers from its cache
        same(id, other.getId(SUBJECT, order));
        same(1, other.getVersion(SUBJECT, order));
        same(List.of(1), other.getAllVersions(SUBJECT));
        same(order, other.getSchemaById(id));

        AvroSchema incompatible = new AvroSchema(record("Order", "id", "\"string\""));
        same(true, other.testCompatibility(SUBJECT, order));
        same(false, other.testCompatibility(SUBJECT, incompatible));
        same(true, other.testCompatibilityVerbose(SUBJECT, incompatible).toString().contains("TYPE_MISMATCH"));
        refused(409, 409, () -> registry.register(SUBJECT, incompatible));
        refused(404, 40402, () -> other.getSchemaMetadata(SUBJECT, 9));
        refused(404, 40403, () -> other.getSchemaById(99));

        refer(other, id);
        describe(other);
        remove(other);

        System.out.println(HexFormat.of().formatHex(written(id, order.rawSchema(), 8)) + " "
            + read(other, HexFormat.of().parseHex(args[1])));
    }

    /** A schema that refers to the first one, in a subject whose name has to be escaped. */
    static void refer(SchemaRegistryClient registry, int referred) throws Exception {
        List<SchemaReference> references = List.of(new SchemaReference("Order", SUBJECT, 1));
        AvroSchema orders = new AvroSchema(
            record("Orders", "all", "{\"type\":\"array\",\"items\":\"Order\"}"), references, Map.of("Order", ORDER), null);
        int id = registry.register(REFERRING, orders);
        registry.reset();
        AvroSchema found = (AvroSchema) registry.getSchemaById(id);
        same(orders.references(), found.references());
        same(orders.rawSchema(), found.rawSchema());
        same(Set.of(REFERRING), Set.copyOf(registry.getAllSubjectsById(id)));
        refused(422, 42206, () -> registry.deleteSubject(SUBJECT));
    }

    /** The same schema with metadata is another version; one without them inherits those of the latest. */
    static void describe(SchemaRegistryClient registry) throws Exception {
        Map<String, String> properties = Map.of("owner", "Jo & Al", "stage", "");
        AvroSchema owned = with(properties);
        int id = registry.register(SUBJECT, owned);
        registry.register(SUBJECT, with(Map.of("owner", "Bo")));
        registry.reset();
        same(owned, registry.getSchemaById(id));
        same(id, registry.getLatestWithMetadata(SUBJECT, properties, false).getId());
        same(2, registry.getVersion(SUBJECT, owned));
        same(3, registry.getLatestSchemaMetadata(SUBJECT).getVersion());
        refused(404, 40403, () -> registry.getLatestWithMetadata(SUBJECT, Map.of("owner", "Jo"), false));

        AvroSchema plain = new AvroSchema(record("Order", "id", "\"long\",\"doc\":\"of a sale\""));
        var answer = registry.registerWithResponse(SUBJECT, plain, false);
        same(Map.of("owner", "Bo"), answer.getMetadata().getProperties());
        registry.reset();
        same(Map.of("owner", "Bo"), registry.getSchemaById(answer.getId()).metadata().getProperties());
        same(4, registry.getLatestWithMetadata(SUBJECT, Map.of("owner", "Bo"), false).getVersion());
    }

    static AvroSchema with(Map<String, String> properties) {
        Metadata metadata = new Metadata(null, properties, null);
        return new AvroSchema(ORDER, List.of(), Map.of(), metadata, null, null, false);
    }

    /** Settings, and a subject that is deleted softly, then for good. */
    static void remove(SchemaRegistryClient registry) throws Exception {
        same("FULL", registry.updateCompatibility(REFERRING, "FULL"));
        same("FULL", registry.getCompatibility(REFERRING));
        same("BACKWARD", registry.getCompatibility(null));
        refused(404, 40405, () -> registry.deleteSubject(REFERRING, true));
        same(List.of(1), registry.deleteSubject(REFERRING));
        same(Set.of(SUBJECT), Set.copyOf(registry.getAllSubjects()));
        same(List.of(1), registry.deleteSubject(REFERRING, true));
        same(4, registry.deleteSchemaVersion(SUBJECT, "4"));
        same(List.of(1, 2, 3), registry.getAllVersions(SUBJECT));
    }

    static SchemaRegistryClient client(String url) {
        return new CachedSchemaRegistryClient(url, 100);
    }

    static String record(String name, String field, String type) {
        return "{\"type\":\"record\",\"name\":\"" + name + "\",\"fields\":[{\"name\":\"" + field
            + "\",\"type\":" + type + "}]}";
    }

    /** Byte 0, the id of the schema, and the value in Avro. */
    static byte[] written(int id, Schema schema, long value) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(0);
        new DataOutputStream(out).writeInt(id);
        GenericRecord order = new GenericData.Record(schema);
        order.put("id", value);
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(schema).write(order, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    static Object read(SchemaRegistryClient registry, byte[] value) throws Exception {
        ByteBuffer head = ByteBuffer.wrap(value);
        same((byte) 0, head.get());
        Schema schema = ((AvroSchema) registry.getSchemaById(head.getInt())).rawSchema();
        return new GenericDatumReader<GenericRecord>(schema).read(
            null, DecoderFactory.get().binaryDecoder(value, head.position(), head.remaining(), null)).get("id");
    }

    static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    static void refused(int status, int code, Request request) throws Exception {
        try {
            throw new AssertionError("not refused: " + request.send());
        } catch (RestClientException refusal) {
            same(status + " " + code, refusal.getStatus() + " " + refusal.getErrorCode());
        }
    }
}
