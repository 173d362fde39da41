import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { best, score } from "../src/fuzzy.ts";
import { fixedList, List, MAX_ROWS } from "../src/lists.ts";
import { acceptsRow } from "../src/pages/executions.tsx";
import { sparkPaths } from "../src/parts/spark.tsx";
import { rowsSeen } from "../src/parts/windowed.ts";
import type { ExecutionRow } from "../src/rows.ts";

interface Row {
  readonly id: string;
  readonly state: string;
}
const row = (n: number, state = "queued"): Row => ({ id: String(n).padStart(6, "0"), state });

function list(rows: readonly Row[]): List<Row> {
  const made = new List<Row>({ path: "/x", key: (one) => one.id, accepts: (one) => one.state !== "other" });
  made.rows.value = rows;
  made.loaded.value = true;
  return made;
}

test("a row that changed is replaced in place, twice is harmless", () => {
  const one = list([row(2), row(1)]);
  one.apply([row(1, "failed")], true);
  one.apply([row(1, "failed")], true);
  assert.deepEqual(one.rows.value, [row(2), row(1, "failed")]);
});

test("new rows wait while one reads further down, and go to the top by a click", () => {
  const one = list([row(1)]);
  one.active.value = 1;
  one.apply([row(3), row(2)], false);
  assert.equal(one.rows.value.length, 1);
  assert.equal(one.fresh.value.length, 2);
  one.apply([row(3, "failed")], false);
  assert.equal(one.fresh.value.length, 2);
  one.showFresh();
  assert.deepEqual(one.rows.value.map((each) => each.id), ["000003", "000002", "000001"]);
  assert.equal(one.rows.value[0]?.state, "failed");
  assert.equal(one.active.value, 3);
});

test("rows that are new in an answer wait as well while one reads further down", async (context) => {
  const one = list([row(2), row(1)]);
  const items = [row(4), row(3), row(2, "failed"), row(1)];
  context.mock.method(globalThis, "fetch", async () => Response.json({ items, next: null }));
  await one.reload(false);
  assert.deepEqual(one.rows.value, [row(2, "failed"), row(1)]);
  assert.deepEqual(one.fresh.value, [row(4), row(3)]);
  await one.reload();
  assert.deepEqual([one.rows.value, one.fresh.value], [items, []]);
  // None of what is shown is left: it is another list.
  one.rows.value = [row(9)];
  await one.reload(false);
  assert.deepEqual(one.rows.value, items);
});

/** Answers with these pages one after another, by cursors that are their places. Returns the limits that were asked for. */
function serve(context: TestContext, pages: readonly (readonly Row[])[]): { limits: number[]; asked: string[] } {
  const limits: number[] = [];
  const asked: string[] = [];
  context.mock.method(globalThis, "fetch", async (url: string) => {
    const query = new URL(url, "http://x").searchParams;
    const before = query.get("before") ?? "0";
    const at = Number(before);
    limits.push(Number(query.get("limit")));
    asked.push(before);
    return Response.json({ items: pages[at], next: at + 1 < pages.length ? String(at + 1) : null });
  });
  return { limits, asked };
}

const few = (n: number, from = 0) => Array.from({ length: n }, (_, at) => row(900_000 - from - at));

test("a list looks behind empty pages, and says when it has stopped before the end", async (context) => {
  const { asked } = serve(context, [[], [], [row(9)], [], [], [], [], [], [], [row(8)]]);
  const one = list([]);
  one.loaded.value = false;
  await one.reload();
  assert.deepEqual(one.rows.value, [row(9)]);
  assert.deepEqual([one.paused.value, one.complete.value], [false, false]);
  // Five more pages have nothing: older ones are read when one asks for them.
  await one.more();
  assert.deepEqual([one.rows.value, one.paused.value, one.complete.value], [[row(9)], true, false]);
  assert.equal(asked.length, 8);
  await one.more();
  assert.deepEqual([one.rows.value, one.paused.value, one.complete.value], [[row(9), row(8)], false, true]);
  // Fetched anew it looks as far as it has looked before.
  await one.reload();
  assert.deepEqual([one.rows.value, one.paused.value, one.complete.value], [[row(9), row(8)], false, true]);
});

test("a list without a row among the newest is empty only when there is no page left", async (context) => {
  serve(context, [[], [], [], [], [], []]);
  const one = list([]);
  await one.reload();
  assert.deepEqual([one.paused.value, one.complete.value], [true, false]);
  await one.more();
  assert.deepEqual([one.paused.value, one.complete.value], [false, true]);
});

test("a list that is fetched anew keeps its length beyond one page", async (context) => {
  const parts = [few(1000), few(300, 1000), few(100, 1300)];
  const { limits } = serve(context, parts);
  const one = list(few(1300));
  await one.reload();
  assert.equal(one.rows.value.length, 1300);
  assert.deepEqual(limits, [1000, 300]);
  assert.deepEqual([one.paused.value, one.complete.value], [false, false]);
  // While one reads further down, what is new comes in addition.
  serve(context, [[row(900_001), ...few(999)], few(301, 999), few(100, 1300)]);
  await one.reload(false);
  assert.deepEqual(one.rows.value, few(1300));
  assert.equal(one.fresh.value.length, 1);
});

test("a list with more rows than it keeps says that it does not end there", async (context) => {
  const { limits } = serve(context, [few(MAX_ROWS), [row(1)]]);
  const one = list(few(MAX_ROWS - 50));
  await one.reload();
  assert.ok(one.full);
  await one.more();
  assert.deepEqual([one.rows.value.length, limits.length], [MAX_ROWS, 1]);
  // A complete list from which rows were dropped is complete no more.
  const other = list(few(MAX_ROWS));
  other.complete.value = true;
  assert.ok(!other.full);
  other.apply([row(900_001)], true);
  assert.deepEqual([other.rows.value.length, other.complete.value, other.full], [MAX_ROWS, false, true]);
});

test("the roots among live executions are those that the server calls roots", () => {
  const accepts = acceptsRow({ roots: "true" });
  const execution = (of: Partial<ExecutionRow>) => ({ id: "x", root_id: "x", event_id: null, ...of }) as ExecutionRow;
  assert.ok(accepts(execution({})));
  assert.ok(accepts(execution({ root_id: "e", event_id: "e" })));
  // Started by an event of another execution: it has no parent, and it is no root.
  assert.ok(!accepts(execution({ root_id: "r", event_id: "e", parent_id: null })));
});

test("rows of another filter do not come in", () => {
  const one = list([row(1)]);
  one.apply([row(2, "other")], true);
  assert.equal(one.rows.value.length, 1);
});

test("a burst keeps at most 5,000 rows and counts the rest", () => {
  const one = list([]);
  one.apply(Array.from({ length: MAX_ROWS + 250 }, (_, at) => row(at)), false);
  assert.equal(one.fresh.value.length, MAX_ROWS);
  assert.equal(one.skipped.value, 250);
  one.showFresh();
  assert.equal(one.rows.value.length, MAX_ROWS);
});

test("a range is selected both ways, and one more choice ends all of this filter", () => {
  const one = fixedList([row(3), row(2), row(1)], (each) => each.id);
  one.selectRange(2, 0);
  assert.equal(one.selected.value.size, 3);
  one.selectAll();
  one.select("000002", false);
  assert.equal(one.allSelected.value, false);
});

test("only the rows that are seen are drawn", () => {
  assert.deepEqual(rowsSeen(0, 640, 32, 100_000), { from: 0, to: 28 });
  assert.deepEqual(rowsSeen(32_000, 640, 32, 100_000), { from: 992, to: 1028 });
  assert.deepEqual(rowsSeen(9999, 640, 32, 3), { from: 3, to: 3 });
});

test("the palette prefers what begins with the letters, and finds letters in order", () => {
  assert.deepEqual(best("ord", ["big-orders", "order", "validate_order"], (one) => one, 3)[0], "order");
  assert.deepEqual(best("vo", ["order", "validate_order"], (one) => one, 3), ["validate_order"]);
  assert.equal(score("xyz", "order"), null);
});

test("a number without neighbours is a dot of a spark, also when it is the only one", () => {
  assert.deepEqual(sparkPaths([3]), { lines: "", dots: "M50 2h.01" });
  assert.deepEqual(sparkPaths([null, 2, null, 1, 0]), { lines: "M75 12.5L100 23", dots: "M25 2h.01" });
});

test("new rows wait while a row is expanded, also at the top", () => {
  const one = list([row(1)]);
  assert.ok(one.atTop);
  one.expanded.value = "000001";
  assert.ok(!one.atTop);
});
