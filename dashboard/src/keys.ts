// All keys of the dashboard: one registry, which also draws the list behind `?`.

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Binding {
  /** The keys: `j`, `Shift+F`, `Ctrl+K` (also ⌘), `g x` for two letters one after the other, `Enter`. */
  readonly keys: string | readonly string[];
  /** What it does, for the list. */
  readonly label: string;
  readonly run: (event: KeyboardEvent) => void;
  /** The key does nothing, and is not listed, while this is false. */
  readonly when?: boolean;
}

/** Who is asked first: a dialog or menu, then the page and its parts, then the frame around them. */
export type Level = 0 | 1 | 2;

export interface Scope {
  readonly title: string;
  readonly level: Level;
  readonly bindings: readonly Binding[];
}

/** Scopes by level and the order in which they came; the last one is asked first. */
export const scopes = signal<readonly { readonly id: number; readonly scope: Scope }[]>([]);

/** False when single letters do nothing (a setting at Me). */
export const letters = signal(true);

let lastId = 0;
let pending = "";
let pendingTimer: ReturnType<typeof setTimeout> | undefined;

/** The name of a pressed key: `j`, `Shift+F`, `Ctrl+k`. */
export function keyName(event: KeyboardEvent): string {
  const letter = event.key.length === 1;
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.altKey) parts.push("Alt");
  // The shift of a letter without Ctrl is in the letter: R.
  if (event.shiftKey && (!letter || event.ctrlKey || event.metaKey)) parts.push("Shift");
  parts.push(letter && (event.ctrlKey || event.metaKey) ? event.key.toUpperCase() : event.key);
  return parts.join("+");
}

/** True when the key goes to a field or an editor. */
export function inField(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.tagName) return false;
  return (
    element.isContentEditable ||
    /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) ||
    // The editor is in a shadow root: its events come from the host.
    element.shadowRoot !== null
  );
}

function find(name: string): Binding | null {
  for (const { scope } of [...scopes.value].reverse())
    for (const binding of scope.bindings)
      if (binding.when !== false && [binding.keys].flat().includes(name)) return binding;
  return null;
}

function begins(prefix: string): boolean {
  return scopes.value.some(({ scope }) =>
    scope.bindings.some((one) => one.when !== false && [one.keys].flat().some((key) => key.startsWith(`${prefix} `))),
  );
}

/** Handles a pressed key. Exported for tests. */
export function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const name = keyName(event);
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (plain && inField(event.target) && name !== "Escape") return;
  // A dialog has the keys for itself.
  const dialog = typeof document !== "undefined" && document.querySelector("dialog[open]");
  if (dialog && plain) return;
  if (plain && event.key.length === 1 && !letters.value && event.key !== "?" && event.key !== "/") return;
  if (plain && (event.key === "Enter" || event.key === " ") && isControl(event.target)) return;
  const sequence = pending ? `${pending} ${name}` : name;
  clearTimeout(pendingTimer);
  pending = "";
  const binding = find(sequence) ?? (sequence === name ? null : find(name));
  if (binding) {
    event.preventDefault();
    binding.run(event);
  } else if (plain && begins(name)) {
    pending = name;
    pendingTimer = setTimeout(() => {
      pending = "";
    }, 1200);
  }
}

function isControl(target: EventTarget | null): boolean {
  return /^(A|BUTTON|SUMMARY)$/.test((target as HTMLElement | null)?.tagName ?? "");
}

/** Binds keys while the component is shown. */
export function useKeys(title: string, bindings: readonly Binding[], level: Level = 1): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  const shape = bindings.map((one) => `${[one.keys].flat().join("|")}~${one.label}~${one.when ?? true}`).join("\n");
  // At once, so that the key after one that changed the page finds its new bindings.
  useLayoutEffect(() => {
    const id = ++lastId;
    const scope: Scope = {
      title,
      level,
      bindings: bindings.map((binding, at) => ({ ...binding, run: (event) => latest.current[at]?.run(event) })),
    };
    scopes.value = [...scopes.value, { id, scope }].sort((a, b) => a.scope.level - b.scope.level || a.id - b.id);
    return () => {
      scopes.value = scopes.value.filter((entry) => entry.id !== id);
    };
  }, [title, shape, level]);
}

export function startKeys(): void {
  document.addEventListener("keydown", press);
}
