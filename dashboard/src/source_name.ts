// The name of a function, read from its source. Pure.

/** The name that the first function of a source has. */
export function nameIn(source: string): string {
  return /^(?:async\s+)?def\s+([A-Za-z_]\w*)/m.exec(source)?.[1] ?? "";
}
