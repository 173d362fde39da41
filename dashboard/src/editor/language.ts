// The languages of the editor and of differences, and the root that they are drawn in.

import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { indentUnit } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { cel } from "./cel.ts";

export type Language = "python" | "json" | "cel";

export function languageOf(language: Language): Extension {
  return language === "python" ? [python(), indentUnit.of("    ")] : language === "json" ? json() : cel;
}

/** The shadow root of a host; a host that is used again keeps its root. */
export function rootOf(host: HTMLElement): ShadowRoot {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open", delegatesFocus: false });
  root.replaceChildren();
  return root;
}
