import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf, segmentsOf, ticksOf } from "../src/axis.ts";

const hour = 3_600_000;

test("attempts three hours apart leave room for what happened in each", () => {
  const segments = segmentsOf([
    { start: 0, end: 100 },
    { start: 3 * hour, end: 3 * hour + 100 },
  ]);
  assert.equal(segments.filter((one) => one.broken).length, 1);
  assert.ok(placeOf(100, segments) - placeOf(0, segments) > 0.4);
  assert.ok(placeOf(3 * hour + 100, segments) - placeOf(3 * hour, segments) > 0.4);
});

test("work without long gaps keeps one straight axis", () => {
  const intervals = Array.from({ length: 50 }, (_, at) => ({ start: at * 10, end: at * 10 + 8 }));
  assert.deepEqual(segmentsOf(intervals).map((one) => one.broken), [false]);
});

test("places grow with the time and fill the width, whatever the intervals are", () => {
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  for (let round = 0; round < 200; round++) {
    const intervals = Array.from({ length: 1 + Math.floor(random() * 30) }, () => {
      const start = random() ** 6 * 1e9;
      return { start, end: start + random() ** 4 * 1e6 };
    });
    const segments = segmentsOf(intervals);
    const times = intervals.flatMap((one) => [one.start, one.end]).sort((a, b) => a - b);
    const places = times.map((time) => placeOf(time, segments));
    places.forEach((place, at) => {
      assert.ok(place >= -1e-9 && place <= 1 + 1e-9, String(place));
      if (at) assert.ok(place >= (places[at - 1] as number) - 1e-9);
    });
    assert.ok(Math.abs((segments.at(-1)?.to ?? 0) - 1) < 1e-9);
  }
});

test("ticks never write over each other", () => {
  const ticks = ticksOf(segmentsOf([{ start: 0, end: 220 }]), 2);
  assert.ok(ticks.length >= 1 && ticks.length <= 4);
  ticks.forEach((tick, at) => at && assert.ok(tick.place - (ticks[at - 1]?.place ?? 0) > 0.2));
});

test("one instant is an axis too", () => {
  assert.equal(segmentsOf([{ start: 5, end: 5 }]).length, 1);
  assert.ok(ticksOf(segmentsOf([{ start: 5, end: 5 }])).length >= 1);
  assert.equal(segmentsOf([]).length, 1);
});
