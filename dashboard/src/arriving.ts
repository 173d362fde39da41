// A page appears from its top to its bottom: what follows a part that is still fetched is not drawn before that part,
// so that nothing that is seen moves (`main.arriving` in shell.css).

import { effect, signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

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

/** True from the moment when a page is opened until all parts of it have appeared. */
export function useArriving(page: string): boolean {
  const [arrived, setArrived] = useState<string | null>(null);
  useEffect(() => {
    let frame = 0;
    const arrive = () => setArrived(page);
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
  return arrived !== page;
}
