// Makes, lists or deletes ACLs: node kafkajs_acls.js BOOTSTRAP create|describe|delete ROWS
// A row: resource type, name, pattern type, principal, host, operation, permission
const { Kafka, logLevel } = require("kafkajs");

function acl([resourceType, resourceName, pattern, principal, host, operation, permissionType]) {
  const found = { resourceType, operation, permissionType };
  found.resourcePatternType = found.resourcePatternTypeFilter = pattern;
  return Object.assign(
    found,
    resourceName === null ? {} : { resourceName },
    principal === null ? {} : { principal },
    host === null ? {} : { host },
  );
}

const row = (one, each) => [
  one.resourceType,
  one.resourceName,
  one.resourcePatternType,
  each.principal,
  each.host,
  each.operation,
  each.permissionType,
];

async function main([bootstrap, what, rows]) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  const given = JSON.parse(rows).map(acl);
  let found = [];
  if (what === "create") {
    await admin.createAcls({ acl: given });
  } else if (what === "describe") {
    const { resources } = await admin.describeAcls(given[0]);
    found = resources.flatMap((one) => one.acls.map((each) => row(one, each)));
  } else {
    const { filterResponses } = await admin.deleteAcls({ filters: given });
    found = filterResponses.flatMap((one) => one.matchingAcls.map((each) => row(each, each)));
  }
  await admin.disconnect();
  console.log(JSON.stringify(found));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
