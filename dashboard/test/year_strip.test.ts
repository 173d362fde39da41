import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../src/config_schema.ts";
import { initial } from "../src/json_form.ts";
import { clockChanges, haveSeconds, localText, weeksOf } from "../src/year_strip.ts";

test("a year begins on a Monday and counts each day's ticks apart from those that were stopped", () => {
  const weeks = weeksOf(
    "2026-11-25",
    1,
    3,
    [
      { local_time: "2026-11-24T02:30:00+01:00", reason: null },
      { local_time: "2026-11-24T03:30:00+01:00", reason: "overlap" },
    ],
    [{ local_time: "2026-11-26T02:30:00+01:00" }],
  );
  assert.equal(weeks[0]?.[0]?.date, "2026-11-16");
  assert.equal(weeks.length, 3);
  assert.deepEqual(weeks[1]?.[1], { date: "2026-11-24", ticked: 1, stopped: 1, planned: 0 });
  assert.equal(weeks[1]?.[3]?.planned, 1);
  // A Sunday belongs to the week that began six days before.
  assert.equal(weeksOf("2026-11-29", 0, 1, [], [])[0]?.[0]?.date, "2026-11-23");
});

test("the days on which the clocks of a zone change are found, and UTC has none", () => {
  assert.deepEqual(clockChanges("Europe/Berlin", "2026-01-01", "2026-12-31"), [
    { date: "2026-03-29", minutes: 60 },
    { date: "2026-10-25", minutes: -60 },
  ]);
  // Half an hour, and summer in the south.
  assert.deepEqual(
    clockChanges("Australia/Lord_Howe", "2026-01-01", "2026-12-31").map((one) => one.minutes),
    [-30, 30],
  );
  assert.deepEqual(clockChanges("UTC", "2026-01-01", "2026-12-31"), []);
  assert.deepEqual(clockChanges("Nowhere/Else", "2026-01-01", "2026-12-31"), []);
});

test("a local time is read with its weekday and offset, and what is none stays as it is", () => {
  assert.equal(localText("2026-11-25T07:00:00+01:00"), "Wed 2026-11-25 07:00 +01:00");
  assert.equal(localText("2026-11-25T07:00:05.25+00:00"), "Wed 2026-11-25 07:00:05 +00:00");
  assert.equal(localText("2026-11-25T07:00:00+01:00", true), "Wed 2026-11-25 07:00:00 +01:00");
  assert.equal(localText("soon"), "soon");
  assert.equal(haveSeconds(["2026-11-25T07:00:00+01:00", "2026-11-25T07:00:01+01:00"]), true);
  assert.equal(haveSeconds(["2026-11-25T07:00:00+01:00"]), false);
});

test("a field that may be null can be left out of a form, and what is asked for elsewhere is not in it", () => {
  const schema = configSchema(
    {
      type: "object",
      properties: {
        cron: { anyOf: [{ type: "string" }, { type: "null" }], default: null, title: "Cron" },
        catch_up: { enum: ["all", "latest"], default: "latest", title: "Catch Up" },
        data: { default: null, title: "Data" },
        secret: { type: "array", items: { type: "string" }, minItems: 1 },
        queue: { type: "string" },
      },
      required: ["queue", "secret"],
    },
    ["queue"],
  );
  assert.ok(typeof schema === "object");
  assert.deepEqual(schema.properties?.["cron"], { type: "string", title: "Cron" });
  assert.equal((schema.properties?.["catch_up"] as { title: string }).title, "Catch up");
  assert.deepEqual(schema.required, ["secret"]);
  assert.equal("queue" in (schema.properties ?? {}), false);
  // A form begins with the defaults and with one item where one is needed.
  assert.deepEqual(initial(schema, schema), { catch_up: "latest", secret: [""] });
});
