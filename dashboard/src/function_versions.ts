// Versions of functions as rows name them: "parse_invoice@3". Pure.

export interface FunctionVersion {
  readonly function: string;
  /** Null where the text names no version. */
  readonly version: number | null;
}

/** The function and the version of `name@number`. */
export function functionVersion(text: string): FunctionVersion {
  const at = text.lastIndexOf("@");
  const number = at < 0 ? "" : text.slice(at + 1);
  return /^\d+$/.test(number)
    ? { function: text.slice(0, at), version: Number(number) }
    : { function: text, version: null };
}
