// Requests to the API: one form for errors, one key for a change whose answer was lost, and answers kept by their ETag.

import { signal } from "@preact/signals";
import type { Query } from "./urls.ts";
import { queryText } from "./urls.ts";
import { jsonText, parseJson } from "./json_numbers.ts";

const BASE = "/api/v1";

/** A fault of one field of a form: the JSON pointer of the field, and what is wrong. */
export interface FieldFault {
  readonly pointer: string;
  readonly what: string;
}

/** An answer that is an error: what happened, why, and what to try. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly what: string,
    readonly why: string = "",
    readonly remedy: string = "",
    readonly faults: readonly FieldFault[] = [],
    readonly members: Readonly<Record<string, unknown>> = {},
  ) {
    super(what);
    this.name = "Problem";
  }

  /** True when the server could not be reached at all. */
  get offline(): boolean {
    return this.status === 0;
  }

  /** The right that the caller lacks. */
  get needs(): string | null {
    return typeof this.members["needs"] === "string" ? this.members["needs"] : null;
  }
}

/** False while the last request did not reach the server. */
export const online = signal(true);
/** True once an answer said that nobody is logged in. */
export const loggedOut = signal(false);

const text = (value: unknown) => (typeof value === "string" ? value : "");

function fault(entry: unknown): FieldFault {
  const { pointer, where, what } = (entry ?? {}) as Record<string, unknown>;
  if (typeof pointer === "string") return { pointer, what: text(what) };
  const path = Array.isArray(where) ? where.filter((part) => part !== "body" && part !== "query") : [];
  return { pointer: path.map((part) => `/${String(part)}`).join(""), what: text(what) };
}

export function problemOf(status: number, body: unknown): Problem {
  const members = (body && typeof body === "object" ? body : {}) as Record<string, unknown>;
  const errors = Array.isArray(members["errors"]) ? members["errors"].map(fault) : [];
  return new Problem(
    status,
    text(members["title"]) || `the server answered ${status}`,
    text(members["detail"]),
    text(members["try"]),
    errors,
    members,
  );
}

/** The error as a Problem, also when it is a fault of the page: then with what the browser says of it, and an id. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const technical = String((error instanceof Error && error.stack) || error).replaceAll(location.origin, "");
  return new Problem(
    -1,
    "the page failed",
    "the server sent something that this version of the page does not know, or the page has a fault",
    "reload the page; if that does not help, report the id",
    [],
    { technical, id: faultId(technical) },
  );
}

/** The same fault of the same build has the same id, in each browser (FNV-1a). */
export function faultId(technical: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < technical.length; at++) hash = Math.imul(hash ^ technical.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

export interface Options {
  readonly signal?: AbortSignal;
  /** A change that may not happen twice: sent again because its answer was lost, it has the same key. */
  readonly once?: boolean;
  /** The version that the change is based on. */
  readonly ifMatch?: string | number;
}

const kept = new Map<string, { etag: string; body: unknown }>();
const KEPT = 60;

type Again = () => Promise<boolean>;
let passwordAgain: Again | null = null;

/** Sets what asks for the password again when an action needs it. It answers false when the person will not. */
export function askPasswordBy(ask: Again): void {
  passwordAgain = ask;
}

async function request(
  method: string,
  url: string,
  body: unknown,
  options: Options,
  key: string | null = null,
): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  const cached = method === "GET" ? kept.get(url) : undefined;
  if (cached) headers["if-none-match"] = cached.etag;
  if (method !== "GET") headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  if (options.ifMatch !== undefined) headers["if-match"] = `"${options.ifMatch}"`;
  let answer: Response;
  try {
    answer = await fetch(BASE + url, {
      method,
      headers,
      body: method === "GET" ? null : jsonText(body ?? {}),
      credentials: "same-origin",
      cache: "no-store",
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    online.value = false;
    throw new Problem(0, "the server cannot be reached", "the connection failed", "wait, or check that it runs");
  }
  online.value = true;
  if (answer.ok || answer.status === 304) return answer;
  const problem = problemOf(answer.status, await answer.json().catch(() => null));
  if (answer.status === 401 && !url.startsWith("/login")) loggedOut.value = true;
  // The action did not happen. With the password it is sent once more, as it was.
  if (problem.needs === "fresh" && (await passwordAgain?.())) return request(method, url, body, options, key);
  throw problem;
}

// Answers that were asked for before the page that needs them is drawn.
const begun = new Map<string, Promise<{ answer: Response; at: number }>>();
/** An answer that has waited longer (in milliseconds) is asked for again: no stream says what has changed since. */
const BEGUN_KEPT = 1000;

/** Asks now for what a page will ask for when it is drawn: the first `get` of the same address takes the answer. */
export function begin(path: string, query: Query = {}): void {
  const url = path + queryText(query);
  const asked = request("GET", url, null, {}).then((answer) => ({ answer, at: Date.now() }));
  // Whoever takes it gets the error.
  asked.catch(() => {});
  begun.set(url, asked);
}

async function takeBegun(url: string, signal: AbortSignal | undefined): Promise<Response | null> {
  const asked = begun.get(url);
  if (!asked) return null;
  begun.delete(url);
  const { answer, at } = await asked;
  signal?.throwIfAborted();
  return Date.now() - at < BEGUN_KEPT ? answer : null;
}

/** GET of a route below /api/v1. An answer that did not change is taken from memory. */
export async function get<T>(path: string, query: Query = {}, options: Options = {}): Promise<T> {
  const url = path + queryText(query);
  const answer = (await takeBegun(url, options.signal)) ?? (await request("GET", url, null, options));
  const cached = kept.get(url);
  if (answer.status === 304 && cached) return cached.body as T;
  const body = await readBody(answer);
  const etag = answer.headers.get("etag");
  if (etag) {
    kept.delete(url);
    kept.set(url, { etag, body });
    if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
  }
  return body as T;
}

/** GET of a route as text, with its size; for payloads, which are parsed only when they are small. */
export async function getText(path: string, query: Query = {}, options: Options = {}): Promise<string> {
  return (await request("GET", path + queryText(query), null, options)).text();
}

export type Method = "POST" | "PUT" | "PATCH" | "DELETE";

// Keys of changes whose answer was lost, by what was sent: nobody knows whether they have happened.
const unanswered = new Map<string, string>();

/** A change. */
export async function send<T>(method: Method, path: string, body?: unknown, options: Options = {}): Promise<T> {
  if (!options.once) return (await readBody(await request(method, path, body, options))) as T;
  const what = jsonText([method, path, body, options.ifMatch]);
  const key = unanswered.get(what) ?? newKey();
  unanswered.set(what, key);
  try {
    const answer = (await readBody(await request(method, path, body, options, key))) as T;
    unanswered.delete(what);
    return answer;
  } catch (error) {
    // The server has refused it.
    if (error instanceof Problem && error.status >= 400 && error.status < 500) unanswered.delete(what);
    throw error;
  }
}

async function readBody(answer: Response): Promise<unknown> {
  if (answer.status === 204) return null;
  if (answer.headers.get("content-type")?.includes("json")) return parseJson(await answer.text());
  throw new Problem(
    -1,
    "the answer is not from Functory",
    "it is not JSON: something between the browser and the server has answered, such as a login page of a proxy",
    "open this address in a new tab",
  );
}

/** A new key for `Idempotency-Key`. */
function newKey(): string {
  // randomUUID is missing on plain HTTP that is not loopback.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The address of a route for a download. */
export function downloadPath(path: string, query: Query = {}): string {
  return BASE + path + queryText(query);
}

/** A path below /api/v1 from its parts, each of them encoded. */
export function route(...parts: (string | number)[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/** The path of an action: `/executions/{id}:retry`. */
export function action(verb: string, ...parts: (string | number)[]): string {
  return `${route(...parts)}:${verb}`;
}
