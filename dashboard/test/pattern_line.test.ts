import assert from "node:assert/strict";
import { test } from "node:test";
import { patternLine } from "../src/pattern_line.ts";

const line = (pattern: unknown) => patternLine(JSON.stringify(pattern));

test("types come first, then each clause with its path", () => {
  assert.equal(line({ subject: ["ada"], type: ["a.b", "c.d"] }), "a.b, c.d · subject ada");
  assert.equal(
    line({ type: ["stock.low"], data: { stock: [{ numeric: ["<", 5, ">=", 0] }], ok: [true, null] } }),
    "stock.low · data.stock < 5 and ≥ 0 · data.ok true, null",
  );
});

test("operators are named", () => {
  assert.equal(line({ type: [{ prefix: "order." }], data: { id: [{ exists: false }] } }), "prefix order. · data.id exists false");
});

test("what is no pattern of a type stays as it is", () => {
  for (const text of ['{"type":["a.b"],"data":{"wat', '{"all":[{}]}', '{"subject":["a"]}', "[1]", "null"])
    assert.equal(patternLine(text), text);
});
