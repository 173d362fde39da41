// Draws only the rows that are seen, and eight more on each side.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export const OVERSCAN = 8;

/** The id of a row, by the label of what it is in: readers learn from it which row is the active one. */
export function rowId(label: string, at: number): string {
  return `row-${label.replace(/\W+/g, "-").toLowerCase()}-${at}`;
}

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** The rows to draw. Pure; rows have one height. */
export function rowsSeen(scrollTop: number, height: number, row: number, total: number): Window {
  const from = Math.max(0, Math.floor(scrollTop / row) - OVERSCAN);
  const to = Math.min(total, Math.ceil((scrollTop + height) / row) + OVERSCAN);
  return { from: Math.min(from, to), to };
}

const lengths = new Map<string, number>();

/** A token that is a length, in px. It is read once: reading it makes the browser find the styles of the page. */
export function pixels(token: string): number {
  let found = lengths.get(token);
  if (found === undefined) {
    found = Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue(token)) || 32;
    lengths.set(token, found);
  }
  return found;
}

/** The width of an element in px, also after it has changed; 0 before the element is there. */
export function useWidth(of: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = of.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, [of.current]);
  return width;
}

type OnScroll = (top: number, below: number) => void;

/** The window of a scroller, which begins at `start`. `onScroll` gets the position and the room below.
 *
 * Where the scroller is and how high is read after the browser has laid the page out: rows that come make no layout of
 * their own. */
export function useWindow(
  scroller: RefObject<HTMLElement | null>,
  row: number,
  total: number,
  onScroll?: OnScroll,
  start = 0,
): Window {
  const [, draw] = useState({});
  const place = useRef({ top: start, height: globalThis.innerHeight ?? 0, known: false });
  const { top, height } = place.current;
  const seen = rowsSeen(Math.max(0, Math.min(top, total * row - height)), height, row, total);
  const latest = useRef({ row, total, seen, onScroll });
  latest.current = { row, total, seen, onScroll };
  const bound = useRef<{ element: HTMLElement | null; end: () => void }>({ element: null, end: () => {} });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (bound.current.element === element) return;
    bound.current.end();
    let frame = 0;
    const look = () => {
      frame = 0;
      if (!element) return;
      const { scrollTop, clientHeight } = element;
      place.current = { top: scrollTop, height: clientHeight, known: true };
      const now = latest.current;
      const next = rowsSeen(scrollTop, clientHeight, now.row, now.total);
      if (now.seen.from !== next.from || now.seen.to !== next.to) draw({});
      now.onScroll?.(scrollTop, now.total * now.row - scrollTop - clientHeight);
    };
    const later = () => {
      if (!frame) frame = requestAnimationFrame(look);
    };
    // It is called before the first frame in which the scroller is seen.
    const observer = new ResizeObserver(look);
    if (element) {
      element.addEventListener("scroll", later, { passive: true });
      observer.observe(element);
    } else place.current = { ...place.current, known: false };
    bound.current = {
      element,
      end: () => {
        cancelAnimationFrame(frame);
        element?.removeEventListener("scroll", later);
        observer.disconnect();
      },
    };
  });
  useLayoutEffect(() => {
    if (place.current.known) onScroll?.(place.current.top, total * row - place.current.top - place.current.height);
  }, [row, total, onScroll]);
  useLayoutEffect(() => () => bound.current.end(), []);
  return seen;
}
