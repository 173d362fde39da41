// The palette behind Ctrl K: pages, functions, triggers, sources, actions of this page, and ids by their beginning.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api.ts";
import { best } from "../fuzzy.ts";
import { nameText } from "../format.ts";
import { scopes } from "../keys.ts";
import { go } from "../router.ts";
import type { Page, SearchResult } from "../rows.ts";
import { can } from "../session.ts";
import { routeOf } from "../routes.ts";
import { markOf, pageOf } from "../search_results.ts";
import { NAVIGATION } from "../shell/navigation.ts";
import { shortId } from "../short_ids.ts";
import { store, stored } from "../storage.ts";
import { type Href, ownHref, urlOf, urls } from "../urls.ts";
import { Dialog } from "./dialog.tsx";
import type { MarkName } from "./marks.ts";
import { MARKS } from "./marks.ts";
import { Mark } from "./small.tsx";
import { jsonText, parseJson } from "../json_numbers.ts";

interface Item {
  readonly id: string;
  readonly text: string;
  readonly note: string;
  /** The short id of what has no name of its own: it tells apart what is called the same. */
  readonly short?: string;
  readonly mark: MarkName;
  readonly to?: Href;
  readonly run?: () => void;
  readonly keys?: string;
}

/** What the palette offers: everything, or only the actions of the page; null while it is closed. */
export const palette = signal<"everything" | "actions" | null>(null);
const names = signal<readonly Item[]>([]);

function item(kind: string, name: string): Item | null {
  const to = urlOf(kind, name);
  return to && { id: `${kind}:${name}`, text: name, note: kind.replace("_", " "), mark: markOf(kind), to };
}

/** Loads the names of functions and triggers. An answer that did not change is taken from memory. */
async function loadNames(): Promise<void> {
  const read = async (kind: string, path: string) => {
    const page = await get<Page<{ name: string }>>(path, { limit: 1000, fields: "name" });
    return page.items.map((row) => item(kind, row.name)).filter((one): one is Item => one !== null);
  };
  const lists = await Promise.allSettled([read("function", "/functions"), read("trigger", "/triggers")]);
  names.value = lists.flatMap((list) => (list.status === "fulfilled" ? list.value : []));
}

function recent(): readonly Item[] {
  try {
    const urls = parseJson(stored("recent") ?? "[]") as (Omit<Item, "id" | "to"> & { url: string })[];
    return urls.flatMap((one) => {
      const to = ownHref(one.url);
      return to && one.mark in MARKS ? [{ ...one, id: `recent:${one.url}`, to }] : [];
    });
  } catch {
    return [];
  }
}

function remember(chosen: Item): void {
  if (!chosen.to) return;
  const rest = recent().filter((one) => one.to !== chosen.to);
  const list = [chosen, ...rest].slice(0, 8).map(({ id: _, to, ...one }) => ({ ...one, url: to }));
  store("recent", jsonText(list));
}

function pages(): readonly Item[] {
  return NAVIGATION.flatMap((group) =>
    group.entries
      .filter((entry) => can(entry.needs) && routeOf(entry.to()))
      .map((entry) => ({
        id: `page:${entry.id}`,
        text: entry.title,
        note: "page",
        mark: entry.mark,
        to: entry.to(),
        ...(entry.key ? { keys: `g ${entry.key}` } : {}),
      })),
  );
}

// Keys that move about, and those of the palette itself.
const NO_ACTION = /\b(row|rows|line|lines|range|palette|actions)\b|page (up|down)|^up$/i;

/** What can be done here, actions of the page first. */
function actions(): readonly Item[] {
  return [...scopes.value].reverse().flatMap(({ id, scope }) =>
    scope.bindings
      .filter((one) => one.when !== false && scope.title !== "Pages" && !NO_ACTION.test(one.label))
      .map((one) => ({
        id: `action:${id}:${one.label}`,
        text: one.label,
        note: scope.title.toLowerCase(),
        mark: "trigger" as const,
        keys: [one.keys].flat()[0] as string,
        run: () => one.run(new KeyboardEvent("keydown")),
      })),
  );
}

const looksLikeId = (text: string) => /^[0-9a-f]{8}[0-9a-f-]*$/i.test(text) || /^[0-9a-hjkmnp-tv-z]{10}$/i.test(text);

export function Palette() {
  if (!palette.value) return null;
  return <Open key={palette.value} only={palette.value === "actions"} close={() => (palette.value = null)} />;
}

function Open({ only, close }: { only: boolean; close: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [found, setFound] = useState<readonly Item[]>([]);
  useEffect(() => {
    if (!only) void loadNames();
  }, []);
  useEffect(() => {
    const text = typed.trim();
    if (only || text.length < 3) {
      setFound([]);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(
      async () => {
        try {
          const items = await get<readonly SearchResult[]>("/search", { q: text }, { signal: abort.signal });
          setFound(items.flatMap((one) => searchItem(one) ?? []));
        } catch {
          // What is typed goes on being found among the names; the page of the text says what failed.
          setFound([]);
        }
      },
      looksLikeId(text) ? 0 : 120,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [typed]);
  const items = useMemo(() => {
    if (only) return typed ? best(typed, actions(), (one) => one.text, 30) : actions();
    const known = typed ? [...pages(), ...names.value, ...actions()] : [...recent(), ...pages(), ...actions()];
    const chosen = typed ? best(typed, known, (one) => one.text, 30) : known.slice(0, 30);
    const seen = new Set<string>();
    const all = [...(looksLikeId(typed.trim()) ? [...found, ...chosen] : [...chosen, ...found])].filter((one) => {
      const key = one.to ?? one.id;
      return !seen.has(key) && seen.add(key);
    });
    const text = typed.trim();
    return text
      ? [...all, { id: "find", text, note: "find everywhere", mark: "nomatch" as const, to: urls.find(text) }]
      : all;
  }, [typed, found, names.value]);
  const chosen = Math.min(at, items.length - 1);
  const run = (one: Item | undefined) => {
    if (!one) return;
    close();
    remember(one);
    // An action may open a dialog: the palette's own has to be gone.
    requestAnimationFrame(() => (one.to ? go(one.to) : one.run?.()));
  };
  return (
    <Dialog title={only ? "Actions" : "Find"} onClose={close}>
      <div class="palette">
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={items.length ? `palette-${chosen}` : undefined}
          aria-label={only ? "Actions" : "Find"}
          placeholder={only ? "An action of this page" : "A page, function, trigger, source, id or action"}
          spellcheck={false}
          autocomplete="off"
          value={typed}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (by) {
              event.preventDefault();
              const next = (chosen + by + items.length) % Math.max(1, items.length);
              setAt(next);
              document.getElementById(`palette-${next}`)?.scrollIntoView({ block: "nearest" });
            } else if (event.key === "Enter") {
              event.preventDefault();
              run(items[chosen]);
            } else if (event.key === "Escape") {
              event.preventDefault();
              event.stopPropagation();
              close();
            }
          }}
        />
        <div id="palette-list" role="listbox" aria-label="Found" class="palette-list">
          {items.map((one, index) => (
            <div
              key={one.id}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === chosen}
              class={index === chosen ? "palette-item active" : "palette-item"}
              onMouseMove={() => setAt(index)}
              onClick={() => run(one)}
            >
              <Mark name={one.mark} tone="off" />
              <bdi class="palette-text">{nameText(one.text)}</bdi>
              {one.short && <span class="mono dim">{one.short}</span>}
              <span class="dim">{one.note}</span>
              {one.keys && <kbd>{one.keys}</kbd>}
            </div>
          ))}
        </div>
      </div>
    </Dialog>
  );
}

function searchItem(one: SearchResult): Item | null {
  const to = pageOf(one);
  return (
    to && {
      id: `${one.kind}:${one.id ?? one.name}`,
      text: one.name,
      note: one.kind.replace("_", " "),
      mark: markOf(one.kind),
      to,
      ...(one.id ? { short: shortId(one.id) } : {}),
    }
  );
}
