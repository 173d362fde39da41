// Pages in a chunk of their own: the first page that is opened does not wait for them.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Fault, Skeleton } from "./small.tsx";

type Pages = Readonly<Record<string, ComponentType<any>>>;

type Later = ComponentType<any> & { readonly load: () => void };

const chunks: (() => void)[] = [];

/** Fetches the chunks while nothing else happens, so that their pages open as quickly as those that are here. */
export function loadChunks(): void {
  if (typeof requestIdleCallback === "function") for (const start of chunks) requestIdleCallback(start);
}

/** Makes the pages of a chunk: `const page = later(() => import("./pages.ts")); page("FunctionPage")`. */
export function later(load: () => Promise<Pages>): (name: string) => Later {
  const pages = signal<Pages | null>(null);
  const failure = signal<unknown>(null);
  let loading = false;
  const start = () => {
    if (loading || pages.peek()) return;
    loading = true;
    failure.value = null;
    load()
      .then(
        (found) => (pages.value = found),
        (error: unknown) => (failure.value = error),
      )
      .finally(() => (loading = false));
  };
  chunks.push(start);
  return (name) => {
    function Later(params: Readonly<Record<string, string>>) {
      useEffect(start, []);
      const Page = pages.value?.[name];
      if (Page) return <Page {...params} />;
      if (failure.value) return <Fault error={failure.value} retry={start} />;
      return <Skeleton rows={10} />;
    }
    return Object.assign(Later, { load: start });
  };
}
