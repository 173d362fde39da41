// Draws only the rows that are seen, and eight more on each side.

import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

export const OVERSCAN = 8;

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

/** A token that is a length, in px. */
export function pixels(token: string): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue(token)) || 32;
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

/** The window of a scroller. `onScroll` gets the position and the room below. */
export function useWindow(
  scroller: RefObject<HTMLElement | null>,
  row: number,
  total: number,
  onScroll?: (top: number, below: number) => void,
): Window {
  const [seen, setSeen] = useState<Window>({ from: 0, to: Math.min(total, 40) });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    let frame = 0;
    const update = () => {
      frame = 0;
      const { scrollTop, clientHeight } = element;
      const next = rowsSeen(scrollTop, clientHeight, row, total);
      setSeen((last) => (last.from === next.from && last.to === next.to ? last : next));
      onScroll?.(scrollTop, total * row - scrollTop - clientHeight);
    };
    const later = () => {
      if (!frame) frame = requestAnimationFrame(update);
    };
    update();
    element.addEventListener("scroll", later, { passive: true });
    const observer = new ResizeObserver(later);
    observer.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", later);
      observer.disconnect();
    };
  }, [row, total, onScroll]);
  return { from: Math.min(seen.from, total), to: Math.min(seen.to, total) };
}
