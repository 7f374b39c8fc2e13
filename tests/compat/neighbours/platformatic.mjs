// Writes 100 records and reads them back in a group: node platformatic.mjs BOOTSTRAP TOPIC
import { createRequire } from "node:module";

// a module's own imports do not look at NODE_PATH, those of require do
const require = createRequire(import.meta.url);
const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = require("@platformatic/kafka");

const [bootstrap, topic] = process.argv.slice(2);
const common = { clientId: "of-js", bootstrapBrokers: [bootstrap] };

const admin = new Admin(common);
await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 });
await admin.close();

const producer = new Producer({ ...common, serializers: stringSerializers, idempotent: true });
const messages = [...Array(100).keys()].map((n) => ({ topic, key: `${n % 7}`, value: `${n}` }));
await producer.send({ messages, acks: -1 });
await producer.close();

const consumer = new Consumer({ ...common, groupId: "platformatic", deserializers: stringDeserializers });
const stream = await consumer.consume({ topics: [topic], mode: "earliest", autocommit: false });
const seen = new Set();
for await (const message of stream) {
  seen.add(message.value);
  await message.commit();
  if (seen.size === 100) break;
}
await consumer.close(true);
