// The address as a signal. Pages read it; only `go` and the browser's own buttons change it.

import { computed, signal } from "@preact/signals";
import type { Href, Query } from "./urls.ts";
import { ownHref, urls, withQuery } from "./urls.ts";

export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly url: string;
}

function here(): Place {
  const { pathname, search } = window.location;
  return { path: pathname, query: new URLSearchParams(search), url: pathname + search };
}

export const place = signal<Place>(
  typeof window === "undefined" ? { path: "/", query: new URLSearchParams(), url: "/" } : here(),
);
export const path = computed(() => place.value.path);

/** The list that the present page was opened from: `[` and `]` walk along it, Esc returns to it. */
export interface Walk {
  readonly from: Href;
  readonly stops: readonly Href[];
}
export const walk = signal<Walk | null>(null);

/** Goes to a page. `replace` leaves no step for the back button. */
export function go(to: Href, replace = false): void {
  if (replace) window.history.replaceState(null, "", to);
  else if (to !== place.value.url) window.history.pushState(null, "", to);
  place.value = here();
}

/** This address with other parameters; null removes one. */
export function hereWith(changes: Query): Href {
  const query: Record<string, string[]> = {};
  for (const [name, value] of place.value.query) (query[name] ??= []).push(value);
  return withQuery(place.value.path, { ...query, ...changes });
}

/** Changes some parameters of the address. A filter is not a step for the back button. */
export function setQuery(changes: Query, replace = true): void {
  go(hereWith(changes), replace);
}

export function back(): void {
  const list = walk.value?.from;
  if (list) go(list);
  else go(urls.overview());
}

/** Goes one stop along the list that the page was opened from. */
export function step(by: 1 | -1): boolean {
  const current = walk.value;
  if (!current) return false;
  const at = current.stops.findIndex((stop) => stop.split("?")[0] === place.value.path);
  const next = at < 0 ? undefined : current.stops[at + by];
  if (next) go(next, true);
  return next !== undefined;
}

/** Loads the whole application anew, for example after a login. */
export function reload(to: Href): void {
  window.location.assign(to);
}

export function startRouter(): void {
  window.history.scrollRestoration = "manual";
  window.addEventListener("popstate", () => {
    place.value = here();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.hasAttribute("download")) return;
    const to = ownHref(link.getAttribute("href") ?? "");
    if (!to || to.startsWith("/api/")) return;
    event.preventDefault();
    go(to);
  });
}

/** The secret of a one-time link (`#login=…`). It is taken out of the address at once. */
export function takeLoginCode(): string | null {
  const found = /^#login=(.+)$/.exec(window.location.hash);
  if (!found) return null;
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  return decodeURIComponent(found[1] as string);
}
