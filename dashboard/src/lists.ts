// Lists of rows: pages fetched by keyset, rows put in by the stream, selection and scroll position. A list is kept by
// its address, so that "back" shows it as it was left.

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { asProblem, get, type Problem } from "./api.ts";
import { every } from "./clock.ts";
import type { Page } from "./rows.ts";
import { type Query, queryText } from "./urls.ts";

export const MAX_ROWS = 5000;
const PAGE = 100;
const MAX_PAGE = 1000;
// A page looks at a bounded part of the rows: one of a rare filter may be empty and still have others behind it. This
// many are read before the person is asked whether to look further.
const PAGES = 5;

export interface ListOptions<T> {
  /** The route below /api/v1. */
  readonly path: string;
  readonly query?: Query;
  readonly key: (row: T) => string;
  /** Rows of a page. */
  readonly limit?: number;
  /** Says whether a row that the stream brings belongs to this list; without it the stream changes known rows only. */
  readonly accepts?: (row: T) => boolean;
}

/** Pages that were read one after another. */
interface Walk<T> {
  readonly rows: readonly T[];
  readonly next: string | null;
  readonly pages: number;
}

export class List<T> {
  readonly rows: Signal<readonly T[]> = signal([]);
  readonly error: Signal<Problem | null> = signal(null);
  readonly loading = signal(false);
  /** True once the last page is here. */
  readonly complete = signal(false);
  /** True when the last pages had too few rows and older ones are not looked at yet: one is asked before they are. */
  readonly paused = signal(false);
  /** True once the first page is here. */
  readonly loaded = signal(false);
  /** New rows that wait because the list is not at its top. */
  readonly fresh: Signal<readonly T[]> = signal([]);
  /** Rows that the stream left out. */
  readonly skipped = signal(0);
  /** Keys of the selected rows. */
  readonly selected: Signal<ReadonlySet<string>> = signal(new Set());
  /** True when "all of this filter" is selected. */
  readonly allSelected = signal(false);
  readonly active = signal(0);
  /** The key of the row that is expanded. */
  readonly expanded: Signal<string | null> = signal(null);
  readonly index: ReadonlySignal<ReadonlyMap<string, number>>;
  scrollTop = 0;
  private next: string | null = null;
  /** Pages in which the rows that are shown were found. */
  private pages = 0;
  private abort: AbortController | null = null;

  constructor(readonly options: ListOptions<T>) {
    this.index = computed(() => new Map(this.rows.value.map((row, at) => [options.key(row), at])));
  }

  /** True while one reads at the top: new rows may come in there. What a row has beneath it would be moved by them. */
  get atTop(): boolean {
    return this.scrollTop < 2 && this.active.value === 0 && this.expanded.value === null;
  }

  /** True when there are more rows than a list keeps. */
  get full(): boolean {
    return this.rows.value.length >= MAX_ROWS && !this.complete.value;
  }

  /** Fetches what is shown anew; it stays until the answer is here. New rows wait unless one reads at the top. */
  async reload(atTop = true): Promise<void> {
    const abort = this.begin();
    const { length } = this.rows.value;
    const known = this.index.value;
    // As many rows as before: the place where one reads is to be there again.
    const missing = (rows: readonly T[]) => {
      if (!rows.length) return Math.max(1, length);
      const first = atTop ? 0 : rows.findIndex((row) => known.has(this.options.key(row)));
      return first < 0 ? length : length - (rows.length - first);
    };
    try {
      const found = await this.walk(null, abort.signal, Math.max(PAGES, this.pages), PAGE, missing);
      if (this.abort !== abort) return;
      this.put(found.rows, atTop);
      this.pages = found.pages;
      this.skipped.value = 0;
      this.loaded.value = true;
      this.active.value = Math.min(this.active.value, Math.max(0, this.rows.value.length - 1));
      this.ended(found.next, found.rows.length < Math.max(1, length));
    } catch (error) {
      this.failed(error, abort);
    }
  }

  /** Takes over rows that were fetched anew. */
  private put(rows: readonly T[], atTop: boolean): void {
    const known = this.index.value;
    // Rows above the first one that is shown are new. Without any that is shown, they are another list.
    const first = atTop ? 0 : Math.max(0, rows.findIndex((row) => known.has(this.options.key(row))));
    this.fresh.value = rows.slice(0, first);
    this.rows.value = rows.slice(first);
  }

  /** Fetches the next page, and those behind it while they are empty. */
  async more(): Promise<void> {
    const { next } = this;
    if (this.loading.value || this.complete.value || next === null || this.rows.value.length >= MAX_ROWS) return;
    const abort = this.begin();
    const isNew = (row: T) => !this.index.value.has(this.options.key(row));
    const missing = (rows: readonly T[]) => (rows.some(isNew) ? 0 : 1);
    try {
      const room = MAX_ROWS - this.rows.value.length;
      const found = await this.walk(next, abort.signal, PAGES, Math.min(room, this.options.limit ?? PAGE), missing);
      if (this.abort !== abort) return;
      const added = found.rows.filter(isNew);
      this.rows.value = [...this.rows.value, ...added];
      this.pages += found.pages;
      this.ended(found.next, !added.length);
    } catch (error) {
      this.failed(error, abort);
    }
  }

  private begin(): AbortController {
    this.abort?.abort();
    this.abort = new AbortController();
    this.loading.value = true;
    return this.abort;
  }

  /** Reads pages from a cursor on until no row is missing, at most `most` of them. */
  private async walk(
    before: string | null,
    signal: AbortSignal,
    most: number,
    least: number,
    missing: (rows: readonly T[]) => number,
  ): Promise<Walk<T>> {
    const rows: T[] = [];
    let next = before;
    let pages = 0;
    let lacks = missing(rows);
    do {
      const limit = Math.min(MAX_PAGE, Math.max(least, lacks), MAX_ROWS - rows.length);
      const page = await get<Page<T>>(this.options.path, { ...this.options.query, limit, before: next }, { signal });
      rows.push(...page.items);
      next = page.next;
      pages += 1;
      lacks = missing(rows);
    } while (next !== null && lacks > 0 && pages < most && rows.length < MAX_ROWS);
    return { rows, next, pages };
  }

  private ended(next: string | null, lacks: boolean): void {
    this.next = next;
    this.complete.value = next === null;
    this.paused.value = next !== null && lacks && !this.full;
    this.error.value = null;
    this.loading.value = false;
  }

  private failed(error: unknown, abort: AbortController): void {
    if (this.abort !== abort || (error instanceof DOMException && error.name === "AbortError")) return;
    this.error.value = asProblem(error);
    this.loading.value = false;
  }

  /** Applies rows of the stream: known ones are replaced in place, new ones go to the top or wait there. */
  apply(rows: readonly T[], atTop: boolean): void {
    const { key, accepts } = this.options;
    const known = this.index.value;
    let changed: T[] | null = null;
    const added = new Map<string, T>();
    for (const row of rows) {
      const id = key(row);
      const at = known.get(id);
      if (at !== undefined) (changed ??= [...this.rows.value])[at] = row;
      else if (accepts?.(row)) added.set(id, row);
    }
    if (changed) this.rows.value = changed;
    if (!added.size) return;
    const waiting = new Map(this.fresh.value.map((row) => [key(row), row]));
    for (const [id, row] of added) waiting.set(id, row);
    const newest = [...waiting.values()].sort((a, b) => (key(a) < key(b) ? 1 : -1));
    if (atTop) this.show(newest);
    else if (newest.length > MAX_ROWS) {
      this.skipped.value += newest.length - MAX_ROWS;
      this.fresh.value = newest.slice(0, MAX_ROWS);
    } else this.fresh.value = newest;
  }

  /** Puts the waiting rows at the top. */
  showFresh(): void {
    this.show(this.fresh.value);
  }

  private show(rows: readonly T[]): void {
    const all = [...rows, ...this.rows.value];
    this.fresh.value = [];
    if (this.active.value > 0) this.active.value += rows.length;
    if (all.length > MAX_ROWS) {
      // The farthest rows are dropped: the list does not end with the last one that is left.
      all.length = MAX_ROWS;
      this.complete.value = false;
    }
    this.rows.value = all;
  }

  select(key: string, on: boolean): void {
    const selected = new Set(this.selected.value);
    if (on) selected.add(key);
    else selected.delete(key);
    this.selected.value = selected;
    this.allSelected.value = false;
  }

  selectRange(from: number, to: number): void {
    const selected = new Set(this.selected.value);
    for (let at = Math.min(from, to); at <= Math.max(from, to); at++) {
      const row = this.rows.value[at];
      if (row !== undefined) selected.add(this.options.key(row));
    }
    this.selected.value = selected;
    this.allSelected.value = false;
  }

  selectAll(): void {
    this.selected.value = new Set(this.rows.value.map(this.options.key));
    this.allSelected.value = true;
  }

  clearSelection(): void {
    if (this.selected.value.size) this.selected.value = new Set();
    this.allSelected.value = false;
  }
}

/** A list of rows that are here already. Keep it with `useMemo`. */
export function fixedList<T>(rows: readonly T[], key: (row: T) => string): List<T> {
  const list = new List<T>({ path: "", key });
  list.rows.value = rows;
  list.complete.value = true;
  list.loaded.value = true;
  return list;
}

const kept = new Map<string, List<unknown>>();
const KEPT = 12;

/** What a list asks for first. */
export function firstPage(path: string, query: Query = {}): readonly [string, Query] {
  return [path, { ...query, limit: PAGE }];
}

/** The list of an address: the kept one, or a new one that begins to load. */
export function listOf<T>(options: ListOptions<T>): List<T> {
  const name = options.path + queryText(options.query ?? {});
  let list = kept.get(name) as List<T> | undefined;
  kept.delete(name);
  if (!list) {
    list = new List(options);
    void list.reload();
  }
  kept.set(name, list as List<unknown>);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
  return list;
}

/** The list of an address, loaded again when its page is opened: for rows that no stream brings. */
export function useFreshList<T>(options: ListOptions<T>): List<T> {
  return useMemo(() => {
    const found = listOf<T>(options);
    if (found.loaded.peek()) void found.reload();
    return found;
  }, [options.path + queryText(options.query ?? {})]);
}

/** Fetches the first page of a list anew every so many seconds. One that was read further stays as it is. */
export function useRenewed<T>(list: List<T>, seconds: number): void {
  useEffect(
    () =>
      every(seconds, () => {
        const isShort = list.rows.peek().length <= PAGE && !list.paused.peek();
        if (isShort && !list.loading.peek()) void list.reload(list.atTop);
      }),
    [list, seconds],
  );
}

export function forgetLists(): void {
  kept.clear();
}
