// A source connector of Kafka Connect for tests: the rows of a table in the order of a column that grows with each
// insert. Its offset is the last value of that column, so with exactly.once.source.support each row arrives once.
// Settings: connection.url, table, column, topic.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

public class JdbcRows extends SourceConnector {
    static final String URL = "connection.url";
    static final String TABLE = "table";
    static final String COLUMN = "column";
    static final String TOPIC = "topic";
    private Map<String, String> settings;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        ConfigDef known = new ConfigDef();
        for (String name : List.of(URL, TABLE, COLUMN, TOPIC)) {
            known.define(name, ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, name);
        }
        return known;
    }

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Rows.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(settings); // one table, one task
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public void stop() {
    }

    public static class Rows extends SourceTask {
        static final int MOST_ROWS = 100;
        static final long PAUSE_MS = 100;
        private Map<String, String> settings;
        private Connection database;
        private long last = Long.MIN_VALUE;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> given) {
            settings = given;
            Map<String, Object> stored = context.offsetStorageReader().offset(source());
            if (stored != null) {
                last = ((Number) stored.get(settings.get(COLUMN))).longValue();
            }
        }

        Map<String, String> source() {
            return Map.of(TABLE, settings.get(TABLE));
        }

        /** The next rows; null if there are none now. */
        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            List<SourceRecord> found = new ArrayList<>();
            try {
                if (database == null) {
                    database = DriverManager.getConnection(settings.get(URL));
                }
                last = read(found);
            } catch (SQLException failure) {
                stop(); // the next try makes another connection
                Thread.sleep(PAUSE_MS);
                throw new RetriableException(failure);
            }
            if (found.isEmpty()) {
                Thread.sleep(PAUSE_MS);
                return null;
            }
            return found;
        }

        /** Adds the next rows; returns the value of the last one, from which the next query goes on. */
        private long read(List<SourceRecord> found) throws SQLException {
            long reached = last;
            String column = settings.get(COLUMN);
            String query = "SELECT * FROM " + settings.get(TABLE) + " WHERE " + column + " > ? ORDER BY " + column;
            try (PreparedStatement statement = database.prepareStatement(query)) {
                statement.setMaxRows(MOST_ROWS);
                statement.setLong(1, last);
                try (ResultSet rows = statement.executeQuery()) {
                    Schema schema = schema(rows.getMetaData());
                    while (rows.next()) {
                        reached = rows.getLong(column);
                        found.add(new SourceRecord(source(), Map.of(column, reached), settings.get(TOPIC),
                            Schema.INT64_SCHEMA, reached, schema, row(schema, rows)));
                    }
                }
            }
            return reached;
        }

        /** Whole numbers, fractions, and text for all else. */
        private Schema schema(ResultSetMetaData columns) throws SQLException {
            SchemaBuilder builder = SchemaBuilder.struct().name(settings.get(TABLE));
            for (int number = 1; number <= columns.getColumnCount(); number++) {
                builder.field(columns.getColumnName(number), switch (columns.getColumnType(number)) {
                    case Types.SMALLINT, Types.INTEGER, Types.BIGINT -> Schema.OPTIONAL_INT64_SCHEMA;
                    case Types.REAL, Types.FLOAT, Types.DOUBLE -> Schema.OPTIONAL_FLOAT64_SCHEMA;
                    default -> Schema.OPTIONAL_STRING_SCHEMA;
                });
            }
            return builder.build();
        }

        private Struct row(Schema schema, ResultSet rows) throws SQLException {
            Struct row = new Struct(schema);
            for (int number = 1; number <= schema.fields().size(); number++) {
                Object value = switch (schema.fields().get(number - 1).schema().type()) {
                    case INT64 -> rows.getLong(number);
                    case FLOAT64 -> rows.getDouble(number);
                    default -> rows.getString(number);
                };
                row.put(schema.fields().get(number - 1), rows.wasNull() ? null : value);
            }
            return row;
        }

        @Override
        public void stop() {
            try (Connection open = database) {
                database = null;
            } catch (SQLException ended) {
                // nothing is lost: it only reads
            }
        }
    }
}
