// Registers an Avro schema, writes a value with its id and reads one of another client:
// node kafkajs_registry.js URL VALUE (both values in hex)
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");

const schema = (type) =>
  JSON.stringify({ type: "record", name: "Order", fields: [{ name: "id", type }] });
const subject = "js-value";

async function main([host, value]) {
  const registry = new SchemaRegistry({ host });
  const { id } = await registry.register({ type: SchemaType.AVRO, schema: schema("long") }, { subject });
  const found = await registry.getRegistryIdBySchema(subject, {
    type: SchemaType.AVRO,
    schema: schema("long"),
  });
  if (found !== id || (await registry.getLatestSchemaId(subject)) !== id) throw new Error(`id ${found}`);
  await registry.register({ type: SchemaType.AVRO, schema: schema("string") }, { subject }).then(
    () => {
      throw new Error("another type is compatible");
    },
    (error) => {
      if (!/incompatible/i.test(error.message)) throw error;
    },
  );
  const written = await registry.encode(id, { id: 8 });
  const read = await registry.decode(Buffer.from(value, "hex"));
  console.log(written.toString("hex"), read.id);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
