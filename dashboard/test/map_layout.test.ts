import assert from "node:assert/strict";
import { test } from "node:test";
import { fitScale, LEAST_SCALE, layoutMap, type MapEdge, spread } from "../src/layout/map.ts";

const boxes = (...ids: string[]) => ids.map((id) => ({ id }));

test("a chain goes from left to right on one row", () => {
  const {
    boxes: placed,
    columns,
    rows,
  } = layoutMap({
    boxes: boxes("c", "a", "b"),
    edges: [
      { from: "a", to: "b" },
      { from: "b", to: "c" },
    ],
  });
  assert.deepEqual(Object.fromEntries(placed.map((one) => [one.id, one.x])), { a: 0, b: 1, c: 2 });
  assert.equal(columns, 3);
  assert.equal(rows, 1);
});

test("in a cycle exactly the closing edge goes back, and every edge keeps its own direction", () => {
  const edges = [
    { from: "start", to: "a" },
    { from: "a", to: "b" },
    { from: "b", to: "c" },
    { from: "c", to: "a" },
  ];
  const { ways, boxes: placed } = layoutMap({ boxes: boxes("a", "b", "c", "start"), edges });
  assert.deepEqual(
    ways.filter((way) => way.back).map((way) => `${way.from}>${way.to}`),
    ["c>a"],
  );
  const place = new Map(placed.map((one) => [one.id, one]));
  for (const way of ways) {
    assert.equal(way.points[0]?.x, place.get(way.from)?.x);
    assert.equal(way.points.at(-1)?.x, place.get(way.to)?.x);
  }
});

test("boxes never share a place; loops, doubles and unknown ends do no harm", () => {
  const edges: MapEdge[] = [
    { from: "a", to: "a" },
    { from: "a", to: "b" },
    { from: "a", to: "b" },
    { from: "b", to: "nothing" },
  ];
  const { boxes: placed, ways } = layoutMap({ boxes: boxes("a", "b", "c", "d"), edges });
  assert.equal(new Set(placed.map((one) => `${one.x}/${one.y}`)).size, 4);
  assert.equal(ways.length, 3);
});

test("the largest picture is laid out in a moment, without two boxes on one place", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  const many = Array.from({ length: 400 }, (_, at) => ({ id: String(at) }));
  const edges = Array.from({ length: 1200 }, () => ({ from: String(random(400)), to: String(random(400)) }));
  // Time of the processor: a busy machine takes longer.
  const started = process.cpuUsage();
  const { boxes: placed } = layoutMap({ boxes: many, edges });
  assert.ok(process.cpuUsage(started).user < 3_000_000);
  const rows = new Map<number, number[]>();
  for (const one of placed) rows.set(one.x, [...(rows.get(one.x) ?? []), one.y]);
  for (const column of rows.values()) {
    column.sort((a, b) => a - b);
    for (let at = 1; at < column.length; at++)
      assert.ok((column[at] as number) - (column[at - 1] as number) > 0.999, "boxes overlap");
  }
});

test("rows stay in their order and a row apart, as near to the wishes as that lets them", () => {
  assert.deepEqual(spread([0, 0, 0]), [-1, 0, 1]);
  assert.deepEqual(spread([0, 5, 9]), [0, 5, 9]);
  assert.deepEqual(spread([3, 1]), [1.5, 2.5]);
});

test("a picture is made as small as its room, but not smaller than can be read, and never larger", () => {
  assert.equal(fitScale(1000, 800), 0.8);
  assert.equal(fitScale(1000, 2000), 1);
  assert.equal(fitScale(1000, 300), LEAST_SCALE);
  assert.equal(fitScale(1000, 0), 1);
  assert.equal(fitScale(0, 800), 1);
});
