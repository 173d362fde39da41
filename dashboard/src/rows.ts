// The rows of the API by their names; the types are generated from openapi.json.

import type { Redacted } from "./api.gen.ts";

export type {
  Attempt,
  Batch,
  Compensation,
  Decision,
  Error as ExecutionError,
  ErrorSource,
  Event,
  EventRow,
  Execution,
  ExecutionRow,
  Firing,
  BatchCount as BatchDryRun,
  Clause,
  Login,
  LoginList,
  LoginWays,
  LogLine,
  Numbers as Bar,
  Outline,
  OutlineNode,
  Overview,
  Redacted,
  SearchResult,
  Span,
  SuppressedMatch,
  Times,
  Trace as TraceAnswer,
  Tree,
  Why,
} from "./api.gen.ts";
import type { Me as GeneratedMe } from "./api.gen.ts";

/** A payload: the value, or the marker of a missing right. */
export type Payload<T = unknown> = T | Redacted;
export type Text = string | Redacted;

export function isRedacted(value: unknown): value is Redacted {
  return typeof value === "object" && value !== null && typeof (value as Redacted).redacted === "string";
}

export type Right = "view" | "operate" | "author" | "admin" | "payload:read" | "approve";

export type Me = Omit<GeneratedMe, "rights"> & { rights: readonly Right[] };

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** A line of user code in a traceback. */
export interface Frame {
  readonly function: string;
  readonly version: number;
  readonly line: number;
  readonly code: string | null;
}
