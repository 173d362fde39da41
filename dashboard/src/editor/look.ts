// The look of the editors: tokens of the dashboard, which reach into their shadow roots.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const theme = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--card)", fontSize: "var(--text-code)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "var(--lead-code)", overflow: "auto" },
  ".cm-content": { padding: "var(--s3) 0", caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "var(--sunk)",
    color: "var(--dim)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLineGutter": { color: "var(--ink)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--sel)",
    // Drawn in forced colours only.
    outline: "1px solid transparent",
  },
  ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--sel)", outline: "1px solid var(--control)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--sel)", outline: "1px solid var(--control)" },
  ".cm-placeholder": { color: "var(--dim)" },
  ".cm-tooltip": {
    border: "1px solid var(--line)",
    borderRadius: "var(--radius-control)",
    backgroundColor: "var(--card)",
    color: "var(--ink)",
    boxShadow: "var(--float)",
    fontFamily: "var(--sans)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "var(--small-box)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--sel)",
    color: "var(--ink)",
    outline: "1px solid transparent",
  },
  ".cm-completionDetail": { color: "var(--dim)", fontStyle: "normal", marginLeft: "var(--s4)" },
  ".cm-completionMatchedText": { color: "var(--accent)", textDecoration: "none" },
  ".cm-diagnostic": { padding: "var(--s2) var(--s4)", whiteSpace: "pre-wrap", maxWidth: "var(--dialog-width)" },
  ".cm-diagnostic-error": { borderLeft: "2px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "2px solid var(--warn)" },
  ".cm-diagnostic-info": { borderLeft: "2px solid var(--run)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warn)" },
  ".cm-lintRange-info": { backgroundImage: "none", textDecoration: "underline dotted var(--run)" },
  ".cm-lint-marker": { width: "0.7em", height: "0.7em", borderRadius: "50%", content: "none" },
  ".cm-lint-marker-error": { content: "none", backgroundColor: "var(--bad)" },
  ".cm-lint-marker-warning": { content: "none", backgroundColor: "var(--warn)" },
  ".cm-lint-marker-info": { content: "none", backgroundColor: "var(--run)" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--ink)", fontFamily: "var(--sans)" },
  ".cm-panels input, .cm-panels button": { color: "var(--ink)", background: "var(--card)" },
  ".cm-changedLine": { backgroundColor: "color-mix(in srgb, var(--ok) 9%, transparent)" },
  "&.cm-merge-a .cm-changedLine, .cm-deletedChunk": {
    backgroundColor: "color-mix(in srgb, var(--bad) 9%, transparent)",
  },
  ".cm-changedText, &.cm-merge-b .cm-changedText": {
    background: "color-mix(in srgb, var(--ok) 26%, transparent)",
    textDecoration: "var(--inserted)",
  },
  "&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText, .cm-deletedText": {
    background: "color-mix(in srgb, var(--bad) 26%, transparent)",
    textDecoration: "var(--deleted)",
  },
  // On these grounds the colours of strings and words have too little contrast.
  ".cm-changedText, .cm-changedText *, .cm-deletedText, .cm-deletedText *": { color: "var(--ink)" },
  "&.cm-merge-b": { borderLeft: "1px solid var(--line)" },
  ".cm-changeGutter": { width: "3px", paddingLeft: "0" },
  ".cm-changedLineGutter, &.cm-merge-b .cm-changedLineGutter": { background: "var(--ok)" },
  "&.cm-merge-a .cm-changedLineGutter, .cm-deletedLineGutter": { background: "var(--bad)" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"⋯"' },
  ".cm-collapsedLines": { background: "var(--sunk)", color: "var(--dim)", padding: "var(--s2) var(--s4)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--hold)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--ok)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--run)" },
  { tag: [tags.comment, tags.docString], color: "var(--dim)", fontStyle: "italic" },
  { tag: [tags.propertyName, tags.definition(tags.variableName)], color: "var(--accent)" },
  { tag: tags.special(tags.variableName), color: "var(--hold)" },
  {
    tag: [tags.function(tags.definition(tags.variableName)), tags.className],
    color: "var(--accent)",
    fontWeight: "600",
  },
  { tag: tags.meta, color: "var(--warn)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

export const look: Extension = [theme, syntaxHighlighting(colours)];
