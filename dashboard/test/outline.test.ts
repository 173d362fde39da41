import assert from "node:assert/strict";
import { test } from "node:test";
import { jointsOf, layoutTree } from "../src/layout/tree.ts";
import { forestOf, leftOut, outlineRows, waysToFailures } from "../src/outline_rows.ts";
import { criticalPath } from "../src/parts/trace.tsx";
import { node } from "../src/stories/rows.ts";

test("lines stand below their parent, and a folded one hides what is below", () => {
  const forest = forestOf([node("a", null), node("b", "a"), node("c", "b"), node("d", "a")]);
  assert.deepEqual(outlineRows(forest, new Set()).map((row) => [row.node.id, row.depth]), [["a", 0], ["b", 1], ["c", 2], ["d", 1]]);
  assert.deepEqual(outlineRows(forest, new Set(["b"])).map((row) => row.node.id), ["a", "b", "d"]);
});

test("a node whose parent is not here is a root and not lost", () => {
  assert.deepEqual(outlineRows(forestOf([node("x", "gone")]), new Set()).map((row) => row.node.id), ["x"]);
});

test("failed only shows the ways to what failed, also below what was left out", () => {
  const nodes = [node("a", null), node("b", "a"), node("c", "b", { state: "failed" }), node("d", "a"), node("e", "a", { worst: "dead" })];
  assert.deepEqual([...waysToFailures(nodes)].sort(), ["a", "b", "c", "e"]);
});

test("a chain of 20,000 does not end the stack", () => {
  const nodes = Array.from({ length: 20_000 }, (_, at) => node(String(at), at ? String(at - 1) : null));
  assert.equal(outlineRows(forestOf(nodes), new Set()).length, 20_000);
  assert.equal(layoutTree(nodes).columns, 20_000);
});

test("a tree of 5,000 is laid out in time, a parent in the middle of its children, no two boxes in one place", () => {
  const nodes = Array.from({ length: 5000 }, (_, at) => node(String(at), at ? String(Math.floor((at - 1) / 3)) : null));
  const began = process.cpuUsage();
  const { boxes } = layoutTree(nodes);
  assert.ok(process.cpuUsage(began).user < 500_000);
  assert.equal(new Set(boxes.map((box) => `${box.x}/${box.y}`)).size, 5000);
  const places = new Map(boxes.map((box) => [box.id, box]));
  assert.equal(places.get("0")?.y, ((places.get("1")?.y ?? 0) + (places.get("3")?.y ?? 0)) / 2);
});

test("the critical path leads to the latest end", () => {
  const row = (id: string, parent: string | null, end: number) => ({
    id, parent, depth: 0, label: id, text: id, start: 0, running: 0, end, tone: "ok",
  });
  const path = criticalPath([row("a", null, 1), row("b", "a", 5), row("c", "a", 3), row("d", "c", 9)]);
  assert.deepEqual([...path], ["a", "c", "d"]);
});

test("a joined match has a line to its execution, unless that is in another tree", () => {
  const nodes = [
    node("e", null, { kind: "event" }),
    node("x", "e"),
    node("t:e", "e", { kind: "joined", execution_id: "x" }),
    node("u:e", "e", { kind: "joined", execution_id: "elsewhere" }),
    node("v:e", "e", { kind: "suppressed", execution_id: null }),
  ];
  assert.deepEqual(jointsOf(nodes), [{ from: "t:e", to: "x" }]);
});

test("what is not among the nodes is counted, of failures only where a bad end is not", () => {
  const nodes = [node("a", null, { left_out: 30 }), node("b", "a", { left_out: 2, worst: "failed" }), node("c", "a")];
  assert.equal(leftOut(nodes), 32);
  assert.equal(leftOut(nodes, true), 2);
});
