// Who looks at the page, and what they may do.

import { computed, signal } from "@preact/signals";
import { get, send } from "./api.ts";
import type { Me, Right } from "./rows.ts";
import { store, stored } from "./storage.ts";
import { jsonText, parseJson } from "./json_numbers.ts";

export const me = signal<Me | null>(null);

/** True when the person may do this. */
export function can(right: Right): boolean {
  return me.value?.rights.includes(right) ?? false;
}

const ROLE_OF: Readonly<Record<Right, string>> = {
  view: "any role",
  operate: "the role operator",
  author: "the role author",
  admin: "the role admin",
  "payload:read": "the right payload:read",
  approve: "the right approve",
};

/** The role that has a right, for texts: "this needs the role operator". */
export function roleFor(right: string): string {
  return ROLE_OF[right as Right] ?? `the right ${right}`;
}

export async function loadMe(): Promise<void> {
  const found = await get<Me>("/me");
  me.value = found.kind === "user" ? found : { ...found, preferences: keptPreferences() };
}

function keptPreferences(): Record<string, unknown> {
  try {
    return (parseJson(stored("preferences") ?? "{}") ?? {}) as Record<string, unknown>;
  } catch {
    return {};
  }
}

export async function login(name: string, password: string): Promise<void> {
  await send("POST", "/login", { name, password });
}

/** Exchanges the secret of a one-time link for a login. */
export async function exchange(code: string): Promise<void> {
  await send("POST", "/login", { link: code });
}

export async function logout(): Promise<void> {
  await send("POST", "/logout");
}

/** Saves preferences at the server, so that they follow the person. */
export async function prefer(changes: Readonly<Record<string, unknown>>): Promise<void> {
  if (!me.value) return;
  const preferences = { ...me.value.preferences, ...changes };
  me.value = { ...me.value, preferences };
  // Only users have preferences at the server; the owner's stay in the browser.
  if (me.value.kind === "user") me.value = await send<Me>("PATCH", "/me", { preferences });
  else store("preferences", jsonText(preferences));
}

export function preference<T>(name: string, otherwise: T): T {
  return (me.value?.preferences?.[name] as T | undefined) ?? otherwise;
}

/** False when single letters are switched off. */
export const letterKeys = computed(() => preference("letter_keys", true));

export type Theme = "system" | "light" | "dark";
export const theme = signal<Theme>((stored("theme") as Theme | null) ?? "system");

export function setTheme(value: Theme): void {
  theme.value = value;
  store("theme", value === "system" ? null : value);
  applyTheme();
}

export function applyTheme(): void {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
}
