import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldOf, initial, member, type Schema, typedJson, typedNumber, withMember } from "../src/json_form.ts";

const SCHEMA: Schema = {
  type: "object",
  properties: {
    title: { type: "string" },
    kind: { enum: ["short", "long"], default: "short" },
    point: { $ref: "#/$defs/point" },
    loop: { $ref: "#/$defs/loop" },
    extra: { anyOf: [{ type: "object", title: "details" }, { type: "null" }] },
    any: {},
  },
  required: ["title", "point"],
  $defs: {
    point: { type: "object", properties: { x: { type: "integer", default: 0 }, y: { type: "number" } } },
    loop: { $ref: "#/$defs/loop" },
  },
};

test("each kind of schema is asked for by a field of its own", () => {
  const kinds = Object.entries(SCHEMA.properties ?? {}).map(([name, one]) => [name, fieldOf(one, SCHEMA).kind]);
  assert.deepEqual(kinds, [
    ["title", "text"],
    ["kind", "enum"],
    ["point", "object"],
    ["loop", "json"],
    ["extra", "oneOf"],
    ["any", "json"],
  ]);
});

test("a form begins with defaults, and gives nothing that nobody has chosen", () => {
  assert.deepEqual(initial(SCHEMA, SCHEMA), { kind: "short", point: { x: 0 } });
});

test("what is no number stays the text that was typed, so that the server says what is wrong", () => {
  assert.deepEqual(["12", "-1.5e3", " 7 ", "", "abc", "012", "1,5"].map(typedNumber), [
    12,
    -1500,
    7,
    undefined,
    "abc",
    "012",
    "1,5",
  ]);
});

test("JSON is read as typed; nothing typed is nothing given", () => {
  assert.deepEqual(typedJson('{"a": 1}'), { value: { a: 1 } });
  assert.deepEqual(typedJson("  "), {});
  assert.ok(typedJson("{a").problem);
});

test("a member with a hostile name changes the value and nothing else", () => {
  const value = withMember({ a: 1 }, "__proto__", 2);
  assert.deepEqual(Object.keys(value), ["a", "__proto__"]);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  assert.deepEqual(withMember(value, "a", undefined), JSON.parse('{"__proto__": 2}'));
});

test("pointers of members are escaped", () => {
  assert.equal(member("/a", "b/c~d"), "/a/b~1c~0d");
});
