// Questions to the server that follow typing: asked after a pause, the newest answer wins, and the last answer stays
// while the next one is on its way.

import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, type Problem, send } from "./api.ts";
import { jsonText, parseJson } from "./json_numbers.ts";

export interface Asked<T> {
  readonly answer: T | null;
  /** The question that `answer` answers. */
  readonly of: unknown;
  readonly error: Problem | null;
  /** True while the answer belongs to an older text. */
  readonly stale: boolean;
}

/** POSTs `body` to `path` once it has not changed for `pause` milliseconds. A null body asks nothing. */
export function useAsked<T>(path: string, body: unknown, pause: number): Asked<T> {
  const key = body === null ? null : jsonText(body);
  const [state, setState] = useState<{ key: string | null; answer: T | null; of: unknown; error: Problem | null }>({
    key: null,
    answer: null,
    of: null,
    error: null,
  });
  const asked = useRef(false);
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(
      () => {
        asked.current = true;
        send<T>("POST", path, parseJson(key), { signal: abort.signal }).then(
          (answer) => setState({ key, answer, of: parseJson(key), error: null }),
          (error: unknown) => {
            if (error instanceof DOMException && error.name === "AbortError") return;
            setState((last) => ({ ...last, key, error: asProblem(error) }));
          },
        );
      },
      asked.current ? pause : 0,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [path, key]);
  return { answer: state.answer, of: state.of, error: state.error, stale: key !== state.key };
}
