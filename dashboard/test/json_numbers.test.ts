import assert from "node:assert/strict";
import { test } from "node:test";
import { typedJson, typedNumber } from "../src/json_form.ts";
import { jsonLines, kindOf } from "../src/json_lines.ts";
import { jsonText, parseJson } from "../src/json_numbers.ts";
import { compactJson } from "../src/json_text.ts";

const LARGE = "12345678901234567890";

test("an integer comes out as it went in, whatever stands around it", () => {
  const ends = ["", "0", "9007199254740991", "9007199254740992", "9007199254740993", LARGE, `-${LARGE}`, "9".repeat(400)];
  for (const one of ends.slice(1))
    for (const [before, after] of [["", ""], ["[", "]"], ["[1,", ",2]"], ['{"a b":', "}"], [`{"${LARGE}":[`, "]}"]])
      assert.equal(jsonText(parseJson(`${before}${one}${after}`)), `${before}${one}${after}`);
});

test("texts, keys, fractions and exponents with many digits are what they were", () => {
  const text = `{"${LARGE}":"${LARGE}","\\"${LARGE}":"a\\\\","x":0.1234567890123456,"y":1e21,"z":1.5e-300,"w":"-${LARGE}"}`;
  assert.deepEqual(parseJson(text), JSON.parse(text));
  assert.equal(jsonText(parseJson(`[${text},${LARGE}]`)), `[${JSON.stringify(JSON.parse(text))},${LARGE}]`);
});

test("a large number that was no integer becomes none", () => {
  for (const one of ["1e+20", "-1.2345678901234568e+20", "1e+16", "9.007199254740994e+15"])
    assert.equal(jsonText(parseJson(`[${one}]`)), `[${one}]`);
  assert.equal(jsonText(parseJson("[9007199254740994.0]")), "[9.007199254740994e+15]");
});

test("what is no JSON is refused at its own place", () => {
  for (const text of [`{${LARGE}: 1}`, `[${LARGE}, x]`, `0${LARGE}`, `"${LARGE}`, `${LARGE}.`, `--${LARGE}`, `${LARGE}n`]) {
    let message = "";
    try {
      JSON.parse(text);
    } catch (error) {
      message = (error as Error).message;
    }
    assert.throws(() => parseJson(text), { name: "SyntaxError", message });
  }
});

test("a number beyond all that can be sent is refused, not sent as null", () => {
  assert.throws(() => parseJson("[1e400]"), { name: "SyntaxError", message: "A number is too large" });
  assert.equal(typedJson("-1e400").problem, "A number is too large");
  assert.equal(typedNumber("1e400"), "1e400");
  assert.equal(jsonText(undefined), undefined);
});

test("a large integer is shown, typed and compared as a number", () => {
  const value = parseJson(`{"n":${LARGE}}`) as { n: unknown };
  assert.equal(kindOf(value.n), "number");
  assert.deepEqual(jsonLines(value, new Set()).lines.map((line) => String(line.value)), [LARGE]);
  assert.equal(compactJson(value), `{"n": ${LARGE}}`);
  assert.equal(typedNumber(` ${LARGE} `), value.n);
});

test("a text cannot pass for an integer", () => {
  for (const text of ['["int-0.5:1",12345678901234567890]', '["int-:12345678901234567890"]'])
    assert.equal(jsonText(parseJson(text)), text);
});
