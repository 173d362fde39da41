// A page appears from its top to its bottom: what follows a part that is still fetched is not drawn before that part,
// so that nothing that is seen moves (`main.arriving` in shell.css).

import { computed, effect, signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

/** How long a page may take to appear, in milliseconds. Then everything that is there is drawn. */
const PATIENCE = 10_000;

const waiting = signal(0);

/** Says that a part is not there yet, as long as the component is mounted. */
export function useWaiting(): void {
  useLayoutEffect(() => {
    waiting.value++;
    return () => {
      waiting.value--;
    };
  }, []);
}

const opening = signal(true);

/** The class of `main` while parts of the page are not there yet. The page itself is not drawn anew for it. */
export const arriving = computed(() => (opening.value && waiting.value > 0 ? "arriving" : undefined));

/** Calls `arrived` once all parts of a page have appeared. */
export function useArriving(page: string, arrived: () => void): void {
  useLayoutEffect(() => {
    opening.value = true;
    let frame = 0;
    const arrive = () => {
      opening.value = false;
      arrived();
    };
    const stop = effect(() => {
      cancelAnimationFrame(frame);
      // A part that has come may contain parts that are fetched in their turn.
      if (waiting.value === 0) frame = requestAnimationFrame(arrive);
    });
    const late = setTimeout(arrive, PATIENCE);
    return () => {
      stop();
      cancelAnimationFrame(frame);
      clearTimeout(late);
    };
  }, [page]);
}
