// A difference of two texts: side by side where there is room, else one below the other.

import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../format.ts";
import { compactJson } from "../json_text.ts";
import type { Language } from "../editor/language.ts";
import { Waits } from "./small.tsx";

const ROOM = 1000;

/** The JSON text of a value with its keys in order, so that only real differences are seen. */
export function canonical(value: unknown): string {
  const order = (one: unknown): unknown => {
    if (Array.isArray(one)) return one.map(order);
    if (one === null || typeof one !== "object") return one;
    return Object.fromEntries(
      Object.entries(one)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([k, v]) => [k, order(v)]),
    );
  };
  return compactJson(order(value));
}

export function Diff({
  before,
  after,
  language,
  labels,
}: {
  before: string;
  after: string;
  language: Language;
  /** The names of the two sides: "v6", "v7". */
  labels: readonly [string, string];
}) {
  const box = useRef<HTMLDivElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const [wide, setWide] = useState<boolean | null>(null);
  const [failed, setFailed] = useState(false);
  const [drawn, setDrawn] = useState(false);

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWide(element.clientWidth >= ROOM));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (wide === null) return undefined;
    let gone = false;
    let remove: (() => void) | null = null;
    import("../editor/difference.ts").then(
      ({ mountDiff }) => {
        if (gone || !host.current) return;
        remove = mountDiff(host.current, { before, after, language, sideBySide: wide, labels });
        setDrawn(true);
      },
      () => setFailed(true),
    );
    return () => {
      gone = true;
      remove?.();
    };
  }, [before, after, language, wide, labels[0], labels[1]]);

  return (
    <div class="diff" ref={box}>
      {!drawn && !failed && <Waits />}
      <div class={wide ? "diff-labels two" : "diff-labels"} aria-hidden="true">
        <span>{labels[0]}</span>
        <span>{labels[1]}</span>
      </div>
      {before === after ? <p class="notice">Both texts are the same.</p> : null}
      {failed ? (
        <>
          <p class="notice">The view of differences could not be loaded. These are the two texts.</p>
          <pre class="code-box" tabIndex={0}>
            {visible(before)}
          </pre>
          <pre class="code-box" tabIndex={0}>
            {visible(after)}
          </pre>
        </>
      ) : (
        <div
          ref={host}
          class="code-host"
          onKeyDown={(event) => event.key === "Escape" && event.stopPropagation()}
        />
      )}
    </div>
  );
}
