// The table of all lists: a grid with windowed rows, one tab stop, selection, and new rows at its top.

import { Component, type ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { type List, MAX_ROWS } from "../lists.ts";
import { go, place, walk } from "../router.ts";
import { type Href, ownHref } from "../urls.ts";
import { Button } from "./link.tsx";
import { Empty, Fault, Skeleton } from "./small.tsx";
import { announce } from "./toast.tsx";
import { pixels, rowId, useWindow } from "./windowed.ts";

export interface Column<T> {
  readonly id: string;
  readonly title: string;
  /** Track of the grid: a token's length, `fr`, `ch`, `minmax(…)`. */
  readonly width: string;
  /** 1 is always drawn; 2 is dropped below 1,000 px, 3 below 1,200 px. On a phone only 1 is left. */
  readonly priority?: 1 | 2 | 3;
  readonly end?: boolean;
  readonly cell: (row: T) => ComponentChildren;
}

export interface TableProps<T> {
  readonly list: List<T>;
  readonly columns: readonly Column<T>[];
  /** What the rows are: "Executions". */
  readonly label: string;
  /** The page of a row. */
  readonly open?: (row: T) => Href | null;
  /** Called for `o`, and while rows are walked when something is open beside. */
  readonly beside?: (row: T) => void;
  readonly besideOpen?: boolean;
  /** The key of the row that is marked when the list is here: the one that is open beside. */
  readonly at?: string | null;
  readonly selectable?: boolean;
  /** Classes of a row. */
  readonly rowClass?: (row: T) => string;
  readonly empty: ComponentChildren;
  /** Rows can be expanded. */
  readonly expansion?: Expansion;
  /** Rows take the height that they need, without a scroller of their own: for short lists within a page. */
  readonly short?: boolean;
  /** False leaves the keys to another table of the page. */
  readonly keys?: boolean;
}

/** What the expanded row of a list has beneath it; null until that is known. */
export interface Expansion {
  /** What is beneath a row: "what it started". */
  readonly what: string;
  /** Each takes the height of a row. */
  readonly lines: readonly Line[] | null;
}

export interface Line {
  readonly key: string;
  readonly level: number;
  readonly text: ComponentChildren;
}

const AHEAD = 1300;

export function Table<T>(props: TableProps<T>) {
  const { list, columns, label, open, beside, besideOpen, selectable, rowClass, empty, short, keys = true, at } = props;
  const { expansion } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [row] = useState(() => pixels("--row-list"));
  const rows = list.rows.value;
  const active = Math.min(list.active.value, Math.max(0, rows.length - 1));
  const selected = list.selected.value;
  const keyOf = list.options.key;
  const anchor = useRef(0);
  // Lines take the places of rows: those behind the expanded row are so many places lower.
  const expanded = expansion ? list.expanded.value : null;
  const parent = (expanded === null ? undefined : list.index.value.get(expanded)) ?? -1;
  const lines = (parent >= 0 && expansion?.lines) || [];
  const placeOf = (at: number) => (at > parent ? at + lines.length : at);
  // Where the scroller was last seen; a new one is at its top.
  const reached = useRef<{ element: HTMLElement | null; top: number }>({ element: null, top: 0 });

  const onScroll = useCallback(
    (top: number, below: number) => {
      list.scrollTop = top;
      reached.current = { element: scroller.current, top };
      // A short table has no scroller of its own: it goes on by its button.
      if (!short && below < AHEAD && !list.paused.peek()) void list.more();
      if (top < 2 && list.fresh.value.length) list.showFresh();
    },
    [list, short],
  );
  // Before the window looks where the scroller is. Where it is already it is not set: that would lay the page out.
  useLayoutEffect(() => {
    const element = scroller.current;
    const top = reached.current.element === element ? reached.current.top : 0;
    if (element && top !== list.scrollTop) element.scrollTop = list.scrollTop;
  }, [list, list.loaded.value]);
  const places = rows.length + lines.length;
  const seen = useWindow(scroller, row, places, onScroll, list.scrollTop);
  const isDrawn = (place: number) => place >= seen.from && place < seen.to;

  useLayoutEffect(() => {
    const index = at ? list.index.peek().get(at) : undefined;
    if (index !== undefined) list.active.value = index;
  }, [at, list.loaded.value]);

  const reveal = (place: number) => {
    const element = scroller.current;
    if (!element) return;
    const top = place * row;
    if (top < element.scrollTop) element.scrollTop = top;
    // The head stays in sight and takes the room of a row.
    else if (top + 2 * row > element.scrollTop + element.clientHeight)
      element.scrollTop = top + 2 * row - element.clientHeight;
  };
  const move = (at: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, at));
    list.active.value = next;
    reveal(placeOf(next));
    const there = rows[next];
    if (besideOpen && there !== undefined) beside?.(there);
  };
  const enter = (at: number) => {
    const there = rows[at];
    const to = there === undefined ? null : open?.(there);
    if (!to) return;
    const stops = rows.map((one) => open?.(one)).filter((stop): stop is Href => Boolean(stop));
    const from = ownHref(place.value.url);
    if (from) walk.value = { from, stops };
    list.active.value = at;
    go(to);
  };
  const expand = (at: number, on: boolean) => {
    const there = rows[at];
    if (there !== undefined) list.expanded.value = on ? keyOf(there) : null;
  };
  // Lines that come are seen, and their row.
  const shown = useRef(lines.length);
  useLayoutEffect(() => {
    if (lines.length > shown.current) {
      reveal(parent + lines.length);
      reveal(parent);
    }
    shown.current = lines.length;
  }, [lines.length]);
  const page = () => Math.max(1, Math.floor((scroller.current?.clientHeight ?? row) / row) - 2);
  const range = (by: 1 | -1) => {
    list.selectRange(active, Math.max(0, Math.min(rows.length - 1, active + by)));
    move(active + by);
  };
  const toggle = (at: number) => {
    const there = rows[at];
    if (there === undefined) return;
    anchor.current = at;
    list.select(keyOf(there), !selected.has(keyOf(there)));
  };

  useKeys(
    label,
    !keys
      ? []
      : [
          { keys: ["j", "ArrowDown"], label: "Next row", run: () => move(active + 1) },
          { keys: ["k", "ArrowUp"], label: "Previous row", run: () => move(active - 1) },
          { keys: "Home", label: "First row", run: () => move(0) },
          { keys: "End", label: "Last row that is loaded", run: () => move(rows.length - 1) },
          { keys: "PageDown", label: "A page down", run: () => move(active + page()) },
          { keys: "PageUp", label: "A page up", run: () => move(active - page()) },
          { keys: "Enter", label: "Open the row", run: () => enter(active), when: Boolean(open) },
          {
            keys: "o",
            label: "Open the row beside the list",
            run: () => rows[active] !== undefined && beside?.(rows[active] as T),
            when: Boolean(beside),
          },
          {
            keys: "ArrowRight",
            label: `Show ${expansion?.what}`,
            run: () => expand(active, true),
            when: Boolean(expansion) && active !== parent,
          },
          {
            keys: "ArrowLeft",
            label: `Hide ${expansion?.what}`,
            run: () => expand(active, false),
            when: Boolean(expansion) && active === parent,
          },
          { keys: "x", label: "Select the row", run: () => toggle(active), when: Boolean(selectable) },
          {
            keys: ["Shift+ArrowDown", "J"],
            label: "Select a range downwards",
            run: () => range(1),
            when: Boolean(selectable),
          },
          {
            keys: ["Shift+ArrowUp", "K"],
            label: "Select a range upwards",
            run: () => range(-1),
            when: Boolean(selectable),
          },
          { keys: "*", label: "Select all of this filter", run: () => list.selectAll(), when: Boolean(selectable) },
          {
            keys: "Escape",
            label: "Clear the selection",
            run: () => list.clearSelection(),
            when: Boolean(selectable) && selected.size > 0,
          },
        ],
  );

  const fresh = list.fresh.value.length;
  useEffect(() => {
    if (fresh) announce(`${plural(fresh, "new row")}`);
  }, [fresh]);

  // The grid is one tab stop: what is in its cells is reached by its keys.
  useLayoutEffect(() => {
    const reached = ":is(a, button, input):not([tabindex='-1'], .table-line *)";
    scroller.current?.querySelectorAll<HTMLElement>(reached).forEach((one) => {
      one.tabIndex = -1;
    });
  });

  const tracks = useMemo(() => {
    const of = (priority: number) => {
      const kept = columns.filter((one) => (one.priority ?? 1) <= priority).map((one) => one.width);
      const before = [selectable && priority > 1, Boolean(expansion)].filter(Boolean).map(() => "var(--target)");
      return [...before, ...kept].join(" ");
    };
    return { "--tracks-1": of(1), "--tracks-2": of(2), "--tracks-3": of(3) };
  }, [columns, selectable, Boolean(expansion)]);

  if (!list.loaded.value && !list.error.value) return <Skeleton rows={short ? 4 : 14} />;
  const onward = list.loaded.value && !list.complete.value;
  if (list.error.value && !rows.length)
    return <Fault error={list.error.value} retry={() => void (onward ? list.more() : list.reload())} />;
  if (!rows.length && !fresh) return onward ? <Further list={list} /> : <>{empty}</>;

  return (
    <div class={short ? "table short" : "table"} style={tracks}>
      <div
        class="table-body"
        ref={scroller}
        role={expansion ? "treegrid" : "grid"}
        aria-label={label}
        aria-rowcount={list.complete.value ? rows.length + 1 : -1}
        aria-multiselectable={selectable || undefined}
        aria-activedescendant={isDrawn(placeOf(active)) ? rowId(label, active) : undefined}
        tabIndex={0}
      >
        <div class="table-head" role="row" aria-rowindex={1}>
          {selectable && (
            <span role="columnheader" class="head-select">
              <span class="off-screen">Selected</span>
            </span>
          )}
          {expansion && (
            <span role="columnheader" class="head-expand">
              <span class="off-screen">{expansion.what}</span>
            </span>
          )}
          {columns.map((column) => (
            <span key={column.id} role="columnheader" class={cellClass(column)}>
              {column.title || <span class="off-screen">{column.id}</span>}
            </span>
          ))}
        </div>
        <div class="table-sizer" role="rowgroup" style={{ height: `${places * row}px` }}>
          {Array.from({ length: seen.to - seen.from }, (_, offset) => {
            const place = seen.from + offset;
            const line = lines[place - parent - 1];
            if (line && place > parent)
              return (
                <div
                  key={`${expanded} ${line.key}`}
                  role="row"
                  aria-level={line.level}
                  class="table-line"
                  style={{ transform: `translateY(${place * row}px)` }}
                >
                  <span role="gridcell" class="cell" aria-colspan={columns.length}>
                    {line.text}
                  </span>
                </div>
              );
            const at = place > parent ? place - lines.length : place;
            const one = rows[at] as T;
            const id = keyOf(one);
            const chosen = selected.has(id);
            return (
              <div
                key={id}
                id={rowId(label, at)}
                role="row"
                aria-rowindex={at + 2}
                {...(expansion && { "aria-level": 1, "aria-expanded": at === parent && lines.length > 0 })}
                aria-selected={selectable ? chosen : at === active}
                class={[
                  "table-row",
                  at === active ? "active" : "",
                  chosen ? "chosen" : "",
                  rowClass?.(one) ?? "",
                ].join(" ")}
                style={{ transform: `translateY(${place * row}px)` }}
                onClick={(event) => {
                  const target = event.target as HTMLElement;
                  const link = target.closest("a");
                  // A link to somewhere else is followed; one to the row's own page opens the row.
                  if (target.closest("button, input, label")) return;
                  if (link && link.getAttribute("href") !== open?.(one)) return;
                  if (event.metaKey || event.ctrlKey) return;
                  if (selectable && event.shiftKey) {
                    list.selectRange(anchor.current, at);
                    return;
                  }
                  event.preventDefault();
                  if (besideOpen) move(at);
                  else enter(at);
                }}
              >
                {selectable && (
                  <span role="gridcell" class="cell-select">
                    <label>
                      <input
                        type="checkbox"
                        checked={chosen}
                        aria-label="Select"
                        onClick={(event) => {
                          if (event.shiftKey) list.selectRange(anchor.current, at);
                          else toggle(at);
                        }}
                      />
                    </label>
                  </span>
                )}
                {expansion && (
                  <span role="gridcell" class="cell-expand">
                    <button
                      type="button"
                      class="fold"
                      aria-label={`${at === parent ? "Hide" : "Show"} ${expansion.what}`}
                      onClick={() => expand(at, at !== parent)}
                    >
                      {at === parent ? "▾" : "▸"}
                    </button>
                  </span>
                )}
                <Cells row={one} columns={columns} />
              </div>
            );
          })}
        </div>
      </div>
      {fresh > 0 && (
        <button
          type="button"
          class="table-fresh"
          onClick={() => {
            list.showFresh();
            if (scroller.current) scroller.current.scrollTop = 0;
          }}
        >
          {count(fresh)} new ↑
        </button>
      )}
      {list.skipped.value > 0 && (
        <p class="table-note">
          {count(list.skipped.value)} not shown
          <button type="button" class="link" onClick={() => void list.reload()}>
            load
          </button>
        </p>
      )}
      <End list={list} short={short ?? false} />
      {list.error.value && <Fault error={list.error.value} retry={() => void list.more()} />}
    </div>
  );
}

/** In place of an empty list: what is looked for may be further back. */
function Further<T>({ list }: { list: List<T> }) {
  return (
    <Empty title="Nothing was found yet.">
      <p>None of the newest rows is one of these. Older rows are not looked at yet.</p>
      <p>
        <Button busy={list.loading.value} onClick={() => void list.more()}>
          Look further
        </Button>
      </p>
    </Empty>
  );
}

/** Below rows that are not all: says so, and how one gets to the others. */
function End<T>({ list, short }: { list: List<T>; short: boolean }) {
  if (list.full)
    return (
      <p class="table-note">Only the first {count(MAX_ROWS)} are listed. Narrow the filters to see the others.</p>
    );
  if (list.paused.value)
    return (
      <p class="table-note">
        Older rows are not looked at yet.{" "}
        <button type="button" class="link" aria-busy={list.loading.value} onClick={() => void list.more()}>
          look further
        </button>
      </p>
    );
  if (!short || list.complete.value) return null;
  return (
    <p class="table-more">
      <Button busy={list.loading.value} onClick={() => void list.more()}>
        Show more
      </Button>
    </p>
  );
}

/** The cells of a row. They are drawn anew when the row is another one, not when the rows around it move. */
class Cells<T> extends Component<{ row: T; columns: readonly Column<T>[] }> {
  override shouldComponentUpdate(next: { row: T; columns: readonly Column<T>[] }, state: unknown): boolean {
    // A signal that a cell reads sets another state.
    return next.row !== this.props.row || next.columns !== this.props.columns || state !== this.state;
  }

  override render() {
    const { row, columns } = this.props;
    return columns.map((column) => (
      <span key={column.id} role="gridcell" class={cellClass(column)}>
        {column.cell(row)}
      </span>
    ));
  }
}

function cellClass<T>(column: Column<T>): string {
  return `cell c-${column.id} p${column.priority ?? 1} ${column.end ? "end" : ""}`;
}

/** The bar for what is selected. `total` is what all of the filter would be, when it is known. */
export function SelectionBar<T>({ list, children }: { list: List<T>; children: ComponentChildren }) {
  const chosen = list.selected.value.size;
  if (!chosen) return null;
  return (
    <div class="selection-bar" role="region" aria-label="Selection">
      <strong>{list.allSelected.value ? "all of this filter" : `${count(chosen)} selected`}</strong>
      {!list.allSelected.value && (
        <button type="button" class="link" onClick={() => list.selectAll()}>
          all of this filter
        </button>
      )}
      {children}
      <span class="spacer" />
      <Button kind="plain" keys="Esc" onClick={() => list.clearSelection()}>
        Clear
      </Button>
    </div>
  );
}
