// The two views of a difference. Loaded when they are first needed.

import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { type Language, languageOf, rootOf } from "./language.ts";
import { look } from "./look.ts";

export interface DiffOptions {
  readonly before: string;
  readonly after: string;
  readonly language: Language;
  readonly sideBySide: boolean;
  readonly labels: readonly [string, string];
}

/** Draws a difference; returns what takes it away. */
export function mountDiff(host: HTMLElement, options: DiffOptions): () => void {
  const root = rootOf(host);
  const shared: Extension = [
    lineNumbers(),
    languageOf(options.language),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    look,
  ];
  const named = (label: string): Extension =>
    EditorView.contentAttributes.of({
      "aria-label": label,
      tabindex: "0",
      role: "textbox",
      "aria-readonly": "true",
    });
  const collapseUnchanged = { margin: 3, minSize: 6 };
  if (options.sideBySide) {
    const view = new MergeView({
      a: { doc: options.before, extensions: [shared, named(options.labels[0])] },
      b: { doc: options.after, extensions: [shared, named(options.labels[1])] },
      root,
      parent: root,
      collapseUnchanged,
      gutter: true,
    });
    return () => view.destroy();
  }
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.after,
      extensions: [
        shared,
        named(`${options.labels[0]} and ${options.labels[1]}`),
        unifiedMergeView({
          original: options.before,
          mergeControls: false,
          collapseUnchanged,
          gutter: true,
        }),
      ],
    }),
  });
  return () => view.destroy();
}
