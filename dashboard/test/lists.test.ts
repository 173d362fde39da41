import assert from "node:assert/strict";
import { test } from "node:test";
import { best, score } from "../src/fuzzy.ts";
import { fixedList, List, MAX_ROWS } from "../src/lists.ts";
import { sparkPaths } from "../src/parts/spark.tsx";
import { rowsSeen } from "../src/parts/windowed.ts";

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
