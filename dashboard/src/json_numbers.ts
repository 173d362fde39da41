// JSON whose integers stay as they are written: a number of JavaScript has 53 bits, an integer of the engine 64. A
// larger one is a bigint here. Pure.

const MAY_BE_LARGE = /\d{16}|e\+?\d{3}/i;
// A text, or an integer that may be too large; no part of a fraction or of an exponent.
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;
// Begins the text that stands for an integer while JSON is read or written. No payload can know it.
const MARK = `int-${Math.random()}:`;
const MARKED = new RegExp(`"${MARK}([^"]+)"`, "g");

/** The value of JSON. Throws a SyntaxError. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!MAY_BE_LARGE.test(text)) return value;
  const marked = text.replace(TOKEN, (token) =>
    token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `"${MARK}${token}"`,
  );
  return JSON.parse(marked, (_, one: unknown) => {
    // It would be written as null.
    if (one === Infinity || one === -Infinity) throw new SyntaxError("A number is too large");
    return typeof one === "string" && one.startsWith(MARK) ? BigInt(one.slice(MARK.length)) : one;
  });
}

/** JSON of a value, its integers as they were read. As with JSON.stringify, there is none of undefined. */
export function jsonText(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, (_, one: unknown) => written(one), indent);
  return text?.replace(MARKED, "$1");
}

function written(one: unknown): unknown {
  if (typeof one === "bigint") return MARK + one;
  // A number so large was no integer when it was read, and does not become one.
  return Number.isInteger(one) && !Number.isSafeInteger(one) ? MARK + (one as number).toExponential() : one;
}
