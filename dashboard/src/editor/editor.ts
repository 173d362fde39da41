// The editor: CodeMirror in an open shadow root, where its styles are constructed sheets, as the policy of the page
// wants. Loaded when it is first needed.

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput } from "@codemirror/language";
import { type Diagnostic as Mark, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension, Text } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  placeholder,
  tooltips,
} from "@codemirror/view";
import { type Word, wordsFor } from "../completions.ts";
import { type Language, languageOf, rootOf } from "./language.ts";
import { look } from "./look.ts";

export type { Language } from "./language.ts";

/** Advice or a fault at a line. `line` counts from 1, `column` from 0. */
export interface Diagnostic {
  readonly line: number;
  readonly column?: number;
  readonly severity: "error" | "warning" | "info";
  readonly message: string;
}

export interface CodeOptions {
  readonly text: string;
  readonly language: Language;
  readonly label: string;
  readonly readOnly: boolean;
  readonly hint: string;
  readonly words: () => readonly Word[];
  readonly onChange: (text: string) => void;
}

export interface CodeView {
  setText(text: string): void;
  setDiagnostics(diagnostics: readonly Diagnostic[]): void;
  setReadOnly(readOnly: boolean): void;
  goTo(line: number): void;
  focus(): void;
  destroy(): void;
}

function complete(language: Language, words: () => readonly Word[]) {
  return (context: CompletionContext): CompletionResult | null => {
    const before = context.state.doc.sliceString(Math.max(0, context.pos - 4000), context.pos);
    const found = context.matchBefore(/[\w.$-]+$/);
    if (!found && !context.explicit && !before.endsWith('"')) return null;
    const options = wordsFor(language, before, words());
    if (!options.length) return null;
    return {
      from: found?.from ?? context.pos,
      options: options.map(({ label, kind, detail }) => ({
        label,
        type: kind === "field" ? "property" : kind,
        ...(detail ? { detail } : {}),
      })),
      validFor: /^[\w.$-]*$/,
    };
  };
}

export function mountCode(host: HTMLElement, options: CodeOptions): CodeView {
  const root = rootOf(host);
  const writable = new Compartment();
  let fromOutside = false;
  const lock = (readOnly: boolean): Extension => [
    EditorState.readOnly.of(readOnly),
    EditorView.contentAttributes.of({ "aria-readonly": String(readOnly) }),
  ];
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        options.language === "cel" ? [] : [lineNumbers(), highlightActiveLineGutter()],
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        languageOf(options.language),
        EditorState.languageData.of(() => [{ autocomplete: complete(options.language, options.words) }]),
        autocompletion({ icons: false }),
        tooltips({ position: "absolute" }),
        lintGutter(),
        keymap.of([
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...completionKeymap,
          indentWithTab,
        ]),
        options.language === "cel" ? EditorView.lineWrapping : [],
        options.hint ? placeholder(options.hint) : [],
        EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false", tabindex: "0" }),
        writable.of(lock(options.readOnly)),
        EditorView.domEventHandlers({ beforeinput: typeOverSelection }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !fromOutside) options.onChange(update.state.doc.toString());
        }),
        look,
      ],
    }),
  });
  return {
    setText(text) {
      const change = changeBetween(view.state.doc.toString(), text);
      if (!change) return;
      fromOutside = true;
      view.dispatch({ changes: change });
      fromOutside = false;
    },
    setDiagnostics(diagnostics) {
      view.dispatch(
        setDiagnostics(
          view.state,
          diagnostics.map((one) => markOf(view.state.doc, one)),
        ),
      );
    },
    setReadOnly(readOnly) {
      view.dispatch({ effects: writable.reconfigure(lock(readOnly)) });
    },
    goTo(line) {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines))).from;
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      view.focus();
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

/**
 * Typing over a selection, done by the editor itself: the browser would put in elements with style attributes to keep
 * the look of what it deletes, which the policy of the page blocks with a message.
 */
function typeOverSelection(event: InputEvent, view: EditorView): boolean {
  const { main, ranges } = view.state.selection;
  if (event.inputType !== "insertText" || !event.data || view.composing || main.empty || view.state.readOnly)
    return false;
  const text = event.data;
  event.preventDefault();
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type" });
  const handlers = ranges.length === 1 ? view.state.facet(EditorView.inputHandler) : [];
  if (!handlers.some((handle) => handle(view, main.from, main.to, text, insert))) view.dispatch(insert());
  return true;
}

/** The smallest single change from a text to another: the cursor stays where it is. Null for the same text. */
export function changeBetween(before: string, after: string): { from: number; to: number; insert: string } | null {
  if (before === after) return null;
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}

function markOf(doc: Text, one: Diagnostic): Mark {
  const line = doc.line(Math.max(1, Math.min(one.line || 1, doc.lines)));
  const from = Math.min(line.from + (one.column ?? 0), line.to);
  const indent = /^\s*/.exec(line.text)?.[0].length ?? 0;
  const start = one.column ? from : Math.min(line.from + indent, line.to);
  return { from: start, to: Math.max(start, line.to), severity: one.severity, message: one.message };
}
