// What the dashboard knows about the engine by heart. tests/dashboard/test_engine_values.py compares the same file with
// the engine.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BAD_STATES, CAUSES, EXECUTION_STATES, OPEN_STATES } from "../src/execution_states.ts";
import { LOGIN_FAILURES, loginFailure } from "../src/login_failures.ts";
import { lookOf } from "../src/parts/marks.ts";
import { REASONS } from "../src/reasons.ts";
import { shortId } from "../src/short_ids.ts";
import { MAX_TOPICS } from "../src/stream_hub.ts";
import values from "./engine_values.json";

const same = (mine: readonly string[], engine: readonly string[]) =>
  assert.deepEqual([...mine].sort(), [...engine].sort());

test("short ids are those of the command line", () => {
  for (const [id, short] of Object.entries(values.short_ids)) {
    assert.equal(shortId(id), short);
    assert.equal(shortId(id.toUpperCase().replaceAll("-", "")), short);
  }
});

test("text that is no id stays as it is", () => {
  for (const text of ["", "order-4711", "01936d4a-8f3c", "zzzzzzzz-8f3c-7abc-8def-0123456789ab"])
    assert.equal(shortId(text), text);
});

test("filters offer the states and causes that the engine has", () => {
  same(EXECUTION_STATES, values.execution_states);
  same(BAD_STATES, values.bad_states);
  same(OPEN_STATES, values.open_states);
  same(Object.keys(CAUSES), values.causes);
});

test("every state has a mark of its own", () => {
  const looks = values.execution_states.map((state) => lookOf(state).mark);
  assert.equal(new Set(looks).size, looks.length);
});

test("every failed login by a provider has words, and a code that is not known none of its own", () => {
  same(Object.keys(LOGIN_FAILURES), values.login_failures);
  assert.equal(loginFailure(null), null);
  for (const code of ["<b>call 555-0100</b>", "constructor", ""])
    assert.equal(loginFailure(code)?.what, "The login by the identity provider has failed.");
});

test("every reason of a suppression has words and a remedy", () => {
  same(Object.keys(REASONS), values.reasons);
});

test("a stream has as many topics as the server takes", () => {
  assert.equal(MAX_TOPICS, values.stream_topics);
});
