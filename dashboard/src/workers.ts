// Starts the two workers. The policy of trusted types knows exactly their addresses.

import { getText, type Options } from "./api.ts";
import { type ReadJson, readJson } from "./json_lines.ts";
import type { Query } from "./urls.ts";

const KNOWN = [STREAM_WORKER, LAYOUT_WORKER];

const policy = globalThis.window?.trustedTypes?.createPolicy("functory", {
  createScriptURL(url) {
    if (!KNOWN.includes(url)) throw new TypeError("not one of the dashboard's workers");
    return url;
  },
});

function scriptUrl(url: string): string {
  return (policy ? policy.createScriptURL(url) : url) as string;
}

/** The worker that holds the stream of all tabs; null where the browser has none (some phones). */
export function streamWorker(): SharedWorker | null {
  if (typeof SharedWorker === "undefined") return null;
  try {
    return new SharedWorker(scriptUrl(STREAM_WORKER), { name: "functory-stream" });
  } catch {
    return null;
  }
}

let layout: Worker | null = null;
let lastJob = 0;
const jobs = new Map<number, { done: (result: unknown) => void; failed: (error: Error) => void }>();

/** Runs a job in the worker. A request that another one replaces is ended with an AbortError. */
export function computeLayout<R>(kind: "tree" | "map" | "json", input: unknown, signal?: AbortSignal): Promise<R> {
  if (!layout) {
    layout = new Worker(scriptUrl(LAYOUT_WORKER), { name: "functory-layout" });
    layout.onmessage = ({ data }: MessageEvent<{ job: number; result?: unknown; error?: string }>) => {
      const job = jobs.get(data.job);
      jobs.delete(data.job);
      if (data.error !== undefined) job?.failed(new Error(data.error));
      else job?.done(data.result);
    };
  }
  const worker = layout;
  const job = ++lastJob;
  return new Promise<R>((resolve, reject) => {
    jobs.set(job, { done: (result) => resolve(result as R), failed: reject });
    signal?.addEventListener("abort", () => {
      if (jobs.delete(job)) reject(new DOMException("replaced", "AbortError"));
    });
    worker.postMessage({ job, kind, input });
  });
}

/** Text that is parsed here: a message to the worker would take longer. */
const SMALL = 32_000;

/** Reads a payload: `useData(path, {}, { read: readPayload })`. Large ones are parsed in the worker. */
export async function readPayload(path: string, query: Query, options: Options): Promise<ReadJson> {
  const text = await getText(path, query, options);
  return text.length <= SMALL ? readJson(text) : computeLayout<ReadJson>("json", text, options.signal);
}
