import assert from "node:assert/strict";
import { test } from "node:test";
import { StringStream } from "@codemirror/language";
import { fieldsOf, type Word, wordsFor } from "../src/completions.ts";
import { celToken } from "../src/editor/cel.ts";
import { changeBetween } from "../src/editor/editor.ts";
import { nameIn } from "../src/source_name.ts";

function tokens(...lines: string[]): string[] {
  const state = { open: null };
  return lines.flatMap((line) => {
    const found: string[] = [];
    const stream = new StringStream(line, 4, 2);
    while (!stream.eol()) {
      stream.start = stream.pos;
      const kind = celToken(stream, state);
      if (kind) found.push(`${kind} ${stream.current()}`);
    }
    return found;
  });
}

test("CEL is told apart: variables, functions, numbers, strings, operators", () => {
  assert.deepEqual(tokens(`has(data.stock) && data.stock < 3.5 || 'x\\'y' in event.tags // why`), [
    "keyword has",
    "variableName.special data",
    "variableName stock",
    "operator &&",
    "variableName.special data",
    "variableName stock",
    "operator <",
    "number 3.5",
    "operator ||",
    "string 'x\\'y'",
    "atom in",
    "variableName.special event",
    "variableName tags",
    "comment // why",
  ]);
});

test("a string in three quotes goes over lines, and ends", () => {
  assert.deepEqual(tokens('"""one', 'two""" == data'), [
    'string """',
    "string one",
    'string two"""',
    "operator ==",
    "variableName.special data",
  ]);
});

test("the fields that are completed are those of the event that was seen", () => {
  const words = fieldsOf({ amount: 1, customer: { "first name": "x", country: "DE" }, items: [{ sku: 1 }] });
  assert.deepEqual(
    words.map((one) => `${one.label} ${one.detail}`),
    ["data.amount 1", "data.customer object", 'data.customer.country "DE"', "data.items list"],
  );
});

test("in a pattern, types are offered for the type and functions for the function", () => {
  const words: Word[] = [
    { label: "order.received", kind: "type" },
    { label: "parse", kind: "function" },
    { label: "data.amount", kind: "field" },
  ];
  const labels = (before: string) => wordsFor("json", before, words).map((one) => one.label);
  assert.deepEqual(labels('{"type": ["ord'), ["order.received"]);
  assert.deepEqual(labels('{"function": "pa'), ["parse"]);
  assert.deepEqual(labels('{"type": ["a"], "data": {"am'), ["amount"]);
  assert.deepEqual(labels('{"input": {"x": "{{ da'), ["data.amount"]);
  assert.deepEqual(labels('{"type": ["a"], '), []);
  assert.deepEqual(wordsFor("cel", "data.", words).length, 3);
});

test("a text from outside is put in by the smallest change", () => {
  assert.equal(changeBetween("abc", "abc"), null);
  assert.deepEqual(changeBetween("abc", "abXc"), { from: 2, to: 2, insert: "X" });
  assert.deepEqual(changeBetween("aa", "aaa"), { from: 2, to: 2, insert: "a" });
  assert.deepEqual(changeBetween("", "x"), { from: 0, to: 0, insert: "x" });
});

test("a new function is named after the first one in its source", () => {
  assert.equal(nameIn("import a\nasync def go(x):\n    def inner(): ...\n"), "go");
  assert.equal(nameIn("x = 1\n"), "");
});
