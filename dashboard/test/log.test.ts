import assert from "node:assert/strict";
import { test } from "node:test";
import { entries, keyOf, type KnownLines, NO_LINES, withPart, withStreamed } from "../src/log_lines.ts";
import { entryRows, wrapped } from "../src/log_rows.ts";
import type { LogLine } from "../src/rows.ts";

const line = (fence: number, seq: number, text = `line ${seq}`): LogLine => ({
  fence, seq, text, stream: "stdout", level: "info", offset_seconds: seq / 10,
});
const part = (fence: number, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => line(fence, from + at));
const gaps = (known: KnownLines, fence: number | null = null) =>
  entries(known, fence).flatMap(({ line: at, gap }) => (gap ? [[keyOf(at), gap.after, gap.most]] : []));

test("lines are missing between the first and the last ones until they are read", () => {
  let known = withPart(NO_LINES, part(1, 2001, 3000), "unknown");
  assert.deepEqual(gaps(known), [["1.2001", null, null]]);
  assert.deepEqual(gaps(known, 1), [["1.2001", null, 2000]]);
  known = withPart(known, part(1, 1, 1500), "log");
  assert.deepEqual(gaps(known), [["1.2001", "1.1500", 500]]);
  known = withPart(known, part(1, 1501, 2100), { line: "1.1500" });
  assert.deepEqual(gaps(known), []);
  assert.equal(known.lines.length, 3000);
});

test("the end of an earlier attempt may be missing before the first line of the next one", () => {
  const known = withPart(withPart(NO_LINES, part(2, 1, 1000), "unknown"), part(1, 1, 1000), "log");
  assert.deepEqual(gaps(known), [["2.1", "1.1000", null]]);
  // An attempt that was read alone from its first line has no gap of its own.
  assert.deepEqual(gaps(withPart(NO_LINES, part(2, 1, 9), "attempt"), 2), []);
  assert.deepEqual(gaps(withPart(NO_LINES, part(2, 1, 9), "attempt")), [["2.1", null, null]]);
  assert.deepEqual(gaps(withPart(NO_LINES, part(1, 1, 9), "log")), []);
});

test("lines of the stream follow those that are here, unless some were left out", () => {
  const known = withPart(NO_LINES, part(1, 1, 5), "log");
  const next = withStreamed(known, part(1, 6, 7));
  assert.deepEqual(gaps(next), []);
  assert.deepEqual(gaps(withStreamed(next, part(2, 1, 2))), []);
  assert.deepEqual(gaps(withStreamed(next, part(1, 10, 11))), [["1.10", "1.7", 2]]);
  assert.equal(withStreamed(next, part(1, 6, 7)).lines.length, 7);
});

test("numbers that a log policy has left out are no gap once both sides were read in one answer", () => {
  assert.deepEqual(gaps(withPart(NO_LINES, [line(1, 3), line(1, 9)], "log")), []);
});

test("a long line goes on in further rows, with its colours and nothing lost", () => {
  const rows = wrapped([{ text: "abc", classes: "" }, { text: "defgh", classes: "tone-bad" }], 4);
  assert.deepEqual(rows, [
    [{ text: "abc", classes: "" }, { text: "d", classes: "tone-bad" }],
    [{ text: "efgh", classes: "tone-bad" }],
  ]);
  assert.deepEqual(wrapped([{ text: "漢字x", classes: "" }], 4).map((row) => row.map((one) => one.text).join("")), ["漢字", "x"]);
  assert.equal(wrapped([{ text: "x".repeat(500), classes: "" }], null).length, 1);
});

test("an entry of several lines folds, and each of its rows but the first continues it", () => {
  const long = line(1, 1, "a\nb\nc\nd\n");
  assert.deepEqual(entryRows(long, false, null).map((row) => [row.folded, row.first]), [[3, true]]);
  assert.deepEqual(entryRows(long, true, null).map((row) => row.first), [true, false, false, false]);
  assert.equal(entryRows(line(1, 1, "x".repeat(250)), false, 100).length, 3);
});
