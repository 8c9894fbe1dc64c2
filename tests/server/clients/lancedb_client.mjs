// Uses a REST namespace by the npm package @lancedb/lancedb. Arguments: the server's URL and a namespace that exists.
import assert from "node:assert/strict";
import { connectNamespace } from "@lancedb/lancedb";

const [uri, space] = process.argv.slice(2);
const database = await connectNamespace("rest", { uri });

await database.createNamespace([space, "inner"]);
assert.deepEqual((await database.listNamespaces([space])).namespaces, ["inner"]);

const rows = [
  { id: 1, text: "red apple", vector: [1, 0] },
  { id: 2, text: "green pear", vector: [0, 1] },
  { id: 3, text: "blue plum", vector: [1, 1] },
];
const path = [space, "inner"];
let table = await database.createTable("fruit", rows, path);
await table.add([{ id: 4, text: "black cherry", vector: [0, 0] }]);
await table.update({ where: "id = 1", values: { text: "pink apple" } });
await table.delete("id = 2");

table = await database.openTable("fruit", path);
assert.equal(await table.countRows(), 3);
const near = await table.search([1, 0.1]).limit(1).toArray();
assert.equal(near[0].text, "pink apple");
assert.equal((await table.query().where("id > 3").toArray()).length, 1);
assert.deepEqual(await database.tableNames(path), ["fruit"]);

await database.dropTable("fruit", path);
assert.deepEqual(await database.tableNames(path), []);
await database.dropNamespace(path);
console.log("done");
