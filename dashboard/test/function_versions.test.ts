import assert from "node:assert/strict";
import { test } from "node:test";
import { functionVersion } from "../src/function_versions.ts";

test("a version that an execution used is a function and its number", () => {
  assert.deepEqual(functionVersion("parse_invoice@12"), { function: "parse_invoice", version: 12 });
  assert.deepEqual(functionVersion("shop/lookup@3"), { function: "shop/lookup", version: 3 });
  assert.deepEqual(functionVersion("parse_invoice"), { function: "parse_invoice", version: null });
});
