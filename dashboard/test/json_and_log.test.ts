import assert from "node:assert/strict";
import { test } from "node:test";
import { ansiPieces } from "../src/ansi.ts";
import { duration, nameText, percent, plural } from "../src/format.ts";
import { countNodes, jsonLines, MAX_BYTES, pathOf, readJson } from "../src/json_lines.ts";

test("a path is written as patterns write it", () => {
  const { lines } = jsonLines({ items: [{ "a b": 1 }] }, new Set(), "data", 9);
  assert.equal(lines.at(-1)?.path, 'data.items[0]["a b"]');
  assert.equal(pathOf("data", "amount"), "data.amount");
});

test("a large value gives 200 lines, and a huge one is counted no further than the limit", () => {
  const { lines, more } = jsonLines(Array.from({ length: 20_000 }, (_, at) => at), new Set());
  assert.ok(lines.length <= 200);
  assert.equal(more, true);
  assert.equal(countNodes(Array.from({ length: 1_000_000 }, () => 1)), 20_001);
  assert.equal(countNodes({ a: [1, 2], b: null }), 5);
});

test("a payload that is too large for a tree is its beginning and its size, and is not parsed further", () => {
  assert.deepEqual(readJson('{"a": 1}'), { large: false, value: { a: 1 } });
  const long = readJson(JSON.stringify("x".repeat(MAX_BYTES)));
  assert.ok(long.large && long.size > MAX_BYTES && long.beginning.length === 16_000);
  assert.equal(readJson(JSON.stringify(Array.from({ length: 30_000 }, () => 1))).large, true);
  assert.throws(() => readJson("{"), SyntaxError);
});

test("redacted values are no objects", () => {
  assert.equal(jsonLines({ a: { redacted: "payload:read" } }, new Set()).lines[0]?.kind, "redacted");
});

test("colours become tones, other sequences are gone, control characters are shown", () => {
  assert.deepEqual(ansiPieces("\u001b[31mred\u001b[0m plain"), [
    { text: "red", classes: "tone-bad" },
    { text: " plain", classes: "" },
  ]);
  assert.deepEqual(ansiPieces("\\x1b[33;1mw\\x1b[0m"), [{ text: "w", classes: "tone-warn bold" }]);
  assert.deepEqual(ansiPieces("a\u001b]0;title\u0007b\u001b[2J"), [{ text: "a", classes: "" }, { text: "b", classes: "" }]);
  assert.equal(ansiPieces("bell\u0007")[0]?.text, "bell\\x07");
});

test("a name cannot hide its direction or break the line", () => {
  assert.equal(nameText("evil\u202etxt.exe"), "evil⟨RLO⟩txt.exe");
  assert.equal(nameText("a\nb\u0000c"), "a b c");
  assert.equal(nameText("x".repeat(500)).length, 200);
});

test("durations are written in the unit that one reads", () => {
  assert.deepEqual(
    [0.00046, 0.026, 1.24, 59.99, 192, 7500, 97_200, -1, null].map(duration),
    ["0.5 ms", "26 ms", "1.24 s", "59.99 s", "3 m 12 s", "2 h 5 m", "1 d 3 h", "0 ms", ""],
  );
  assert.equal(percent(412, 13_290), "3.1 %");
  assert.equal(plural(1204, "execution"), "1,204 executions");
});
