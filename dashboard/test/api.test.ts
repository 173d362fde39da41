import assert from "node:assert/strict";
import { test } from "node:test";
import { asProblem, begin, faultId, get, Problem, send } from "../src/api.ts";

type Answer = () => Response | Promise<Response>;

const LOST: Answer = () => Promise.reject(new TypeError("network"));
const ANSWERED: Answer = () => Response.json({});
const problem = (status: number): Answer => () => Response.json({ title: "no" }, { status });

/** Sends a change once for each answer. Returns the keys that it had. */
async function keysOf(fetch: { mock: (answer: Answer) => string[] }, answers: readonly Answer[]): Promise<string[]> {
  const keys: string[] = [];
  for (const answer of answers) {
    const seen = fetch.mock(answer);
    await send("POST", "/executions", { function: "work", input: {} }, { once: true }).catch(asProblem);
    keys.push(...seen);
  }
  return keys;
}

for (const { name, answers, kept } of [
  { name: "a lost answer", answers: [LOST, ANSWERED], kept: true },
  { name: "an answer of a proxy", answers: [problem(502), ANSWERED], kept: true },
  { name: "a refusal", answers: [problem(422), ANSWERED], kept: false },
  { name: "an answer", answers: [ANSWERED, ANSWERED], kept: false },
]) {
  test(`after ${name} the same change has ${kept ? "the same key" : "another key"}`, async (context) => {
    const mock = (answer: Answer) => {
      const seen: string[] = [];
      context.mock.method(globalThis, "fetch", async (_url: string, init: RequestInit) => {
        seen.push((init.headers as Record<string, string>)["idempotency-key"] ?? "");
        return answer();
      });
      return seen;
    };
    const [first, second] = await keysOf({ mock }, answers);
    assert.match(first ?? "", /^[0-9a-f]{32}$/);
    assert.equal(first === second, kept);
  });
}

test("a fault of the page is said in plain words, with what the browser says of it beside them", () => {
  Object.assign(globalThis, { location: { origin: "http://here" } });
  const error = new TypeError("x is undefined");
  error.stack = "TypeError: x is undefined\n    at http://here/assets/app.js:1:2";
  const problem = asProblem(error);
  assert.doesNotMatch(`${problem.what} ${problem.why} ${problem.remedy}`, /undefined|TypeError/);
  const technical = "TypeError: x is undefined\n    at /assets/app.js:1:2";
  assert.deepEqual(problem.members, { technical, id: faultId(technical) });
  assert.notEqual(faultId(technical), faultId(`${technical}3`));
  assert.equal(asProblem("a text").members["technical"], "a text");
});

test("an answer that was asked for before its page is drawn is taken once, and not when it is old", async (context) => {
  let asked = 0;
  context.mock.method(globalThis, "fetch", async () => Response.json(++asked));
  context.mock.timers.enable({ apis: ["Date"] });
  begin("/early", { limit: 100 });
  assert.equal(asked, 1);
  assert.equal(await get("/early", { limit: 100 }), 1);
  assert.equal(await get("/early", { limit: 100 }), 2);
  begin("/early");
  await new Promise((done) => setTimeout(done, 5));
  context.mock.timers.tick(1001);
  assert.equal(await get("/early"), 4);
});

test("whoever takes an answer that was asked for early gets its error, or none when it is not wanted any more", async (context) => {
  context.mock.method(globalThis, "fetch", async () => Response.json({ title: "no" }, { status: 403 }));
  begin("/refused");
  await assert.rejects(get("/refused"), (error) => error instanceof Problem && error.status === 403);
  context.mock.method(globalThis, "fetch", async () => Response.json(1));
  begin("/left");
  const signal = AbortSignal.abort();
  await assert.rejects(get("/left", {}, { signal }), { name: "AbortError" });
});
