// The lines of a log that are known here, and where others are missing between them. Pure.
//
// A log is read in parts: its last lines, those behind a line, and those that come while it runs. Two lines that stand
// beside each other here need not do so in the log. So each line carries whether the one directly before it is here.

import type { LogLine } from "./rows.ts";

export interface KnownLines {
  /** In the order of the log. */
  readonly lines: readonly LogLine[];
  /** Keys of the lines directly before which no line of the log is missing. */
  readonly joined: ReadonlySet<string>;
  /** Keys of the lines that are the first ones of their attempt. */
  readonly first: ReadonlySet<string>;
}

/** Where lines are missing. */
export interface Gap {
  /** The line behind which they are, as fence.seq; null at the beginning of what is shown. */
  readonly after: string | null;
  /** How many they are at most; null where the numbers do not tell. */
  readonly most: number | null;
}

/** What stands before the first line of a part: a line, the beginning of the log or of an attempt, or not known. */
export type Before = { readonly line: string } | "log" | "attempt" | "unknown";

export const NO_LINES: KnownLines = { lines: [], joined: new Set(), first: new Set() };

export const keyOf = (line: LogLine) => `${line.fence}.${line.seq}`;

/** What is known with a part more: lines that stand beside each other in the log. */
export function withPart(known: KnownLines, part: readonly LogLine[], before: Before): KnownLines {
  const begin = part[0];
  if (!begin) return known;
  const all = new Map<string, LogLine>();
  for (const line of [...known.lines, ...part]) all.set(keyOf(line), line);
  const joined = new Set(known.joined);
  const first = new Set(known.first);
  for (const line of part.slice(1)) joined.add(keyOf(line));
  if (before === "attempt") first.add(keyOf(begin));
  const line = typeof before === "object" ? before.line : null;
  if (before === "log" || (line !== null && all.has(line)) || all.has(`${begin.fence}.${begin.seq - 1}`))
    joined.add(keyOf(begin));
  const lines = [...all.values()].sort((a, b) => a.fence - b.fence || a.seq - b.seq);
  return { lines, joined, first };
}

/** What is known with lines that came by the stream. They follow the last one here, unless numbers are missing. */
export function withStreamed(known: KnownLines, part: readonly LogLine[]): KnownLines {
  const last = known.lines.at(-1);
  const begin = part[0];
  const follows = last && begin && begin.fence > last.fence;
  return withPart(known, part, follows ? { line: keyOf(last) } : "unknown");
}

/** The lines of an attempt (of all without a `fence`), each with the gap before it. */
export function entries(
  known: KnownLines,
  fence: number | null,
): readonly { readonly line: LogLine; readonly gap: Gap | null }[] {
  const lines = fence === null ? known.lines : known.lines.filter((line) => line.fence === fence);
  return lines.map((line, at) => {
    const key = keyOf(line);
    if (known.joined.has(key) || (fence !== null && known.first.has(key))) return { line, gap: null };
    const before = lines[at - 1];
    if (before && before.fence !== line.fence) return { line, gap: { after: keyOf(before), most: null } };
    const most = line.seq - (before?.seq ?? 0) - 1;
    if (before) return { line, gap: { after: keyOf(before), most } };
    return { line, gap: { after: null, most: fence === null ? null : most } };
  });
}
