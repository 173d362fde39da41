import assert from "node:assert/strict";
import { test } from "node:test";
import { pageOf } from "../src/search_results.ts";
import { match, ownHref, queryText, urls } from "../src/urls.ts";

test("a name with every kind of character comes back from its address", () => {
  const name = "a/b ?#%&=ü\u202e<script>";
  const [path] = urls.trigger(name).split("?");
  assert.deepEqual(match("/triggers/:name", path ?? ""), { name });
});

test("a form has no address that a function, a trigger or a source could have", () => {
  for (const form of [urls.newFunction(), urls.newTrigger(), ...["schedule", "watch"].map((kind) => urls.newSource(kind))])
    for (const list of ["functions", "triggers", "schedules", "watches", "webhooks", "queues"])
      assert.equal(match(`/${list}/:name`, form), null, form);
});

test("a filter with several values repeats its name, and empty ones are left out", () => {
  assert.equal(queryText({ state: ["failed", "dead"], q: "", since: null, roots: true, x: false }), "?state=failed&state=dead&roots=1");
});

test("a link to another host is not ours", () => {
  for (const text of ["https://example.com", "//example.com", "/\\example.com", "javascript:alert(1)", "/a\nb", ""])
    assert.equal(ownHref(text), null, text);
  assert.equal(ownHref("/executions?state=dead"), "/executions?state=dead");
});

test("an address that is cut or has a broken escape fits no page", () => {
  assert.equal(match("/functions/:name/v/:n", "/functions/x/v"), null);
  assert.equal(match("/functions/:name", "/functions/"), null);
  assert.equal(match("/functions/:name", "/functions/%E0%A4%A"), null);
});

test("what the search finds leads to its page, also what has a name and was found by its id", () => {
  const found = (kind: string, name: string, id: string | null = "019b-id") => pageOf({ kind, id, name, time: null });
  assert.equal(found("execution", "add"), "/executions/019b-id");
  assert.equal(found("event", "order.received"), "/events/019b-id");
  assert.equal(found("call", "ask"), "/calls/019b-id");
  assert.equal(found("trigger", "on-order"), "/triggers/on-order");
  assert.equal(found("version", "add@12"), "/functions/add/v/12");
  assert.equal(found("function", "add", null), "/functions/add");
  assert.equal(found("proposal", "add"), null);
});
