import assert from "node:assert/strict";
import { test } from "node:test";
import { compactJson } from "../src/json_text.ts";
import { placeOf, placeOfProblem } from "../src/json_places.ts";
import {
  definitionOf,
  draftForEvent,
  draftFrom,
  essence,
  fitsForm,
  matchesAll,
  withClause,
} from "../src/trigger_draft.ts";

const DEFINITION = {
  on: { type: ["order.received"], data: { amount: [{ numeric: [">", 100] }] } },
  when: null,
  function: "parse",
  input: { raw: "{{ data }}" },
  pass: "event",
  guards: { rate: 60 },
  flow: {},
  compensate: true,
};

test("a definition that is shown and not changed is the same definition", () => {
  const { definition, faults } = definitionOf(draftFrom(DEFINITION));
  assert.deepEqual(faults, []);
  assert.deepEqual(essence(definition), essence(DEFINITION));
  assert.equal(definition["compensate"], true);
});

test("a composite stays a composite", () => {
  const composite = { composite: { all: [{ type: ["a"] }] }, on: null, function: "f" };
  assert.ok(fitsForm(composite));
  assert.deepEqual(definitionOf(draftFrom(composite)).definition, {
    composite: composite.composite,
    function: "f",
  });
});

test("a text that is no JSON is named, and the other fields stay", () => {
  const { definition, faults } = definitionOf({ ...draftFrom(DEFINITION), input: "{" });
  assert.deepEqual(
    faults.map((one) => one.field),
    ["input"],
  );
  assert.equal(definition["function"], "parse");
});

test("a chosen value of an event becomes a clause; places in lists are left out", () => {
  let on: unknown = { type: ["order.received"] };
  on = withClause(on, "data.customer.country", "DE");
  on = withClause(on, "data.items[3].sku", "A1");
  on = withClause(on, "data.customer.country", "FR");
  on = withClause(on, "data.customer.country", "FR");
  on = withClause(on, 'data["a.b"]', null);
  assert.deepEqual(on, {
    type: ["order.received"],
    data: { customer: { country: ["DE", "FR"] }, items: { sku: ["A1"] }, "a.b": [null] },
  });
});

test("an empty pattern is known as one that matches everything", () => {
  assert.ok(matchesAll({ on: {}, function: "f" }));
  assert.ok(!matchesAll({ on: { type: ["a"] }, function: "f" }));
  assert.ok(!matchesAll(definitionOf(draftForEvent("a")).definition));
});

test("the place of a fault is the line of the deepest member that is there", () => {
  const text = compactJson(DEFINITION.on, "", 30);
  const lines = text.split("\n");
  const line = (pointer: string) => lines[(placeOf(text, pointer)?.line ?? 0) - 1]?.trim();
  assert.equal(line("/data/amount"), '"amount": [{"numeric": [">", 100]}]');
  assert.equal(line("/type/0"), '"type": ["order.received"],');
  assert.equal(line("/data/nothing"), '"data": {');
  assert.equal(placeOf("", "/a"), null);
  assert.deepEqual(placeOf('{"a/b": 1,\n "c": {"d": [1, 2]}}', "/c/d/1"), { line: 2, column: 16 });
  for (const broken of ["{", '{"a"', '{"a": [1,', "{a: 1}", '"', "[[[["]) placeOf(broken, "/a/0/b");
});

test("the message of a broken text is put where it says", () => {
  let message = "";
  const text = '{"a": 1,\n  b}';
  try {
    JSON.parse(text);
  } catch (error) {
    message = String(error);
  }
  assert.equal(placeOfProblem(text, message).line, 2);
});
