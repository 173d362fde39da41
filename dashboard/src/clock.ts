// The clock of the page: ticks once a second while the page is visible, so that ages move.

import { signal } from "@preact/signals";

/** Milliseconds since 1970, at the last tick. */
export const now = signal(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) now.value = Date.now();
  });
}

/** Runs `act` every `seconds` while the page is visible. Returns what stops it. */
export function every(seconds: number, act: () => void): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) act();
  }, seconds * 1000);
  return () => clearInterval(timer);
}
