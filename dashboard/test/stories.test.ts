import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { STORIES, WITHOUT } from "../src/stories/stories.ts";

test("every part has a story, or a reason why it has none", () => {
  const sources = readdirSync("src/parts").filter((name) => name.endsWith(".tsx"));
  const parts = sources.flatMap((name) =>
    [...readFileSync(`src/parts/${name}`, "utf8").matchAll(/^export (?:function|class|const) ([A-Z][a-z]\w*)/gm)].map(
      ([, part]) => part,
    ),
  );
  assert.ok(parts.length > 30);
  assert.deepEqual([...Object.keys(STORIES), ...Object.keys(WITHOUT)].sort(), parts.sort());
});
