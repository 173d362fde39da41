// Filters of a list. They read and write the address only.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useData } from "../data.ts";
import { useKeys } from "../keys.ts";
import { go, hereWith, path, place, setQuery } from "../router.ts";
import type { Page } from "../rows.ts";
import { preference, prefer } from "../session.ts";
import { ownHref } from "../urls.ts";
import { nameText } from "../format.ts";
import { Button, Link } from "./link.tsx";

export interface Choice {
  readonly value: string;
  readonly label?: string;
}

export type Filter =
  | {
      readonly kind: "choice";
      readonly name: string;
      readonly label: string;
      readonly choices: readonly Choice[];
      /** Several values mean "or". */
      readonly several?: boolean;
    }
  | {
      readonly kind: "text";
      readonly name: string;
      readonly label: string;
      readonly placeholder?: string;
      /** The route whose names are suggested. It is asked when the field is used, not when the page opens. */
      readonly suggest?: string;
      readonly several?: boolean;
    }
  | { readonly kind: "switch"; readonly name: string; readonly label: string };

/** Ranges of time that lists offer. */
export const SINCE: readonly Choice[] = [
  { value: "15m", label: "15 minutes" },
  { value: "1h", label: "1 hour" },
  { value: "24h", label: "24 hours" },
  { value: "7d", label: "7 days" },
  { value: "30d", label: "30 days" },
];

const PAUSE = 120;

/** The chosen values of filters as a query for the API. */
export function chosenFilters(filters: readonly Filter[]): Record<string, string | readonly string[]> {
  const query: Record<string, string | readonly string[]> = {};
  for (const filter of filters) {
    const values = place.value.query.getAll(filter.name).filter(Boolean);
    if (!values.length) continue;
    query[filter.name] = filter.kind === "switch" ? "true" : values.length > 1 ? values : (values[0] as string);
  }
  return query;
}

/** Removes every filter. */
export function clearFilters(filters: readonly Filter[]): void {
  setQuery(Object.fromEntries(filters.map((filter) => [filter.name, null])));
}

interface Chip {
  readonly name: string;
  readonly value: string;
  readonly text: string;
}

function chipsOf(filters: readonly Filter[]): Chip[] {
  return filters.flatMap((filter) =>
    place.value.query
      .getAll(filter.name)
      .filter(Boolean)
      .map((value) => {
        if (filter.kind === "switch") return { name: filter.name, value, text: filter.label };
        const known = filter.kind === "choice" ? filter.choices.find((choice) => choice.value === value) : undefined;
        return { name: filter.name, value, text: `${filter.label} ${nameText(known?.label ?? value)}` };
      }),
  );
}

function remove(chip: Chip): void {
  setQuery({ [chip.name]: place.value.query.getAll(chip.name).filter((value) => value !== chip.value) });
}

/** The bar. The first text filter is the one that `/` goes to. `saved` names the list for saved views. */
export function FilterBar({ filters, saved, children }: {
  filters: readonly Filter[];
  saved?: string;
  children?: preact.ComponentChildren;
}) {
  const bar = useRef<HTMLDivElement>(null);
  const chips = chipsOf(filters);
  useKeys("Filters", [
    { keys: "/", label: "Go to the filter", run: () => bar.current?.querySelector<HTMLInputElement>("input")?.focus() },
    { keys: "F", label: "Remove all filters", run: () => clearFilters(filters), when: chips.length > 0 },
  ]);
  return (
    <div class="filter-bar" role="search" aria-label="Filters" ref={bar}>
      {filters.map((filter) => {
        if (filter.kind === "text") return <TextFilter key={filter.name} of={filter} last={chips.at(-1)} />;
        if (filter.kind === "choice") return <ChoiceFilter key={filter.name} of={filter} />;
        return (
          <label key={filter.name} class="filter-switch">
            <input
              type="checkbox"
              checked={place.value.query.has(filter.name)}
              onChange={(event) => setQuery({ [filter.name]: event.currentTarget.checked })}
            />
            {filter.label}
          </label>
        );
      })}
      {saved && <SavedViews list={saved} filtered={chips.length > 0} />}
      {children}
      {chips.length > 0 && (
        <div class="chips">
          {chips.map((chip) => (
            <button
              key={`${chip.name}=${chip.value}`}
              type="button"
              class="chip"
              title={`Remove the filter ${chip.text}`}
              onClick={() => remove(chip)}
            >
              <bdi>{chip.text}</bdi> <span aria-hidden="true">✕</span>
              <span class="off-screen">: remove</span>
            </button>
          ))}
          {chips.length > 1 && (
            <button type="button" class="link" onClick={() => clearFilters(filters)}>
              clear
            </button>
          )}
        </div>
      )}
    </div>
  );
}

/** What a route of suggestions answers: names, or a page of rows that have one. */
type Names = readonly string[] | Page<{ name: string }>;

const SUGGESTED = 1000;

function namesOf(found: Names | null): readonly string[] {
  if (found === null) return [];
  return "items" in found ? found.items.map((one) => one.name) : found;
}

function TextFilter({ of, last }: { of: Extract<Filter, { kind: "text" }>; last: Chip | undefined }) {
  const inUrl = of.several ? "" : (place.value.query.get(of.name) ?? "");
  const [text, setText] = useState(inUrl);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const typing = useRef(false);
  useEffect(() => {
    if (!typing.current) setText(inUrl);
  }, [inUrl]);
  const commit = (value: string) => {
    typing.current = false;
    if (!of.several) setQuery({ [of.name]: value.trim() || null });
    else if (value.trim()) {
      setQuery({ [of.name]: [...new Set([...place.value.query.getAll(of.name), value.trim()])] });
      setText("");
    }
  };
  const [used, setUsed] = useState(false);
  const found = useData<Names>(used && of.suggest ? of.suggest : null, { limit: SUGGESTED });
  const suggestions = useMemo(() => namesOf(found.data), [found.data]);
  const listId = of.suggest ? `suggest-${of.name}` : undefined;
  return (
    <>
      <input
        type="search"
        class="filter-text"
        aria-label={of.label}
        placeholder={of.placeholder ?? of.label}
        list={listId}
        value={text}
        spellcheck={false}
        autocomplete="off"
        onFocus={() => setUsed(true)}
        onInput={(event) => {
          const { value } = event.currentTarget;
          typing.current = true;
          setText(value);
          clearTimeout(timer.current);
          // A name is complete when it is a suggestion or Enter is pressed; other texts follow the typing.
          if (!of.several) timer.current = setTimeout(() => commit(value), PAUSE);
          else if (suggestions.includes(value) && !(event as InputEvent).data) commit(value);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            clearTimeout(timer.current);
            commit(text);
          } else if (event.key === "Backspace" && !text && last) remove(last);
          else if (event.key === "Escape") {
            event.stopPropagation();
            event.currentTarget.blur();
          }
        }}
        onBlur={() => of.several && text && commit(text)}
      />
      {listId && (
        <datalist id={listId}>
          {suggestions.map((one) => <option key={one} value={one} />)}
        </datalist>
      )}
    </>
  );
}

function ChoiceFilter({ of }: { of: Extract<Filter, { kind: "choice" }> }) {
  const chosen = place.value.query.getAll(of.name);
  const unknown = chosen.filter((value) => value && !of.choices.some((choice) => choice.value === value));
  const single = chosen[0] ?? "";
  return (
    <select
      class="filter-choice"
      aria-label={of.label}
      value={of.several ? "" : single}
      onChange={(event) => {
        const { value } = event.currentTarget;
        if (!of.several) setQuery({ [of.name]: value || null });
        else if (value) {
          const next = chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value];
          setQuery({ [of.name]: next });
          event.currentTarget.value = "";
        }
      }}
    >
      <option value="">{of.label}</option>
      {[...of.choices, ...unknown.map((value) => ({ value, label: undefined }))].map((choice) => (
        <option key={choice.value} value={choice.value}>
          {of.several && chosen.includes(choice.value) ? "✓ " : ""}
          {choice.label ?? choice.value}
        </option>
      ))}
    </select>
  );
}

interface View {
  readonly name: string;
  readonly url: string;
}

function SavedViews({ list, filtered }: { list: string; filtered: boolean }) {
  const [naming, setNaming] = useState(false);
  const [name, setName] = useState("");
  const views = preference<readonly View[]>(`views.${list}`, []);
  // A view is the filters, without what is open beside the list.
  const here = hereWith({ beside: null });
  const save = () => {
    if (!name.trim()) return;
    const others = views.filter((view) => view.name !== name.trim());
    void prefer({ [`views.${list}`]: [...others, { name: name.trim(), url: here }] });
    setName("");
    setNaming(false);
  };
  return (
    <span class="views">
      {views.map((view) => {
        const to = ownHref(view.url);
        return (
          to && (
            <span key={view.name} class="view">
              <Link to={to} aria-current={to === here ? "page" : undefined}>
                <bdi>{nameText(view.name)}</bdi>
              </Link>
              {to === here && (
                <button
                  type="button"
                  aria-label={`Delete the view ${view.name}`}
                  onClick={() => void prefer({ [`views.${list}`]: views.filter((one) => one !== view) })}
                >
                  ✕
                </button>
              )}
            </span>
          )
        );
      })}
      {naming ? (
        <input
          aria-label="Name of the view"
          placeholder="name, Enter"
          ref={(field) => field?.focus()}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") save();
            if (event.key === "Escape") setNaming(false);
          }}
          onBlur={() => setNaming(false)}
        />
      ) : (
        filtered && (
          <Button kind="plain" onClick={() => setNaming(true)}>
            Save view
          </Button>
        )
      )}
    </span>
  );
}

/** Goes to the list without filters. */
export function showAll(): void {
  const to = ownHref(path.value);
  if (to) go(to);
}
