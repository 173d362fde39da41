// Lists whose rows come at once: the table's list of them, which keeps its active row when they are fetched anew.

import { useLayoutEffect, useMemo } from "preact/hooks";
import type { Data } from "./data.ts";
import { List } from "./lists.ts";

/** The list of what `rows` takes from the data. */
export function useRows<D, T>(data: Data<D>, rows: (data: D) => readonly T[], key: (row: T) => string): List<T> {
  const list = useMemo(() => {
    const made = new List<T>({ path: "", key });
    made.complete.value = true;
    return made;
  }, []);
  list.reload = () => {
    data.reload();
    return Promise.resolve();
  };
  const found = data.data === null ? null : rows(data.data);
  const before = found && found.length === list.rows.peek().length ? list.rows.peek() : null;
  const same = before !== null && found !== null && found.every((row, at) => row === before[at]);
  useLayoutEffect(() => {
    if (found !== null && !same) list.rows.value = found;
    if (found !== null) list.loaded.value = true;
    list.error.value = data.error;
  });
  return list;
}
