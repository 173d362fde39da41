// Short messages at the bottom left, and the sentences for screen readers.

import { signal } from "@preact/signals";
import { asProblem } from "../api.ts";
import { visible } from "../format.ts";
import type { Href } from "../urls.ts";
import { Link } from "./link.tsx";

export interface ToastContent {
  readonly text: string;
  readonly tone?: "ok" | "bad";
  /** Where one sees what happened. */
  readonly link?: { readonly to: Href; readonly text: string };
  readonly undo?: () => void;
}

interface Shown extends ToastContent {
  readonly id: number;
  timer?: ReturnType<typeof setTimeout> | undefined;
}

const shown = signal<readonly Shown[]>([]);
let lastId = 0;
const SECONDS = 6;

/** Shows a message for six seconds; an error stays until it is closed. */
export function toast(content: ToastContent): void {
  const entry: Shown = { ...content, id: ++lastId };
  shown.value = [...shown.value.slice(-3), entry];
  if (content.tone !== "bad") start(entry);
}

/** Shows an error of an action. It also belongs in its place. */
export function toastError(error: unknown): void {
  const problem = asProblem(error);
  toast({ text: [problem.what, problem.why].filter(Boolean).join(": "), tone: "bad" });
}

function start(entry: Shown): void {
  entry.timer = setTimeout(() => close(entry.id), SECONDS * 1000);
}

function close(id: number): void {
  shown.value = shown.value.filter((entry) => entry.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status">
      {shown.value.map((entry) => (
        <div
          key={entry.id}
          class={`toast ${entry.tone ?? ""}`}
          onMouseEnter={() => clearTimeout(entry.timer)}
          onMouseLeave={() => entry.tone !== "bad" && start(entry)}
        >
          <span>{visible(entry.text)}</span>
          {entry.link && <Link to={entry.link.to}>{entry.link.text} →</Link>}
          {entry.undo && (
            <button
              type="button"
              class="link"
              onClick={() => {
                close(entry.id);
                entry.undo?.();
              }}
            >
              Undo
            </button>
          )}
          <button type="button" class="close" aria-label="Close" onClick={() => close(entry.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

const sentence = signal("");
let waiting = "";
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says a sentence to screen readers: at most one in five seconds, the newest. */
export function announce(text: string): void {
  waiting = text;
  timer ??= setTimeout(() => {
    timer = undefined;
    sentence.value = waiting;
  }, sentence.value ? 5000 : 100);
}

export function Announcer() {
  return (
    <div class="off-screen" aria-live="polite">
      {sentence.value}
    </div>
  );
}
