import { equal } from "node:assert/strict";
import { test } from "node:test";
import { ago, dollars } from "../src/format.ts";

test("a text that is no time is shown as it is", () => {
  equal(ago("no time", 0), "no time");
  equal(ago("1970-01-01T00:00:00Z", 90_000), "1 m ago");
});

test("an amount of money has as many digits as it needs to be seen", () => {
  // As functory.engine.agents.money.dollars prints them.
  const shown: readonly (readonly [number, string])[] = [
    [0, "$0.00"],
    [1204.5, "$1,204.50"],
    [2.5, "$2.50"],
    [0.05, "$0.05"],
    [0.0217, "$0.0217"],
    [0.000996, "$0.000996"],
    [0.00002, "$0.00002"],
    [0.000000001, "$0.000000001"],
    [0.999999, "$1.00"],
  ];
  for (const [value, text] of shown) equal(dollars(value), text);
  equal(dollars(null), "");
});
