// CEL for the editor: strings, numbers, words and operators of conditions.

import { StreamLanguage } from "@codemirror/language";

const WORDS = new Set(["true", "false", "null", "in"]);
const FUNCTIONS = new Set([
  "has",
  "all",
  "exists",
  "exists_one",
  "filter",
  "map",
  "size",
  "contains",
  "startsWith",
  "endsWith",
  "matches",
  "duration",
  "timestamp",
  "int",
  "uint",
  "double",
  "string",
  "bytes",
  "bool",
  "type",
  "dyn",
]);
const ROOTS = new Set(["event", "events", "data", "now"]);

interface State {
  /** The quotes that end the string which goes on over the line. */
  open: string | null;
}

/** The kind of the next token, by the names of the editor's highlighter. */
export function celToken(
  stream: {
    match(pattern: RegExp | string, consume?: boolean): unknown;
    next(): string | undefined | void;
    eatSpace(): boolean;
    current(): string;
    skipTo(text: string): boolean | undefined | void;
    skipToEnd(): void;
  },
  state: State,
): string | null {
  if (state.open) {
    if (stream.skipTo(state.open)) {
      stream.match(state.open);
      state.open = null;
    } else stream.skipToEnd();
    return "string";
  }
  if (stream.eatSpace()) return null;
  if (stream.match("//")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^[rRbB]{0,2}"""/) || stream.match(/^[rRbB]{0,2}'''/)) {
    state.open = stream.current().slice(-3);
    return "string";
  }
  if (stream.match(/^[rRbB]{0,2}"(?:[^"\\]|\\.)*"?/) || stream.match(/^[rRbB]{0,2}'(?:[^'\\]|\\.)*'?/))
    return "string";
  if (stream.match(/^0x[0-9a-fA-F]+u?/) || stream.match(/^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?u?/)) return "number";
  if (stream.match(/^[A-Za-z_]\w*/)) {
    const word = stream.current();
    if (WORDS.has(word)) return "atom";
    if (FUNCTIONS.has(word)) return "keyword";
    return ROOTS.has(word) ? "variableName.special" : "variableName";
  }
  if (stream.match(/^(?:&&|\|\||[!<>=]=|[!<>?:+\-*/%])/)) return "operator";
  stream.next();
  return null;
}

export const cel = StreamLanguage.define<State>({
  name: "cel",
  startState: () => ({ open: null }),
  token: celToken,
  languageData: { commentTokens: { line: "//" }, closeBrackets: { brackets: ["(", "[", "{", '"', "'"] } },
});
