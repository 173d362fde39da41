import assert from "node:assert/strict";
import { test } from "node:test";
import type { Question } from "../src/api.gen.ts";
import { argumentsOf, askedText, choicesOf, toolOf } from "../src/pages/question_texts.ts";
import { effectOf, isOpenRun, kindText, reasonText, thenText, waitText } from "../src/run_states.ts";

const HIDDEN = { redacted: "payload:read" };

function question(kind: string, payload: unknown): Question {
  return { kind, payload } as unknown as Question;
}

test("what a run waits for is said in words", () => {
  assert.equal(waitText("call", 1), "the answer of a model");
  assert.equal(waitText("execution", 2), "2 executions");
  assert.equal(waitText("approval", 1), "a decision of a person");
  assert.equal(waitText("new_kind", 1), "new_kind");
});

test("a state, a reason and a kind that are not known are shown as they are", () => {
  assert.equal(reasonText("loop"), "it repeated itself");
  assert.equal(reasonText("a_new_reason"), "a new reason");
  assert.equal(kindText("checks"), "results of its checks");
  assert.equal(kindText("a_new_kind"), "a new kind");
  assert.deepEqual(effectOf("unheard"), { text: "unheard", tone: "warn" });
});

test("a paused run is open, and a stopped one is not", () => {
  assert.ok(isOpenRun("paused"));
  assert.ok(!isOpenRun("stopped"));
});

test("what a step asks for is said with the tools that it uses", () => {
  const next = (directive: unknown) => ({ "functory.next": directive });
  assert.equal(thenText(next({ do: "model", request: {} })), "asks a model");
  assert.equal(thenText(next({ do: "tools", calls: [{ name: "pay" }, {}] })), "uses tools: pay, ");
  assert.equal(thenText(next({ do: "new" })), "new");
  for (const ended of [next({ do: "done" }), "a text", null, { text: 1 }]) assert.equal(thenText(ended), "is done");
});

test("a question says its tool, its arguments and its choices", () => {
  const tool = question("tool", { tool: "pay", version: 3, effect: "acts", arguments: { to: "bob" } });
  assert.deepEqual(toolOf(tool), { tool: "pay", version: 3, effect: "acts" });
  assert.deepEqual(argumentsOf(tool), { to: "bob" });
  const asks = question("ask", { question: "go on?", choices: ["yes", 1, "no"] });
  assert.equal(askedText(asks), "go on?");
  assert.deepEqual(choicesOf(asks), ["yes", "no"]);
  assert.equal(argumentsOf(asks), null);
});

test("what is hidden stays hidden", () => {
  const part = question("tool", { tool: "pay", version: 1, effect: "acts", arguments: HIDDEN });
  assert.deepEqual(argumentsOf(part), HIDDEN);
  assert.deepEqual(askedText(question("ask", { question: HIDDEN, choices: HIDDEN })), HIDDEN);
  assert.deepEqual(choicesOf(question("ask", { question: HIDDEN, choices: HIDDEN })), []);
  assert.equal(toolOf(part).tool, "pay");
});
